"""`manifest.json`: the contents of a complete data set. Without it, a folder is not a data set."""

from __future__ import annotations

import base64
import io
import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

from google_crc32c import value as crc32c

from beam_pipeline.core import typed_json
from beam_pipeline.core.dataset.names import DEAD_LETTERS_NAME as DEAD_LETTERS_NAME
from beam_pipeline.core.dataset.names import MANIFEST_NAME as MANIFEST_NAME
from beam_pipeline.core.errors import ConversionError, OutputError, UsageError
from beam_pipeline.core.images.header import RAW_FORMAT
from beam_pipeline.core.labels.roles import RoleRow, recorded_roles
from beam_pipeline.core.records.formats import DEFAULT_FORMAT, FORMATS, format_class, record_format
from beam_pipeline.core.records.record_format import RecordFormat

if TYPE_CHECKING:  # else readers would import all that plans a conversion
    from beam_pipeline.core.dataset.plan import Plan
    from beam_pipeline.core.dataset.tally import Tally, Totals
    from beam_pipeline.core.records.sharding import ShardInfo

ROLES_ENTRY = "roles"
CHECKSUM_ENTRY = "crc32c"
LINES_ENTRY = "dead_letters_crc32c"
_FORMAT = "beam-tfrecord"
_CHECKSUM = b',\n  "crc32c": "'  # as it is in the file; nested entries are indented further
_PIECES = 1 << 14  # of JSON, encoded at a time


def _is_file_name(name: str) -> bool:
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


_FileName = Annotated[
    typed_json.Text, typed_json.Expect(_is_file_name, "the name of a file in its own folder")
]
_is_crc32c = re.compile(r"[A-Za-z0-9+/]{6}==").fullmatch
_Checksum = Annotated[
    Any, typed_json.Expect(lambda crc: _is_crc32c(str(crc)), "the base64 of four bytes")
]
_FORMATS = f"one of {', '.join(FORMATS)}, or of a plugin that is installed"
_Range = Annotated[
    tuple[typed_json.Count, ...],
    typed_json.Expect(lambda ends: len(ends) == 2, "the least and the greatest number"),
]


@dataclass(frozen=True)
class ColumnEntry:
    """A label column."""

    name: typed_json.Text
    kind: typed_json.Text
    feature: typed_json.Text
    repeated: bool = False


@dataclass(frozen=True, kw_only=True)
class OptionEntries:
    """The options that programs rely on, of those that shape the bytes."""

    compression: typed_json.Text
    columns: tuple[ColumnEntry, ...]
    record_format: Annotated[typed_json.Text, typed_json.Expect(format_class, _FORMATS)] = (
        DEFAULT_FORMAT
    )
    features: Mapping[str, typed_json.Text] | None = None
    image_encoding: typed_json.Text | None = None

    def __post_init__(self) -> None:
        known = format_class(self.record_format)
        if known and self.compression not in known.compressions:
            compressions = ", ".join(known.compressions)
            raise ValueError(
                f"has compression {self.compression!r}, expected one of {compressions}"
            )


@dataclass(frozen=True)
class FeatureEntry:
    """The values of examples under a key.

    Attributes:
      kind: "bytes", "float" or "int64".
      optional: whether some examples lack it.
      shape: () for one value, (n,) for n of them, (None,) for any number.
      pixels: of a PNG whose pixels are ids, their type, "uint8" or "uint16"; else empty.
      content: "picture" of a picture besides the image, "picture16" of one of 16 bits, "json" of text of
        JSON; else empty.
    """

    kind: Annotated[Any, typed_json.one_of("bytes", "float", "int64")]
    optional: bool
    shape: tuple[typed_json.Count | None, ...] = ()
    pixels: Annotated[Any, typed_json.one_of("uint8", "uint16")] = ""
    content: Annotated[Any, typed_json.one_of("picture", "picture16", "json")] = ""

    @property
    def picture(self) -> str:
        """The type of the pixels of a picture besides the image; else empty."""
        return {"picture": "uint8", "picture16": "uint16"}.get(self.content, "")

    @property
    def ragged(self) -> bool:
        """Tells whether examples differ in the number of values."""
        return None in self.shape

    @property
    def missing(self) -> Any:
        """The value that readers which need one give for an optional feature without values."""
        return {"bytes": b"", "float": math.nan, "int64": -(1 << 63)}[self.kind]

    @property
    def described(self) -> str:
        """The kind and the shape in a few words: `int64`, `float[4]`, `bytes[] of picture`."""
        lengths = ", ".join("" if length is None else str(length) for length in self.shape)
        kind = f"{self.kind}[{lengths}]" if self.shape else self.kind
        return " of ".join(filter(None, (kind, self.pixels, self.content)))


@dataclass(frozen=True)
class ShardEntry:
    """A shard."""

    path: _FileName
    examples: typed_json.Count
    bytes: typed_json.Count
    crc32c: _Checksum = ""


@dataclass(frozen=True)
class SplitEntry:
    """A split."""

    examples: typed_json.Count
    bytes: typed_json.Count
    shards: tuple[ShardEntry, ...]


