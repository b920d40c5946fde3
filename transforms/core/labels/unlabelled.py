"""Images without labels, written beside those that have some (`--unlabelled keep`).

Their label features are left out. A list that is left out reads like an empty one, so each example
also says whether it was labelled: the feature `image/labelled` is 1 or 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from beam_pipeline.transforms.core.labels.schema import Column, ColumnKind
from beam_pipeline.transforms.core.references import ImageRef, SampleRef

UNLABELLED_CHOICES = ("drop", "keep")

UNLABELLED_FOLDERS = frozenset({"unlabelled", "unlabeled"})
"""Names, in lower case, of folders beside class folders that are no class where images are kept."""

_MARK = Column("labelled", ColumnKind.INT64, "image/labelled", required=True)
_LABELS = (  # features that are *the* label
    *("image/class", "image/label", "image/object/"),
    *("image/segmentation/", "image/panoptic"),
)


@dataclass(frozen=True)
class KeepUnlabelled:
    """Makes samples of images without labels, and marks those of all others.

    Attributes:
      columns: the label columns, with the mark as the last; none of the others is required.
    """

    columns: tuple[Column, ...]

    @classmethod
    def of(cls, columns: Sequence[Column]) -> KeepUnlabelled:
        """For samples with these label columns."""
        return cls((*(replace(column, required=False) for column in columns), _MARK))

    @property
    def label_columns(self) -> tuple[Column, ...]:
        """The columns without the mark."""
        return self.columns[:-1]

    def sample(self, image: ImageRef, split: str) -> SampleRef:
        """An image without labels."""
        labels = (*(None for _ in self.label_columns), 0)
        return SampleRef(image.key, image.uri, image.size, split, labels, version=image.version)

    def marked(self, sample: SampleRef) -> SampleRef:
        """A sample of a row. One whose label is left empty is unlabelled; its other columns stay."""
        labelled = self._label is None or sample.labels[self._label] is not None
        return sample._replace(labels=(*sample.labels, int(labelled)))

    @cached_property
    def _label(self) -> int | None:
        """Index of the column that is the label; None where there are further columns alone."""
        indices = (i for i, c in enumerate(self.label_columns) if c.feature.startswith(_LABELS))
        return next(indices, None)


def is_unlabelled(sample: SampleRef) -> bool:
    """Tells whether a sample that was marked has no label."""
    return sample.labels[-1] == 0
