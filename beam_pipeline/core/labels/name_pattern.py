r"""Labels in the names of image files, by a regular expression with named groups.

`(?P<label>.+)_(?P<camera>\d+)\.jpg` gives `night/tawny_owl_3.jpg` the label tawny_owl and the
camera 3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from beam_pipeline.core.dead_letters import Reason, Stage, image_dead_letter
from beam_pipeline.core.labels import cells, join, samples, schema
from beam_pipeline.core.listing.folders import SPLIT_NAMES, first_folder_split
from beam_pipeline.core.references import DEFAULT_SPLIT, ImageRef, LabelValue

LABEL_GROUP = "label"
SPLIT_GROUP = "split"


@dataclass(frozen=True)
class NamePattern:
    """A regular expression for file names, and the columns of its groups.

    Attributes:
      pattern: matches the whole file name or, if it contains a `/`, the whole path below the root; in
        an archive, the path in the archive or the whole key.
      columns: one per group, the label first; the group `split` has none.
    """

    pattern: str
    columns: tuple[schema.Column, ...]

    def label(
        self, images: Iterable[ImageRef], keep: samples.KeepUnlabelled | None = None
    ) -> join.Joined:
        """Takes the labels, and the split if there is a group for it, from each image's name.

        Args:
          images: images with unique keys.
          keep: makes samples of images whose names do not match; None makes them dead letters.
        """
        joined = join.Joined(keep=keep)
        pattern = re.compile(self.pattern)
        for image in images:
            name = image.path if "/" in self.pattern else image.path.rpartition("/")[2]
            match = pattern.fullmatch(name) or pattern.fullmatch(image.key)
            if not match:
                message = f"its name {name!r} does not match --label_from {self.pattern}"
                split = first_folder_split(image.path) or DEFAULT_SPLIT
                joined.add_unlabelled(image, split, message)
                continue
            try:
                values, split = self._values(match, image.path)
            except cells.BadCellError as error:
                reason, message = Reason.BAD_LABEL_VALUE, str(error)
                letter = image_dead_letter(Stage.LABELS, image.key, image.uri, reason, message)
                joined.dead_letters.append(letter)
                continue
            sample = samples.labelled(image, split, values)
            joined.add_each([sample], images=1)
        return joined

    def _values(self, match: re.Match[str], path: str) -> tuple[tuple[LabelValue, ...], str]:
        """The values of the columns, and the split, of an image. Raises BadCellError."""
        groups = match.groupdict()
        values = []
        for column in self.columns:
            try:
                values.append(cells.parse_cell(groups[column.name], column))
            except cells.BadCellError as error:
                raise cells.BadCellError(f"group {column.name!r}: {error}") from error
        text = groups.get(SPLIT_GROUP) or ""
        split = SPLIT_NAMES.get(text.lower(), text)
        if text and not re.fullmatch(r"\w+", split):
            raise cells.BadCellError(f"group {SPLIT_GROUP!r}: {text!r} names no split")
        return tuple(values), split or first_folder_split(path) or DEFAULT_SPLIT


def name_pattern(pattern: str, kinds: Mapping[str, schema.ColumnKind | None]) -> NamePattern:
    """Builds the pattern with its columns.

    Args:
      pattern: a regular expression with named groups.
      kinds: group -> its kind, or None to leave it out. By default the label is a class, and other
        groups are texts.
    """
    groups = re.compile(pattern).groupindex
    columns = []
    for name in sorted(groups, key=lambda name: (name != LABEL_GROUP, groups[name])):
        kind = kinds.get(name, schema.ColumnKind.BYTES)
        if name != SPLIT_GROUP and kind is not None:
            make = schema.label_column if name == LABEL_GROUP else schema.further_column
            columns.append(make(name, kind))
    return NamePattern(pattern, tuple(columns))
