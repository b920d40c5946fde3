"""Caption files: each image has a text of its name beside it, as trainers of text-to-image models keep them.

    10_dog/0001.png    10_dog/0001.txt      or .caption
    00000/000000000.jpg    .txt    .json    img2dataset's `files`: the object's fields become columns

Sources: https://github.com/kohya-ss/sd-scripts, https://github.com/rom1504/img2dataset
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels.folders import SPLIT_NAMES
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.questions import Question, question
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.text import some
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.caption_files.finding import (
    ENDINGS,
    Found,
    look_for_captions,
)
from beam_pipeline.layouts.caption_files.reader import CaptionReader, fields_beside
from beam_pipeline.layouts.layout import FileLabels, Source, SourceOptions
from beam_pipeline.layouts.shared.label_folders import shown
from beam_pipeline.layouts.shared.paths import image_roots
from beam_pipeline.layouts.shared.sidecars import (
    CAPTION_COLUMN,
    KEY_COLUMN,
    SIDECAR_OPTIONS,
    inspect_sidecars,
)
from beam_pipeline.layouts.surroundings.folders import (
    LABEL_FOLDERS,
    TABLES,
    Folder,
    extension,
    is_coco,
    look,
    look_at_table,
    names_images,
    tree,
)
from beam_pipeline.layouts.table import table_notes, table_numbering
from beam_pipeline.storage import files

_OBJECTS, _OBJECTS_REMOTE = 500, 50  # JSON files from which types of columns are inferred
_IMAGES_WITHOUT = 500  # images, after which a folder without captions is not looked at any further
_MOST_FILES = 20  # tables or JSON files looked at, in a folder


class CaptionFiles:
    """A text of the image's name is its caption."""

    name = "caption_files"
    option_names = SIDECAR_OPTIONS | {"labels_encoding"}

    def recognise(self, options: SourceOptions) -> str:
        """Recognises texts for nearly all images of local folders, if nothing else may be their labels."""
        images, labels = _local(options.images), _local(options.labels)
        if images is None or labels is None:
            return ""
        if labels:
            found = [look_for_captions(images, labels)]
        else:
            found = [look_for_captions([folder], enough=_IMAGES_WITHOUT) for folder in images]
        if not all(one.cover_images and one.are_texts() for one in found):
            return ""
        if not labels and any(map(_has_other_labels, images)):
            return ""
        first = found[0].captions[found[0].ending][0]
        if labels:
            return f"captions such as {shown(first, options.labels[0])}"
        return f"a caption beside each image, such as {shown(first, options.images[0])}"

    def open(self, options: SourceOptions) -> Source:
        """Looks at names of the images, and at some of the JSON files beside them.

        Raises:
          UsageError: there are no captions, or a path cannot be used.
        """
        roots = _folders(options.images, "--images")
        typed = _folders(options.labels, "--labels") if options.labels else ()
        labels = typed or tuple(ImageRoot(root.uri) for root in roots)
        elsewhere = {root.uri for root in labels} - {root.uri for root in roots}
        found = look_for_captions(
            [root.uri for root in roots], [root.uri for root in labels] if elsewhere else ()
        )
        if not found.ending and not any(is_remote(root.uri) for root in (*roots, *labels)):
            raise UsageError(_no_captions(labels, elsewhere=bool(elsewhere)))
        ending = found.ending or ENDINGS[0]
        by_name = any(root.patterns for root in typed)
        schema, table, left_out = inspect_sidecars(
            labels[0].uri, _rows(found), options, {CAPTION_COLUMN: "str"}
        )
        reader = CaptionReader(
            tuple(sorted(elsewhere)),
            table,
            schema,
            options.labels_encoding,
            has_fields=bool(found.with_fields),
        )
        return Source(
            layout=self.name,
            roots=roots,
            labels=FileLabels(
                reader,
                folders=tuple(
                    root if root.patterns else replace(root, patterns=(_pattern(ending),))
                    for root in labels
                ),
            ),
            examples=LabelledImages(schema.columns),
            numbering=table_numbering(options, schema),
            notes=(*table_notes(schema), *left_out, *_folder_notes(found, roots)),
            questions=(
                *schema.questions,
                *(_other_captions(found, labels[0].uri) if not by_name else ()),
            ),
        )


def _local(paths: Sequence[str]) -> list[str] | None:
    """The URIs of local folders; None if a path is something else."""
    uris = [files.canonical(path) if path.strip() else "" for path in paths]
    return (
        None if any(not uri or is_remote(uri) or not os.path.isdir(uri) for uri in uris) else uris
    )


