"""One shard as a piece of work that can be handed to any worker: a thread, a process, a machine.

Nothing here imports Beam, so that a process that does nothing else starts in a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from transforms import files
from transforms.core.dead_letters import DeadLetter
from transforms.core.example import SampleEncoder
from transforms.core.label_schema import Column, ColumnKind, feature_kinds, object_column
from transforms.core.pixels import IMAGE_ENCODINGS, PixelFormat, pixel_preparer
from transforms.core.references import SampleRef, unpack
from transforms.core.shard_writer import (
    CHECKS,
    OUTPUTS,
    ExampleMaker,
    ExampleReader,
    Maker,
    sort_by_placement,
    write_shard,
)
from transforms.core.sharding import Placer, ShardInfo, ShardSpec
from transforms.progress import Reporter

_OBJECT_IDS = object_column("id", ColumnKind.INT64).feature


@dataclass(frozen=True)
class EncodingOptions:
    """What shapes an example beside its image.

    Attributes:
      columns: the label columns.
      image_check: "header" or "full".
      seed: of the hash that orders samples.
      renames: the key to write a feature under -> its standard key.
      clip_boxes: whether boxes that reach out of their image are cut at its edge.
      pixels: how images that are bare pixels are laid out; None where images are files.
      image_encoding: "png" or "raw", for bare pixels.
      features: what samples hold that come as serialized examples; None where they are made here.
    """

    columns: tuple[Column, ...]
    image_check: str
    seed: int
    renames: Mapping[str, str] = field(default_factory=dict)
    clip_boxes: bool = False
    pixels: PixelFormat | None = None
    image_encoding: str = IMAGE_ENCODINGS[0]
    features: Mapping[str, Any] | None = None

    @property
    def written_features(self) -> Mapping[str, Any]:
        """Every feature of an example, as the manifest has it."""
        if self.features is not None:
            return self.features
        return feature_kinds(self.columns, self.renames)

    def maker(self, class_ids: Mapping[str, int]) -> Maker:
        """What turns references into examples, now that the classes are known."""
        if self.features is not None:
            return ExampleReader(files.read_image, class_ids)
        features = [column.feature for column in self.columns]
        return ExampleMaker(
            files.read_image,
            SampleEncoder(self.columns, class_ids, self.renames),
            pixel_preparer(self.pixels, self.image_encoding)
            if self.pixels
            else CHECKS[self.image_check],
            [
                (place, column.pixels)
                for place, column in enumerate(self.columns)
                if column.kind is ColumnKind.BOX
            ],
            self.clip_boxes,
            features.index(_OBJECT_IDS) if _OBJECT_IDS in features else None,
        )


@dataclass(frozen=True)
class ShardTask:
    """A shard to write.

    Attributes:
      uri: where it goes.
      spec: which shard it is.
      batches: its samples, packed, in any order.
      class_ids: class -> id, of its classes at least.
      encoding: what shapes its examples.
      compression: "none" or "gzip".
    """

    uri: str
    spec: ShardSpec
    batches: Sequence[bytes]
    class_ids: Mapping[str, int]
    encoding: EncodingOptions
    compression: str

    def run(self) -> tuple[ShardInfo, list[DeadLetter]]:
        """Writes the shard; returns its figures and what was left out."""
        refs = sort_by_placement(
            (ref for batch in self.batches for ref in unpack(SampleRef, batch)),
            Placer(self.encoding.seed),
        )
        maker = self.encoding.maker(self.class_ids)
        letters = []
        with files.open_output(self.uri, new=True) as sink:
            output = OUTPUTS[self.compression](sink)
            for item in write_shard(self.spec, reported(refs), maker, output):
                if isinstance(item, DeadLetter):
                    letters.append(item)
                else:
                    info = item
        return info, letters


def reported(refs: Iterable[SampleRef]) -> Iterator[SampleRef]:
    """Passes references through and reports each when the next is asked for."""
    reporter = Reporter()
    for ref in refs:
        yield ref
        reporter.add(ref.size)
    reporter.flush()
