"""Matches label rows with images, one bucket at a time, and never by a guess.

A row names its image in one of these ways. They are tried in this order, and the first that any image
answers to decides. For the image `photos/cat/a.b.jpg`, listed below `photos`, and a label file
`photos/labels.csv`:

| order | a name | example |
|---|---|---|
| 1 | full URI, path below the root, or path from the label file's folder | `cat/a.b.jpg` |
| 2 | the same without extension | `cat/a.b` |
| 3 | file name | `a.b.jpg` |
| 4 | file name without extension | `a.b` |

In an archive, paths in the archive come after 1, without extension after 2: the path itself, that behind
the archive's name without extension, and that below its first folder.

So a row `a.jpg` means the image `a.jpg` in the root even if there is a `cat/a.jpg` (1 before 3); with
`cat/a.jpg` and `dog/a.jpg` alone, both answer to 3, and the row is ambiguous.

All names of an image share the part of the file name before the first dot, so images and rows that could meet are brought
together by it, here `a` (`meeting.bucket_of`), one entry each, however many names an image has.
"""

from __future__ import annotations

import functools
import posixpath
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from beam_pipeline.core.dead_letters import (
    DeadLetter,
    Reason,
    Stage,
    image_dead_letter,
    row_dead_letter,
)
from beam_pipeline.core.labels.meeting import normalized
from beam_pipeline.core.labels.unlabelled import KeepUnlabelled
from beam_pipeline.core.listing.folders import (
    first_folder_split,
    folder_meaning,
    without_class,
)
from beam_pipeline.core.references import (
    DEFAULT_SPLIT,
    ImageRef,
    LabelRow,
    LabelValue,
    SampleRef,
    Size,
)
from beam_pipeline.core.uris import is_remote

_Named = Mapping[str, Sequence[ImageRef]]

_LEAST_BUCKETS = 256
_BUCKETS_FOR_ANY = 1024  # where the size of the label files is not known
_BUCKET_BYTES = 2_000_000  # of label files: some 50,000 rows, and as many images
_BY_FOLDER_BYTES = 20_000_000  # of label files: below, no bucket can have more than 500,000 rows
_SHOWN = 3  # examples of names or values in a message


@dataclass
class Joined:
    """The outcome of one bucket.

    Attributes:
      samples: images with their labels.
      dead_letters: images and rows left out.
      orphan_rows: how many of the dead letters are rows without an image of their own.
      repeated_rows: rows that said again what another said.
    """

    samples: list[SampleRef] = field(default_factory=list)
    dead_letters: list[DeadLetter] = field(default_factory=list)
    orphan_rows: int = 0
    repeated_rows: int = 0

    def add(
        self,
        image: ImageRef,
        rows: Sequence[LabelRow],
        merger: RowMerger,
        keep: KeepUnlabelled | None = None,
    ) -> None:
        """Adds what comes of an image and the rows that mean it, in any order."""
        if merger.complete and all(row.values[0] is None for row in rows):
            rows = ()  # files that are of no use without the first
        if not rows and merger.unnamed:
            rows = [merger.unnamed.row(image)]
        if not rows:
            split = first_folder_split(image.path) or DEFAULT_SPLIT
            what = "mask is for" if merger.complete else "label row names"
            self.add_unlabelled(image, split, f"no {what} this image", keep)
            return
        rows = _in_order(rows) if len(rows) > 1 else rows
        distinct = merger.distinct(rows) if len(rows) > 1 else rows
        self.repeated_rows += len(rows) - len(distinct)
        outcome = _sample(image, distinct, merger, _claims(rows))
        if merger.by_folder and isinstance(outcome, SampleRef):
            outcome = _with_class_of_folder(image, outcome, keep)
        if isinstance(outcome, SampleRef):
            self.samples.append(keep.marked(outcome) if keep else outcome)
        else:
            self.dead_letters.append(outcome)

    def add_unlabelled(
        self, image: ImageRef, split: str, message: str, keep: KeepUnlabelled | None
    ) -> None:
        """Adds an image without labels: a sample of a split if it is kept, else a dead letter."""
        if keep:
            self.samples.append(keep.sample(image, split))
        else:
            self.dead_letters.append(_image_dead_letter(image, Reason.UNLABELLED, message))


