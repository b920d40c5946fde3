"""One shard as a piece of work that can be handed to any worker: a thread, a process, a machine.

Nothing here imports Beam, so that a process that does nothing else starts in a tenth of a second.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from transforms import files
from transforms.core.dead_letters import DeadLetter
from transforms.core.errors import ChangedInputsError, ConversionError
from transforms.core.example import MAX_EXAMPLE_BYTES, SampleEncoder
from transforms.core.label_schema import (
    Column,
    ColumnKind,
    class_column,
    feature_kinds,
    object_column,
)
from transforms.core.pixels import IMAGE_ENCODINGS, PixelFormat, pixel_preparer
from transforms.core.plan import Refusal
from transforms.core.read_ahead import (
    ONE_BY_ONE,
    AnnounceAhead,
    ReadAhead,
    ReadOptions,
    Request,
)
from transforms.core.receipts import Receipt, ShardInputs, changes
from transforms.core.references import SampleRef, unpack
from transforms.core.shard_writer import (
    CHECKS,
    MAX_IMAGE_BYTES,
    OUTPUTS,
    ExampleMaker,
    ExampleReader,
    ImageReader,
    Maker,
    sort_by_placement,
    write_shard,
)
from transforms.core.sharding import Placer, ShardInfo, ShardSpec
from transforms.progress import Reporter
from transforms.receipt_files import read_receipt, write_receipt

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
    def class_place(self) -> int | None:
        """The place of the class among a sample's labels; None where there are no classes."""
        return 0 if self.features is not None else class_column(self.columns)

    def recorded(self) -> dict[str, Any]:
        """Everything, as JSON has it; `from_recorded` reads it."""
        values = dataclasses.asdict(self)
        values["renames"] = dict(self.renames)
        values["pixels"] = self.pixels and list(self.pixels)
        return values

    @classmethod
    def from_recorded(cls, values: Mapping[str, Any]) -> EncodingOptions:
        """What `recorded` gave."""
        columns = tuple(
            Column(**{**column, "kind": ColumnKind(column["kind"])}) for column in values["columns"]
        )
        pixels = values["pixels"] and PixelFormat(*values["pixels"])
        return cls(**{**values, "columns": columns, "pixels": pixels})

    @property
    def written_features(self) -> Mapping[str, Any]:
        """Every feature of an example, as the manifest has it."""
        if self.features is not None:
            return self.features
        return feature_kinds(self.columns, self.renames)

    @contextmanager
    def maker(
        self, class_ids: Mapping[str, int], refs: Iterable[SampleRef], reading: ReadOptions
    ) -> Iterator[Maker]:
        """What turns references into examples, while the block runs; it reads ahead.

        Args:
          class_ids: class -> id, of all classes in the references at least.
          refs: what it will be asked to make, in this order.
          reading: how far it reads ahead.
        """
        largest = MAX_IMAGE_BYTES if self.features is None else MAX_EXAMPLE_BYTES
        requests = (Request(ref.uri, ref.size, ref.offset) for ref in refs if ref.size <= largest)
        ahead_of_writer = AnnounceAhead if reading.announced else ReadAhead
        with ahead_of_writer(requests, files.read_image, reading) as ahead:
            yield self._maker(class_ids, ahead.read)

    def _maker(self, class_ids: Mapping[str, int], read: ImageReader) -> Maker:
        if self.features is not None:
            return ExampleReader(read, class_ids)
        features = [column.feature for column in self.columns]
        return ExampleMaker(
            read,
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


class Written(NamedTuple):
    """What came of a shard.

    Attributes:
      info: its figures; None if it was not written.
      dead_letters: samples that were left out.
      refusal: why it was not written, or None.
    """

    info: ShardInfo | None
    dead_letters: Sequence[DeadLetter]
    refusal: Refusal | None = None


@dataclass(frozen=True)
class ShardTask:
    """A shard to write.

    Attributes:
      folder: the output folder.
      spec: which shard it is.
      batches: its samples, packed, in any order.
      class_ids: class -> id, of its classes at least.
      encoding: what shapes its examples.
      compression: "none" or "gzip".
      resume: whether it is kept if an earlier run wrote it of the same samples.
      reading: how far it reads ahead.
    """

    folder: str
    spec: ShardSpec
    batches: Sequence[bytes]
    class_ids: Mapping[str, int]
    encoding: EncodingOptions
    compression: str
    resume: bool = False
    reading: ReadOptions = ONE_BY_ONE

    @property
    def uri(self) -> str:
        """Where the shard goes."""
        return files.join(self.folder, self.spec.file_name)

    def run(self) -> Written:
        """Writes the shard and, behind it, its receipt; or keeps what an earlier run wrote."""
        inputs = self._inputs()
        try:
            earlier = read_receipt(self.folder, self.spec.file_name) if self.resume else None
        except ConversionError as error:
            return Written(None, [], Refusal(ConversionError.__name__, str(error)))
        if earlier:
            changed = changes(earlier.inputs, inputs)
            if changed:
                what = (
                    f"--resume: since {self.uri} was written, its samples have changed: {changed}. "
                    "Bring them back, or convert anew with --overwrite"
                )
                return Written(None, [], Refusal(ChangedInputsError.__name__, what))
            if files.size_of(self.uri) == earlier.info.bytes:
                return Written(earlier.info, earlier.dead_letters)
        receipt = write_inputs(
            self.folder, inputs, self.compression, self.reading, new=earlier is None
        )
        if self.encoding.features is None:  # what came from Python is nowhere to be read again
            write_receipt(self.folder, receipt)
        return Written(receipt.info, receipt.dead_letters)

    def _inputs(self) -> ShardInputs:
        refs = sort_by_placement(
            (ref for batch in self.batches for ref in unpack(SampleRef, batch)),
            Placer(self.encoding.seed),
        )
        place = self.encoding.class_place
        names = set() if place is None else {name for ref in refs for name in _texts(ref, place)}
        classes = {name: self.class_ids[name] for name in sorted(names)}
        return ShardInputs(self.spec, refs, classes, self.encoding.recorded())


def write_inputs(
    folder: str,
    inputs: ShardInputs,
    compression: str,
    reading: ReadOptions,
    *,
    new: bool,
    accept: Callable[[Receipt], None] = lambda _: None,
) -> Receipt:
    """Writes a shard.

    Args:
      folder: the output folder.
      inputs: what goes into it.
      compression: "none" or "gzip".
      reading: how far it reads ahead.
      new: whether there should be none of its name, as `files.open_output` has it; else it is replaced.
      accept: called before the shard appears; may raise, and then it does not.
    """
    encoding = EncodingOptions.from_recorded(inputs.options)
    letters = []
    with (
        files.open_output(files.join(folder, inputs.spec.file_name), new=new) as sink,
        encoding.maker(inputs.class_ids, inputs.refs, reading) as maker,
    ):
        output = OUTPUTS[compression](sink)
        for item in write_shard(inputs.spec, reported(inputs.refs), maker, output):
            if isinstance(item, DeadLetter):
                letters.append(item)
            else:
                info = item
        receipt = Receipt(inputs, info, letters)
        accept(receipt)
    return receipt


def _texts(ref: SampleRef, place: int) -> Sequence[str]:
    names: Any = ref.labels[place]
    return names if isinstance(names, tuple) else (names,)


def reported(refs: Iterable[SampleRef]) -> Iterator[SampleRef]:
    """Passes references through and reports each when the next is asked for."""
    reporter = Reporter()
    for ref in refs:
        yield ref
        reporter.add(ref.size)
    reporter.flush()