def _folders(paths: Sequence[str], option: str) -> tuple[ImageRoot, ...]:
    """The folders that an option names, with patterns of the files if it has globs.

    Raises:
      UsageError: one does not exist, or is an archive.
    """
    roots = image_roots(paths, option=option)
    for root in roots:
        if root.archive:
            raise UsageError(
                f"{option} {root.uri} is an archive; captions in archives are read with --layout webdataset"
            )
    return roots


def _no_captions(labels: Sequence[ImageRoot], *, elsewhere: bool) -> str:
    where = some([root.uri for root in labels])
    expected = "with the names of the images" if elsewhere else "beside images, with their names"
    return (
        f"no captions in {where}; expected files {' or '.join(ENDINGS)} {expected}. --labels names a "
        "folder of captions elsewhere"
    )


def _pattern(ending: str) -> str:
    """A glob of all files with an ending, in any case.

    >>> _pattern(".txt")
    '**/*.[tT][xX][tT]'
    """
    letters = "".join(f"[{letter}{letter.upper()}]" for letter in ending[1:])
    return f"**/*.{letters}"


def _rows(found: Found) -> list[dict[str, Any]]:
    """The columns of some samples, from the beginning and the end of the data set."""
    rows: list[dict[str, Any]] = [{KEY_COLUMN: "", CAPTION_COLUMN: "a caption"}]
    uris = found.with_fields
    most = _OBJECTS_REMOTE if uris and is_remote(uris[0]) else _OBJECTS
    for uri in uris if len(uris) <= most else (*uris[: most // 2], *uris[-most // 2 :]):
        try:
            fields = fields_beside(uri)
        except (OSError, ValueError, RecursionError):  # a dead letter of its image
            continue
        rows.append({**rows[0], **fields, KEY_COLUMN: uri, CAPTION_COLUMN: "a caption"})
    return rows


def _folder_notes(found: Found, roots: Sequence[ImageRoot]) -> Iterator[str]:
    """A note on folders whose names may be taken for classes."""
    below = {posixpath.basename(folder) for folder in found.folders} - {
        posixpath.basename(root.uri) for root in roots
    }
    named = sorted(
        name for name in below if not name.isdecimal() and name.lower() not in SPLIT_NAMES
    )
    if named:
        yield (
            f"names of folders, such as {named[0]}, are neither classes nor repeats here; --layout "
            "class_folders takes them as classes, without captions"
        )


def _other_captions(found: Found, folder: str) -> Iterator[Question]:
    """Asks which captions are meant if images have two."""
    if not found.other_ending:
        return
    ending, other = found.ending, found.other_ending
    yield question(
        "two_captions",
        f"Images have captions {ending} and {other}; those in {ending} would be written.",
        "For the others:",
        labels=(f"{folder}/**/*{other}",),
        layout=CaptionFiles.name,
    )


# --- other files that may be the labels -----------------------------------------------------------


def _has_other_labels(root: str) -> bool:
    """True if files in a folder or near it may be labels of the images, too."""
    here = look(root)
    above = look(posixpath.dirname(here.path))
    beside = [folder for folder in above.folders if folder != here.path]
    if any(_is_of_labels(folder) for folder in beside):
        return True
    if any(_is_rival(folder, here) for folder in tree(here)):
        return True
    tables = above.of_kind(TABLES)[:_MOST_FILES]
    return any(names_images(look_at_table(path), here.path, above.path) for path in tables)


def _is_rival(folder: Folder, here: Folder) -> bool:
    """True if a folder is one of labels, or a table, an annotation or a file of COCO's is in it."""
    if folder.path != here.path and _is_of_labels(folder.path):
        return True
    stems = [posixpath.splitext(name)[0] for name in folder.files]
    kinds = [extension(name) for name in folder.files]
    described = {stem for stem, kind in zip(stems, kinds, strict=True) if kind in ENDINGS}
    objects = []
    for stem, kind in zip(stems, kinds, strict=True):
        if kind == ".xml" or (kind in TABLES and f"{folder.path}/{stem}" not in folder.folders):
            return True  # img2dataset writes 00000.parquet beside 00000/
        if kind == ".json" and stem not in described:
            objects.append(f"{folder.path}/{stem}{kind}")
    return any(map(is_coco, objects[:_MOST_FILES]))


def _is_of_labels(folder: str) -> bool:
    return posixpath.basename(folder).lower() in LABEL_FOLDERS
