"""Parts of a sample in files of the same name: stereo pairs, depths, pictures before and after.

image_2/000000.png        image_3/000000.png      depth/000000.png        folders beside each other, as KITTI's
train/A/1.png             train/B/1.png           train/label/1.png       the same in the folder of each split
Piano/im0.png             Piano/im1.png           Piano/disp0GT.pfm       names in folders of scenes, as Middlebury's

The first part is the image. Each other one is a column of files of its name, as a table with --file_columns has.
"""

from __future__ import annotations

import glob
import itertools
import os
import posixpath
import re
from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from typing import NamedTuple

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels.classes import ClassNumbering
from beam_pipeline.core.labels.further_columns import HEAD_BYTES, kind_of_files
from beam_pipeline.core.labels.schema import (
    FILE_TYPES,
    SKIP_KIND,
    Column,
    ColumnKind,
    further_column,
)
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.listing.folders import SPLIT_NAMES
from beam_pipeline.core.listing.globs import glob_regex
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.references import ImageRef, LabelRow
from beam_pipeline.core.text import enumerated
from beam_pipeline.layouts.layout import ListedLabels, Source, SourceOptions
from beam_pipeline.layouts.paths import image_roots
from beam_pipeline.layouts.tree import beginning, walk

_FIRST = re.compile(r"(images?|imgs?|im|left|rgb|colou?r|a|before|inputs?|source|lr|low|noisy)\d*")
"""Words in names of the part that is the image; of several such parts, the first by name is."""
MASK_NAMES = re.compile(
    r"mask|ground.?truth|(?<![a-z])gt(?![a-z])|label|annot|segment", re.IGNORECASE
)
"""Words in names of masks."""

_PAIRED = re.compile(r"im\d|view\d|left|right|im_?left|im_?right")
_MOST_FOLDERS = 300
_LOOKED_AT = 3  # files of a part
_RESERVED = ("image", "label")  # the beginnings of the keys of other features
_SHOWN = 8


class Parts(NamedTuple):
    """The parts of samples.

    Attributes:
      image: the name of the first part.
      partners: the names of the others, sorted.
      are_folders: whether they are names of folders; otherwise of files, without extension.
    """

    image: str
    partners: tuple[str, ...]
    are_folders: bool

    def pattern(self, name: str) -> str:
        """The glob of a part's files."""
        return f"**/{glob.escape(name)}/**" if self.are_folders else f"**/{glob.escape(name)}.*"


def find_parts(folder: str, image: str = "") -> Parts | None:
    """The parts of the samples in a folder, by the names in its first folders; None if there are none.

    Args:
      folder: its URI.
      image: the name of the part that is the image; empty for the likeliest.
    """
    names: dict[str, set[str]] = {}  # without extensions, of each folder
    pictures: dict[str, set[str]] = {}  # those of images
    for place in walk(folder, _MOST_FOLDERS):
        pictures[place.path] = {os.path.splitext(name)[0] for name in place.images}
        further = {os.path.splitext(name)[0] for name in place.files}
        names[place.path] = pictures[place.path] | further
    scenes = [path for path, images in pictures.items() if images]
    if scenes and 2 * sum(is_scene(pictures[path], image) for path in scenes) >= len(scenes):
        counts = Counter(name for path in scenes for name in names[path])
        usual = {name for name, count in counts.items() if 2 * count >= len(scenes)}
        image = image or min(usual & {*itertools.chain(*pictures.values())}, key=_rank, default="")
        return _parts(image, usual, are_folders=False)
    return _of_folders(names, pictures, image)


def is_scene(images: Set[str], image: str = "") -> bool:
    """True if a folder has the parts of one sample, by the names of its images."""
    if image:
        return image in images
    return sum(bool(_PAIRED.fullmatch(name.lower())) for name in images) > 1


def _of_folders(
    names: Mapping[str, set[str]], pictures: Mapping[str, set[str]], image: str
) -> Parts | None:
    """The parts that are folders beside each other with files of the same names."""
    beside: dict[str, dict[str, set[str]]] = {}
    for path, stems in names.items():
        parent, name = posixpath.split(path)
        if stems and name.lower() not in SPLIT_NAMES and parent in names:
            beside.setdefault(parent, {})[name] = stems
    candidates = {
        name
        for parent, folders in beside.items()
        for name, stems in folders.items()
        if pictures[f"{parent}/{name}"]
        and any(stems & further for also, further in folders.items() if also != name)
    }
    image = image or min(candidates, key=_rank, default="")
    partners = {
        name
        for folders in beside.values()
        for name, stems in folders.items()
        if image in candidates and stems & folders.get(image, set())
    }
    return _parts(image, partners, are_folders=True)


def _parts(image: str, names: set[str], *, are_folders: bool) -> Parts | None:
    partners = tuple(sorted(names - {image}, key=_rank))
    return Parts(image, partners, are_folders) if partners else None


