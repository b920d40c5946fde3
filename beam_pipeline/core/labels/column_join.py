"""Joins and labels the columns of references, where nothing about them is unusual.

The general way is `join.py`, one reference at a time. Functions here give the same samples several
times as fast, or None where they cannot tell: the general way then decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from beam_pipeline.core.listing.folders import (
    FolderMeaning,
    first_folder_split,
    folder_meaning,
)
from beam_pipeline.core.packing import Columns, Same, chosen_rows
from beam_pipeline.core.references import DEFAULT_SPLIT, ImageRef, LabelRow, SampleRef

_KEY, _URI, _SIZE, _VERSION, _ALIASES, _DIGEST = range(len(ImageRef._fields))
_NAME, _VALUES, _SPLIT, _FILE, _LINE, _PROBLEM, _ROW_SIZE = range(len(LabelRow._fields))


def label_columns_by_folder(images: Columns) -> Columns | None:
    """The columns of samples, each with the class and the split of its folder.

    Args:
      images: columns of `ImageRef`s with keys that are theirs alone.
    """
    if _any(images[_ALIASES]):
        return None
    meanings: dict[str, FolderMeaning] = {}
    folders = [key[: key.rfind("/") + 1] for key in images[_KEY]]
    for folder in set(folders):
        meaning = meanings[folder] = folder_meaning(folder)
        if not meaning.class_name:
            return None
    labels = {folder: (meaning.class_name,) for folder, meaning in meanings.items()}
    split_of = {folder: meaning.split or DEFAULT_SPLIT for folder, meaning in meanings.items()}
    splits: Sequence[str] = Same(DEFAULT_SPLIT, len(folders))
    if set(split_of.values()) != {DEFAULT_SPLIT}:
        splits = [split_of[folder] for folder in folders]
    return _samples(images, splits=splits, labels=[labels[folder] for folder in folders])


def join_columns_by_key(images: Columns, rows: Columns) -> tuple[Columns, Sequence[int]] | None:
    """The columns of samples, and which of the images no row names.

    None unless every row names another image, exactly and by its key.

    Args:
      images: columns of the `ImageRef`s of a bucket.
      rows: columns of its `LabelRow`s.
    """
    keys, names = images[_KEY], rows[_NAME]
    if _any(images[_ALIASES]) or _any(rows[_PROBLEM]) or not _are_relative(keys, names):
        return None
    image_of = dict(zip(keys, range(len(keys)), strict=True))
    if len(image_of) != len(keys):
        return None
    chosen = [image_of.get(name, -1) for name in names]
    without = set(range(len(keys))).difference(chosen)
    if -1 in chosen or len(without) != len(keys) - len(chosen):
        return None
    of_rows = chosen_rows(images, chosen)
    samples = _samples(
        of_rows,
        splits=_splits(of_rows[_KEY], rows[_SPLIT]),
        labels=rows[_VALUES],
        origins=rows[_FILE],
        sizes=[size if size and min(size) > 0 else None for size in rows[_ROW_SIZE]]
        if _any(rows[_ROW_SIZE])
        else None,
    )
    return samples, sorted(without)


def _any(column: Sequence[Any]) -> bool:
    """True if a value says something: most columns hold the same empty one everywhere."""
    return column.count(column[0]) != len(column) or bool(column[0])


def _are_relative(keys: Sequence[str], names: Sequence[str]) -> bool:
    """True if names are paths in one form only, so that an equal key is the first way of naming."""
    key_text, text = "\n" + "\n".join(keys), "\n" + "\n".join(names)
    return (
        key_text.isascii()
        and text.isascii()
        and not any(mark in text for mark in ("\\", "\n/", "\n./", "://"))
    )


def _splits(keys: Sequence[str], said: Sequence[str]) -> Sequence[str]:
    """The split that each row says, or the first folder, or else the default one."""
    of_folder = {
        folder: first_folder_split(folder + "/") or DEFAULT_SPLIT
        for folder in {key[: key.find("/")] for key in keys if "/" in key}
    }
    if not _any(said) and set(of_folder.values()) <= {DEFAULT_SPLIT}:
        return Same(DEFAULT_SPLIT, len(keys))
    return [
        split or of_folder.get(key.partition("/")[0] if "/" in key else "", DEFAULT_SPLIT)
        for key, split in zip(keys, said, strict=True)
    ]


def _samples(
    images: Columns,
    *,
    splits: Sequence[str],
    labels: Sequence[Any],
    origins: Sequence[str] | None = None,
    sizes: Sequence[Any] | None = None,
) -> Columns:
    count = len(splits)
    columns = {
        "key": images[_KEY],
        "uri": images[_URI],
        "size": images[_SIZE],
        "split": splits,
        "labels": labels,
        "offset": Same(-1, count),
        "origin": origins or Same("", count),
        "version": images[_VERSION],
        "claimed_size": sizes or Same(None, count),
        "digest": images[_DIGEST],
    }
    return [columns[name] for name in SampleRef._fields]


def images_in(images: Columns, rows: Sequence[int]) -> list[ImageRef]:
    """The images in some rows."""
    make: Callable[..., ImageRef] = ImageRef
    return [make(*(column[row] for column in images)) for row in rows]