@dataclass(frozen=True)
class ClassEntry:
    """A class, and how often it occurs, in all and in each split; -1 where that is not counted."""

    id: typed_json.Integer
    name: typed_json.Text
    examples: typed_json.Count = -1
    objects: typed_json.Count = -1
    splits: Mapping[str, typed_json.Count] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.splits and self.count < 0:
            raise ValueError("has no entry 'examples'")

    @property
    def count(self) -> int:
        """The number of its objects, or else of its examples."""
        return max(self.examples, self.objects)


@dataclass(frozen=True, kw_only=True)
class CountEntries:
    """The counts of the stages that programs rely on."""

    examples: typed_json.Count
    dead_letters: typed_json.Count = 0
    listed_images: typed_json.Count = 0
    label_rows: typed_json.Count = 0
    label_rows_without_image: typed_json.Count = 0
    label_rows_repeated: typed_json.Count = 0
    further_samples: typed_json.Count = 0
    dropped_objects: typed_json.Count = 0
    unlabelled: typed_json.Count = 0
    ignored_files: Mapping[str, typed_json.Count] = field(default_factory=dict)
    images: Mapping[str, typed_json.Count] = field(default_factory=dict)


@dataclass(frozen=True)
class ImageEntries:
    """Formats and sizes of the images."""

    formats: Mapping[str, typed_json.Count]
    width: _Range
    height: _Range


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """A manifest, its entries checked, since it may be anybody's.

    Attributes:
      content: all of it, as JSON has it; further entries are for people.
    """

    name: typed_json.Text
    seed: int
    options: OptionEntries
    features: Mapping[str, FeatureEntry]
    splits: Mapping[str, SplitEntry]
    classes: tuple[ClassEntry, ...]
    counts: CountEntries
    dead_letters: Mapping[str, typed_json.Count]
    dead_letters_crc32c: _Checksum = ""
    images: ImageEntries | None = None
    questions: tuple[typed_json.Text, ...] = ()
    roles: tuple[RoleRow, ...] = ()
    codec: typed_json.Text = ""
    content: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Manifest:
        """The manifest of a value of JSON.

        Raises:
          ValueError: an entry is missing or of another type; names it.
        """
        checked: Manifest = typed_json.decode(cls, content)
        return replace(checked, content=content)

    @property
    def record_format(self) -> RecordFormat:
        """The format of the shards."""
        return record_format(self.options.compression, self.options.record_format)

    @property
    def renames(self) -> Mapping[str, str]:
        """Written key -> standard key, as --features has it."""
        return self.options.features or {}

    @property
    def bare_pixels(self) -> bool:
        """Tells whether images are stored as bare pixels rather than as image files."""
        return self.options.image_encoding == RAW_FORMAT

    @property
    def shards(self) -> list[ShardEntry]:
        """The shards of all splits."""
        return [shard for split in self.splits.values() for shard in split.shards]

    @property
    def bytes(self) -> int:
        """The length of all shards."""
        return sum(split.bytes for split in self.splits.values())

    @property
    def unit(self) -> str:
        """What is counted of classes: "examples", "objects", or nothing."""
        first = self.classes[0] if self.classes else ClassEntry(0, "")
        return "objects" if first.objects >= 0 else "examples" if first.examples >= 0 else ""

    @property
    def absent_classes(self) -> dict[str, list[str]]:
        """Split -> classes that only other splits have; without splits that have all classes or none."""
        present = [entry for entry in self.classes if any(entry.splits.values())]
        absent = {
            split: [entry.name for entry in present if not entry.splits.get(split)]
            for split in self.splits
        }
        return {split: names for split, names in absent.items() if 0 < len(names) < len(present)}


def crc32c_text(crc: int) -> str:
    """A CRC-32C as Google Cloud Storage shows it: base64 of its four bytes, big-endian."""
    return base64.b64encode(crc.to_bytes(4, "big")).decode()