def _rank(name: str) -> tuple[bool, bool, str]:
    """Where a part comes: images by their names first, what looks like masks last."""
    words = re.split(r"[\W_]+", name.lower())
    return bool(MASK_NAMES.search(name)), not any(map(_FIRST.fullmatch, words)), name


@dataclass(frozen=True)
class PartReader:
    """Tells which image a partner is for: the one with the same path, but for the part's name.

    Attributes:
      parts: the names; each partner is a column.
    """

    parts: Parts

    def row(self, file: ImageRef) -> LabelRow:
        """The row of a partner: a reference to it in its column."""
        image, partners, are_folders = self.parts
        *path, name = posixpath.splitext(file.key)[0].split("/")
        steps = path if are_folders else [name]
        at = max(i for i, step in enumerate(steps) if step in partners)
        values = [(file.uri, file.size, file.version) if n == steps[at] else None for n in partners]
        steps[at] = image
        return LabelRow(
            "/".join([*path, name] if are_folders else [*path, image]),
            tuple(values),
            "",
            file.uri,
            0,
        )


class Pairs:
    """Files of the same names in folders beside each other, or of names that repeat in each scene."""

    name = "pairs"
    option_names = frozenset({"columns", "key_column"})

    def recognise(self, options: SourceOptions) -> str:
        """Nothing: such folders may as well be classes, so that a question names this layout."""
        return ""

    def open(self, options: SourceOptions) -> Source:
        """Finds the parts, and looks at the first bytes of some of each.

        Raises:
          UsageError: there are none, or an option names a part that there is not.
        """
        roots = image_roots(options.images)
        if options.labels or len(roots) != 1 or roots[0].archive or roots[0].patterns:
            raise UsageError("--layout pairs needs one folder in --images, and no --labels")
        (root,) = roots
        parts = find_parts(root.uri, options.key_column)
        if parts is None:
            raise UsageError(
                f"--images {options.images[0]}: no folders beside each other there contain files of the same names, "
                "such as left/1.png and right/1.png, nor do folders of scenes, such as Piano/im0.png and "
                "Piano/im1.png"
                + (f" (--key_column {options.key_column})" if options.key_column else "")
            )
        chosen = _chosen(parts, options.columns)
        partners = [replace(root, patterns=(parts.pattern(name),)) for name in chosen]
        columns = [_column(*both, options.columns) for both in zip(chosen, partners, strict=True)]
        notes = [
            f"{parts.image} is the image, with {enumerated(chosen, _SHOWN)} beside it; an image without {chosen[0]} "
            "is left out"
        ]
        return Source(
            self.name,
            (replace(root, but=tuple(map(parts.pattern, parts.partners))),),
            ListedLabels(PartReader(parts._replace(partners=chosen)), tuple(partners), "partner"),
            LabelledImages(tuple(columns)),
            ClassNumbering(),
            tuple(notes),
        )


def _chosen(parts: Parts, kinds: Mapping[str, str]) -> tuple[str, ...]:
    """The partners that are written: those that options name, or all but those to skip. Raises UsageError."""
    for name, kind in kinds.items():
        if name not in parts.partners or kind not in (*FILE_TYPES, SKIP_KIND):
            raise UsageError(
                f"--columns {name}:{kind}: expected one of {', '.join(parts.partners)}, and one of "
                f"{', '.join(FILE_TYPES)} or {SKIP_KIND}"
            )
    named = [name for name in parts.partners if kinds.get(name) in FILE_TYPES]
    chosen = named or [name for name in parts.partners if name not in kinds]
    if not chosen:
        raise UsageError(f"--columns leaves no partners of {parts.image}; leave out fewer")
    for name in _RESERVED:
        if {name, f"{name}s"} <= {*chosen}:
            raise UsageError(
                f"{name} and {name}s would both be {name}s/encoded; rename one of them"
            )
    return tuple(chosen)


def _column(name: str, files_of: ImageRoot, kinds: Mapping[str, str]) -> Column:
    """The column of a partner. Pictures that look like masks are never resized, as ids would be mixed."""
    start, matches = len(files_of.uri) + 1, glob_regex(files_of.patterns[0]).fullmatch
    uris = (
        f"{place.path}/{file}"
        for place in walk(files_of.uri, _MOST_FOLDERS)
        for file in (*place.images, *place.files)
    )
    first = [*itertools.islice((uri for uri in uris if matches(uri[start:])), _LOOKED_AT)]
    kind = kind_of_files(first, lambda uri: beginning(uri, HEAD_BYTES) or None)
    if kinds.get(name) == ColumnKind.COPY or (
        kind is ColumnKind.PICTURE and MASK_NAMES.search(name)
    ):
        kind = ColumnKind.COPY
    return further_column(f"{name}s" if name in _RESERVED else name, kind)