def buckets_for(label_bytes: int | None) -> int:
    """In how many buckets images and rows are joined; each is held in memory by the one that joins it.

    Args:
      label_bytes: of all label files; None if that is not known before they are listed.
    """
    if label_bytes is None:
        return _BUCKETS_FOR_ANY
    return max(_LEAST_BUCKETS, label_bytes // _BUCKET_BYTES)


def meets_by_folder(label_bytes: int | None) -> bool:
    """Tells whether images and rows meet by their folders as well as by their names.

    It takes a further pass over the rows, which small tables do without.
    """
    return label_bytes is not None and label_bytes >= _BY_FOLDER_BYTES


def label_by_folder(images: Iterable[ImageRef], keep: KeepUnlabelled | None = None) -> Joined:
    """Takes the class, and the split where there is one, from each image's folder.

    Args:
      images: with keys that are theirs alone.
      keep: makes samples of images in no class folder; None makes them dead letters.
    """
    joined = Joined()
    for image in images:
        meaning = folder_meaning(image.path)
        if keep:
            meaning = without_class(meaning)
        split = meaning.split or DEFAULT_SPLIT
        if meaning.class_name:
            sample = labelled(image, split, (meaning.class_name,))
            joined.samples.append(keep.marked(sample) if keep else sample)
        else:
            joined.add_unlabelled(
                image, split, "lies in no class folder; move it into one, or give --labels", keep
            )
    return joined


def split_duplicates(images: Iterable[ImageRef]) -> tuple[list[ImageRef], list[DeadLetter]]:
    """Images whose key is theirs alone, and dead letters for the others."""
    images = list(images)
    if len({image.key for image in images}) == len(images):  # always, below a single root
        return images, []
    by_key: dict[str, list[ImageRef]] = defaultdict(list)
    for image in images:
        by_key[image.key].append(image)
    unique, dead_letters = [], []
    for same in by_key.values():
        if len(same) == 1:
            unique += same
            continue
        uris = sorted(image.uri for image in same)
        for image in same:
            others = ", ".join(uri for uri in uris if uri != image.uri)
            message = (
                f"has the same path below its root as {others}; rename one of them, or give "
                "--images a folder above both"
            )
            if image.aliases:
                message = f"its archive holds this path {len(same)} times; pack it again, with one"
            dead_letters.append(_image_dead_letter(image, Reason.DUPLICATE_KEY, message))
    return unique, dead_letters


class UnnamedImages(Protocol):
    """Speaks for images that no row names, where that says something of them: it is pickled."""

    def row(self, image: ImageRef) -> LabelRow:
        """The row that an image without one stands for."""

    def unread(self, uri: str, problem: str) -> LabelRow:
        """The row of a label file that cannot be read: its image does not count as unnamed."""


@dataclass(frozen=True)
class RowMerger:
    """Makes one row of all that name the same image.

    Attributes:
      repeated: of each column, whether the rows' lists are put together; the other columns, and
        all where this is empty, must agree.
      unnamed: what images without a row stand for; None to leave them out.
      complete: rows are files that complete each other: each fills columns that others leave empty.
      by_folder: the first column is empty in every row: it is the class, which is the image's folder.
      unique: of each column, whether a value of several rows is in the list once.
    """

    repeated: tuple[bool, ...] = ()
    unnamed: UnnamedImages | None = None
    complete: bool = False
    by_folder: bool = False
    unique: tuple[bool, ...] = ()

    def distinct(self, rows: Sequence[LabelRow]) -> Sequence[LabelRow]:
        """The rows without those that say again what an earlier one says."""
        seen: dict[Any, LabelRow] = {}
        for row in rows:
            said = tuple(map(_without_lines, row.values))
            seen.setdefault((row.problem, row.split, said), row)
        return list(seen.values())

    def merge(self, rows: Sequence[LabelRow]) -> LabelRow | tuple[LabelRow, LabelRow]:
        """The one row, or two that disagree.

        Args:
          rows: of one image, in the order of the label files.

        Returns: the row names no file if its lists come from several, as a box has but a line.
        """
        first = rows[0]
        if self.complete:
            return self._completed(rows)
        for row in rows[1:]:
            if row.split != first.split or self._single(row) != self._single(first):
                return first, row
        if not any(self.repeated):
            return first
        values: tuple[Any, ...] = tuple(
            _put_together(row.values[index] for row in rows) if repeated else first.values[index]
            for index, repeated in enumerate(self.repeated)
        )
        if any(self.unique):
            values = tuple(
                tuple(dict.fromkeys(value)) if unique else value
                for value, unique in zip(values, self.unique, strict=True)
            )
        if all(row.file == first.file for row in rows):
            return first._replace(values=values)
        return first._replace(values=tuple(map(_without_lines, values)), file="", line=0)

    def _completed(self, rows: Sequence[LabelRow]) -> LabelRow | tuple[LabelRow, LabelRow]:
        merged = rows[0]
        for row in rows[1:]:
            for one, other in zip(merged.values, row.values, strict=True):
                if None not in (one, other) and one != other:
                    return merged, row
            if merged.split and row.split and merged.split != row.split:
                return merged, row
            values = (b if a is None else a for a, b in zip(merged.values, row.values, strict=True))
            merged = merged._replace(values=tuple(values), split=merged.split or row.split)
        return merged

    def _single(self, row: LabelRow) -> list[LabelValue]:
        repeated = self.repeated or (False,) * len(row.values)
        return [value for value, many in zip(row.values, repeated, strict=True) if not many]


def _put_together(lists: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(item for values in lists for item in values or ())


def _without_lines(value: Any) -> Any:
    """A value as it is, boxes without the lines they came from."""
    if not isinstance(value, tuple):
        return value
    return tuple((*item[:4], 0) if isinstance(item, tuple) else item for item in value)


def _in_order(rows: Sequence[LabelRow]) -> Sequence[LabelRow]:
    """Rows as their files have them; in a file without lines, by what they say."""
    return sorted(
        rows,
        key=lambda row: (
            *(row.file, row.line, row.split, row.problem),
            *(repr(row.values), row.size or ()),
        ),
    )


def _claims(rows: Sequence[LabelRow]) -> Mapping[Size, LabelRow]:
    """The sizes that rows of one image claim, each with the first that does; many tools write 0."""
    claims: dict[Size, LabelRow] = {}
    for row in rows:
        if row.size and min(row.size) > 0:
            claims.setdefault(row.size, row)
    return claims


AGREE = RowMerger()


def join_bucket(
    images: Iterable[ImageRef],
    rows: Iterable[LabelRow],
    merger: RowMerger = AGREE,
    keep: KeepUnlabelled | None = None,
) -> Joined:
    """Joins the images and rows of one bucket; the result does not depend on their order.

    Args:
      images: those of the bucket.
      rows: those of the bucket.
      merger: makes one row of all that name the same image.
      keep: makes samples of images without a row; None makes them dead letters.
    """
    images = list(images)
    unique, dead_letters = split_duplicates(images)
    joined = Joined(dead_letters=dead_letters)
    alone = {image.key for image in unique}
    names = _ImageNames(images)
    rows_of: dict[str, list[LabelRow]] = defaultdict(list)
    named_by_others: set[str] = set()
    named_only = replace(merger, unnamed=None)
    for row in rows:
        found = names.find(row)
        if len(found) == 1 and found[0].key in alone:
            rows_of[found[0].key].append(row)
            continue
        joined.orphan_rows += 1
        joined.dead_letters.append(_orphan(row, found, names))
        named_by_others.update(image.key for image in found)
    for image in unique:
        ambiguous = image.key in named_by_others  # a row may mean it, so it is not without labels
        joined.add(image, rows_of.get(image.key, ()), named_only if ambiguous else merger, keep)
    return joined


class _ImageNames:
    """Every name that the images of a bucket answer to, in the order in which they count.

    Most rows say the exact one, so the others are only made when a row asks for them.
    """

    def __init__(self, images: Sequence[ImageRef]) -> None:
        self._images = images
        self._keys = _named(images, [normalized(image.key) for image in images])

    @functools.cached_property
    def _paths(self) -> _Named:
        return _by_path(self._images, lambda path: path)

    @functools.cached_property
    def _without_extension(self) -> _Named:
        return _by_path(self._images, _stem)

    @functools.cached_property
    def _bare(self) -> _Named:
        return _named(self._images, [_file_name(image) for image in self._images])

    @functools.cached_property
    def _bare_without_extension(self) -> _Named:
        return _named(self._images, [_stem(_file_name(image)) for image in self._images])

    @functools.cached_property
    def _in_archives(self) -> Sequence[_Named]:
        """Members of archives by each of their further names; none where there are no archives."""
        members = [image for image in self._images if image.aliases]
        aliases = zip(*(image.aliases for image in members), strict=True)
        return [_named(members, map(normalized, names)) for names in aliases]

    @functools.cached_property
    def _in_archives_without_extension(self) -> Sequence[_Named]:
        return [
            _named(
                [image for images in named.values() for image in images],
                [_stem(name) for name, images in named.items() for _ in images],
            )
            for named in self._in_archives
        ]

    def find(self, row: LabelRow) -> Sequence[ImageRef]:
        """The images that the row names, by the first way of naming that finds any."""
        names = _names_of(row)
        found = self._exact(names[0]).get(names[0])
        if found is None:
            others = (named.get(name) for named, name in self._further_attempts(names, row.file))
            found = next(filter(None, others), ())
        if len(found) > 1:  # names that differ in Unicode's composition only
            same = [image for image in found if row.name in (image.key, image.uri)]
            return same if len(same) == 1 else found
        return found

    def called_like(self, row: LabelRow) -> Sequence[ImageRef]:
        """The images in any folder that have the file name of the path that a row names."""
        file_name = _names_of(row)[-1].rpartition("/")[2]
        named = self._bare.get(file_name) or self._bare_without_extension.get(file_name)
        return named or ()

    def _further_attempts(
        self, names: Sequence[str], label_file: str
    ) -> Iterator[tuple[_Named, str]]:
        for name in names[1:]:
            yield self._exact(name), name
        below = _below_label_file(names[-1], label_file)
        yield self._exact(below), below
        for named in self._in_archives:
            for name in names:
                yield named, name
        for name in (*names, below):
            yield self._without_extension, name
        for named in self._in_archives_without_extension:
            for name in names:
                yield named, name
        for named in (self._bare, self._bare_without_extension):
            for name in names:
                yield named, name

    def _exact(self, name: str) -> _Named:
        """The columns that may hold a path: no URI is relative, so most paths can only be keys."""
        return self._paths if name.startswith("/") or is_remote(name) else self._keys


def _named(images: Iterable[ImageRef], names: Iterable[str]) -> _Named:
    named: dict[str, list[ImageRef]] = defaultdict(list)
    for image, name in zip(images, names, strict=True):
        named[name].append(image)
    return named


def _by_path(images: Iterable[ImageRef], part: Callable[[str], str]) -> _Named:
    """The images by a part of their keys and of their URIs."""
    named: dict[str, list[ImageRef]] = defaultdict(list)
    for image in images:
        key, uri = part(normalized(image.key)), part(normalized(image.uri))
        named[key].append(image)
        if uri != key:
            named[uri].append(image)
    return named


def _file_name(image: ImageRef) -> str:
    return normalized(image.key).rpartition("/")[2]


def _stem(path: str) -> str:
    return posixpath.splitext(path)[0]


def _names_of(row: LabelRow) -> Sequence[str]:
    """The row's name as written, and with `/` for the backslashes of Windows."""
    name = normalized(row.name)
    if name.startswith("file://"):
        name = name[len("file://") :]
    if "\\" not in name and not name.startswith("./"):  # as nearly all are
        return (name,)
    names = (name, name.replace("\\", "/")) if "\\" in name else (name,)
    return tuple(
        posixpath.normpath(name) if name.startswith("./") and _is_file_name(name) else name
        for name in names
    )


def _is_file_name(path: str) -> bool:
    """True if a path ends in a name; one that does not keeps its form, as in `bucket_of`."""
    return posixpath.basename(path) not in ("", ".", "..")


def _below_label_file(name: str, label_file: str) -> str:
    """The URI that a name has if it is a path from the label file's folder."""
    if is_remote(name) or not _is_file_name(name):
        return name
    folder = posixpath.dirname(label_file)
    if is_remote(folder):
        return f"{folder}/{name}"
    return posixpath.normpath(posixpath.join(folder, name))


def _sample(
    image: ImageRef,
    rows: Sequence[LabelRow],
    merger: RowMerger,
    claims: Mapping[Size, LabelRow],
) -> SampleRef | DeadLetter:
    """The sample or dead letter of an image, its distinct rows in order, and the sizes they claim."""
    for row in rows:
        if row.problem:
            return DeadLetter(
                stage=Stage.LABELS.value,
                key=image.key,
                uri=image.uri,
                reason=Reason.BAD_LABEL_VALUE.value,
                message=row.problem,
                file=row.file,
                line=row.line,
            )
    if len(claims) > 1:
        return _conflicting_sizes(image, claims)
    merged = merger.merge(rows)
    if isinstance(merged, LabelRow):
        split = merged.split or first_folder_split(image.path) or DEFAULT_SPLIT
        return labelled(image, split, merged.values, merged.file, next(iter(claims), None))
    first, row = merged
    if merger.complete and first.split == row.split:
        message = (
            f"{first.file} and {row.file} are both masks of this image; remove one, or name those "
            "that are meant with a pattern, such as --masks 'masks/**/*_labelIds.png'"
        )
        return _image_dead_letter(image, Reason.CONFLICTING_LABELS, message)
    message = f"{_source_of(first)} says {_said(first)}, {_source_of(row)} says {_said(row)}; "
    return _conflict(image, row, f"{message}remove the wrong one")


def _with_class_of_folder(
    image: ImageRef, sample: SampleRef, keep: KeepUnlabelled | None
) -> SampleRef | DeadLetter:
    """The sample with its folder as the class; a dead letter if it has none and is not kept."""
    meaning = folder_meaning(image.path)
    if keep:
        meaning = without_class(meaning)
    elif not meaning.class_name:
        message = (
            "is in a list without labels, and lies in no class folder; move it into one, or give the "
            "list a second column with labels"
        )
        return _image_dead_letter(image, Reason.UNLABELLED, message)
    return sample._replace(labels=(meaning.class_name or None, *sample.labels[1:]))


def _conflicting_sizes(image: ImageRef, claims: Mapping[Size, LabelRow]) -> DeadLetter:
    (first_size, first), (size, row), *_ = claims.items()
    message = (
        f"{_source_of(first)} claims an image of {first_size[0]} x {first_size[1]} pixels, "
        f"{_source_of(row)} one of {size[0]} x {size[1]}; correct the wrong one"
    )
    return _conflict(image, row, message)


def _conflict(image: ImageRef, row: LabelRow, message: str) -> DeadLetter:
    return DeadLetter(
        stage=Stage.JOIN.value,
        key=image.key,
        uri=image.uri,
        reason=Reason.CONFLICTING_LABELS.value,
        message=message,
        file=row.file,
        line=row.line,
    )


def _source_of(row: LabelRow) -> str:
    return f"{row.file}, line {row.line}" if row.line else row.file


def _said(row: LabelRow) -> str:
    if row.split and all(value is None for value in row.values):
        return f"the split {row.split}"
    values = ", ".join(map(_shown, row.values))
    return f"{values} in {row.split}" if row.split else values


def _shown(value: Any) -> str:
    """A value as a message shows it: of a list the first few, boxes without their lines."""
    if not isinstance(value, tuple):
        return repr(value)
    items = [repr(item[:4] if isinstance(item, tuple) else item) for item in value[:_SHOWN]]
    more = f" and {len(value) - _SHOWN} more" if len(value) > _SHOWN else ""
    return f"[{', '.join(items)}{more}]"


def _orphan(row: LabelRow, found: Sequence[ImageRef], names: _ImageNames) -> DeadLetter:
    """The dead letter of a row that names no image, or several."""
    keys = sorted(image.key for image in found)
    if not found:
        reason, message = Reason.MISSING_IMAGE, _missing(row, names)
    elif len(set(keys)) == 1:
        uris = ", ".join(sorted(image.uri for image in found))
        reason = Reason.AMBIGUOUS_KEY
        message = (
            f"names {uris}, which is not the only image of this path below a root; rename one, or give "
            "--images a folder above both and write the path from there in the row"
        )
    else:
        more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
        shown = f"{', '.join(keys[:_SHOWN])}{more}"
        reason = Reason.AMBIGUOUS_KEY
        message = f"could mean {shown}; name the path relative to the root"
    return row_dead_letter(
        stage=Stage.JOIN,
        key=row.name,
        reason=reason,
        message=message,
        file=row.file,
        line=row.line,
    )


def _missing(row: LabelRow, names: _ImageNames) -> str:
    """The name that was looked for; for a path, also images of its file name in other folders."""
    if "/" not in _names_of(row)[-1]:
        return "no listed image has this name, with or without folder or extension"
    elsewhere = sorted(image.key for image in names.called_like(row))
    if not elsewhere:
        return "no listed image has this path or its file name, with or without extension"
    more = f" and {len(elsewhere) - _SHOWN} more" if len(elsewhere) > _SHOWN else ""
    return (
        "no listed image has this path, with or without extension; of the same file name there is "
        f"{', '.join(elsewhere[:_SHOWN])}{more}"
    )


def labelled(
    image: ImageRef,
    split: str,
    labels: tuple[LabelValue, ...],
    origin: str = "",
    claimed_size: Size | None = None,
) -> SampleRef:
    """An image with its labels."""
    return SampleRef(
        *(image.key, image.uri, image.size, split, labels),
        offset=-1,
        origin=origin,
        version=image.version,
        claimed_size=claimed_size,
        digest=image.digest,
    )


def _image_dead_letter(image: ImageRef, reason: Reason, message: str) -> DeadLetter:
    return image_dead_letter(
        stage=Stage.JOIN, key=image.key, uri=image.uri, reason=reason, message=message
    )