def build_manifest(
    plan: Plan,
    tally: Tally,
    shards: Sequence[ShardInfo],
    totals: Totals,
    run: Mapping[str, Any],
    *,
    counted: str = "examples",
    roles: Sequence[RoleRow] = (),
    dead_letter_crc: int = 0,
) -> dict[str, Any]:
    """The manifest as a value. Nothing in it depends on time, runner or workers.

    Only the checksum of the dead letters depends on where the images are.

    Args:
      plan: the planned shards and classes.
      tally: the counts of all stages, to the last dead letter.
      shards: the figures of those that were written.
      totals: the sums over all shards.
      run: its seed, options and features, like in the manifest.
      counted: the unit of class counts, "examples" or "objects"; empty where classes are not counted,
        as for masks, whose pixels are not read.
      roles: what each part of the input is used for.
      dead_letter_crc: the sum of `line_crc` over the lines of all dead letters.
    """
    images, statistics = totals.images, totals.statistics
    options = run["options"]
    examples = sum(shard.examples for shard in shards)
    splits = _split_entries(plan, shards)
    classes: list[dict[str, Any]] = [{"id": i, "name": name} for name, i in plan.classes]
    for entry in classes if counted else ():
        counts = {split: totals.classes.get(split, {}).get(entry["id"], 0) for split in splits}
        entry |= {counted: sum(counts.values()), "splits": counts}
    entries: dict[str, Any] = {
        "format": _FORMAT,
        "format_version": typed_json.FORMAT_VERSION,
        "name": plan.shard_plan.name,
        "seed": run["seed"],
        "options": dict(options),
        "features": dict(run["features"]),
        "splits": splits,
        "classes": classes,
        "counts": {
            "listed_images": tally.listed,
            "ignored_files": dict(sorted(tally.ignored.items())),
            "label_rows": tally.label_rows,
            "label_rows_repeated": tally.repeated_rows,
            "label_rows_without_image": tally.orphan_rows,
            "further_samples": tally.further_samples or None,
            "dropped_objects": tally.dropped_objects or None,
            "joined_samples": tally.samples.total(),
            "unlabelled": tally.unlabelled if options.get("unlabelled") == "keep" else None,
            "examples": examples,
            "dead_letters": tally.dead.total(),
            "images": dict(images.events) or None,
        },
        # None where some examples were given finished.
        "images": statistics.formats_and_lengths() if 0 < examples == statistics.images else None,
        "dead_letters": dict(sorted(tally.dead.items())),
        ROLES_ENTRY: recorded_roles(roles) or None,
        "questions": list(plan.questions) or None,
        "codec": next(iter(images.codecs), None),
        LINES_ENTRY: crc32c_text(dead_letter_crc % (1 << 32)),
    }
    entries["counts"] = _given(entries["counts"])
    return _given(entries)


def _split_entries(plan: Plan, shards: Iterable[ShardInfo]) -> dict[str, Any]:
    splits: dict[str, Any] = {
        split: {"examples": 0, "bytes": 0, "shards": []} for split, _ in plan.shard_plan.shards
    }
    for shard in sorted(shards, key=lambda shard: (shard.split, shard.number)):
        crc = crc32c_text(shard.crc32c)
        entry = ShardEntry(shard.file_name, shard.examples, shard.bytes, crc)
        splits[shard.split]["examples"] += shard.examples
        splits[shard.split]["bytes"] += shard.bytes
        splits[shard.split]["shards"].append(vars(entry))
    return splits


def _given(entries: Mapping[str, Any]) -> dict[str, Any]:
    """The entries that are not None."""
    return {name: entry for name, entry in entries.items() if entry is not None}


def dump_json(value: Mapping[str, Any]) -> bytes:
    """JSON for people and programs: indented, UTF-8, a newline at the end."""
    pieces = json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(value)
    data = io.BytesIO()
    # In blocks, because all pieces at once would take ten times its bytes.
    while block := "".join(itertools.islice(pieces, _PIECES)):
        data.write(block.encode())
    data.write(b"\n")
    return data.getvalue()


def line_crc(line: bytes) -> int:
    """The checksum of a line that lists a dead letter; sums of them do not depend on the order."""
    return int(crc32c(line.rstrip(b"\n")))


def manifest_file(manifest: Mapping[str, Any]) -> bytes:
    """The file of a manifest: its last entry is a checksum of everything before it.

    Raises:
      OutputError: a text in it cannot be written.
    """
    try:
        content = dump_json(manifest).removesuffix(b"\n}\n")
    except UnicodeEncodeError as error:
        raise OutputError(
            f"{MANIFEST_NAME} cannot contain text that is not UTF-8: {error}"
        ) from error
    return _with_checksum(content)


def _with_checksum(content: bytes) -> bytes:
    return content + _CHECKSUM + crc32c_text(crc32c(content)).encode() + b'"\n}\n'


def is_as_written(data: bytes) -> bool:
    """Tells whether the file of a manifest has the checksum of its content."""
    return data == _with_checksum(data.rpartition(_CHECKSUM)[0])


def parse_manifest(data: bytes, uri: str) -> Manifest:
    """Reads a manifest and checks its entries.

    Raises:
      ConversionError: it is not a manifest, or one of a later version; names the entry.
    """
    try:
        content = json.loads(data)
        typed_json.check_head(content, _FORMAT)
        return Manifest.of(content)
    except (ValueError, RecursionError) as error:
        raise ConversionError(f"{uri} is not a manifest of beam-tfrecord: {error}") from error


def check_draft(run: Mapping[str, Any], classes: Iterable[tuple[str, int]]) -> None:
    """Checks, before anything is written, that a manifest can contain what is planned.

    Args:
      run: the name and features.
      classes: (name, id) of every class.

    Raises:
      UsageError: an entry would not be read back; names it.
    """
    entries = [{"id": class_id, "name": name} for name, class_id in classes]
    try:
        typed_json.decode(typed_json.Text, run.get("name", ""), "name")
        typed_json.decode(Mapping[str, FeatureEntry], run.get("features", {}), "features")
        typed_json.decode(tuple[ClassEntry, ...], entries, "classes")
    except ValueError as error:
        raise UsageError(f"a manifest cannot describe this data set: {error}") from error
