"""Images without labels, written together with labelled ones (`--unlabelled keep` and `empty`).

With `keep`, their label features are left out. Readers cannot tell an absent list from an empty one, so
each example also has the feature `image/labelled`: 1 if it was labelled, else 0. With `empty`, they
are images without objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, row_dead_letter
from beam_pipeline.core.labels.schema import Column, ColumnKind
from beam_pipeline.core.references import ImageRef, LabelRow, LabelValue, SampleRef

UNLABELLED_CHOICES = ("auto", "drop", "keep", "empty")

_MARK = Column("labelled", ColumnKind.INT64, "image/labelled", required=True)
_LABELS = (  # features that are *the* label
    *("image/class", "image/label", "image/object/"),
    *("image/segmentation/", "image/panoptic"),
)


@dataclass(frozen=True)
class WithoutObjects:
    """Makes rows without objects for images that no row names.

    Attributes:
      values: of such a row.
    """

    values: tuple[LabelValue, ...]

    def row(self, image: ImageRef) -> LabelRow:
        return LabelRow(image.key, self.values, split="", file="", line=0)

    def unread(self, uri: str, problem: str) -> DeadLetter:
        return row_dead_letter(Stage.LABELS, uri, Reason.BAD_ROW, problem, uri, 0)


@dataclass(frozen=True)
class KeepUnlabelled:
    """Makes samples of images without labels, and marks all samples as labelled or not.

    Attributes:
      columns: the label columns, followed by the mark; none but the mark is required.
    """

    columns: tuple[Column, ...]

    @classmethod
    def of(cls, columns: Sequence[Column]) -> KeepUnlabelled:
        """Builds the object for samples with these label columns."""
        return cls((*(replace(column, required=False) for column in columns), _MARK))

    @property
    def label_columns(self) -> tuple[Column, ...]:
        """The columns without the mark."""
        return self.columns[:-1]

    def sample(self, image: ImageRef, split: str) -> SampleRef:
        """Makes the sample of an image without labels."""
        labels = (*(None for _ in self.label_columns), 0)
        return SampleRef(
            *(image.key, image.uri, image.size, split, labels),
            version=image.version,
            digest=image.digest,
        )

    def marked(self, sample: SampleRef) -> SampleRef:
        """Marks the sample of a row. One with an empty label is unlabelled but keeps its other columns."""
        labelled = self._label is None or sample.labels[self._label] is not None
        return sample._replace(labels=(*sample.labels, int(labelled)))

    @cached_property
    def _label(self) -> int | None:
        """Index of the label column; None if there are only further columns."""
        indices = (i for i, c in enumerate(self.label_columns) if c.feature.startswith(_LABELS))
        return next(indices, None)


def is_unlabelled(sample: SampleRef) -> bool:
    """True if a marked sample lacks a label."""
    return sample.labels[-1] == 0
