"""WebDataset as a record format: a plain tar with the files of a sample side by side.

Shards are named NAME-SPLIT-00000.tar, so that `NAME-SPLIT-{00000..00015}.tar` names them all. A sample
is an example as files that share a base name (the library groups by it): the part of a path up to
the first dot of its last component.

    cats/0001.jpg    the image, its own bytes
    cats/0001.cls    the id of its class, where it has one
    cats/0001.json   every feature, under its key

In the JSON, a feature of one value is that value, a list is a list; text is text. Bytes that are not
text cannot be in JSON: a single value, such as a mask, is a file beside it and the JSON has
`{"file": "segmentation_class.png"}`, the rest of that file's name; in a list, each is a `data:` URL. Pictures
and JSON of columns are such files in any case: `right.png`, `talk.json`, and `views.0.png`, ... of a list.
`__empty__` has the kind of each list without values, so that nothing of the example is lost.

Headers are POSIX's (ustar, and pax for names that do not fit), with no time and no owner.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar

from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.images.header import LEAST_IMAGE, RAW_FORMAT, image_extension
from beam_pipeline.core.labels import schema
from beam_pipeline.core.records import record_format, wire
from beam_pipeline.core.records.record_format import EncodedSample
from beam_pipeline.core.text import excerpt

if TYPE_CHECKING:  # else protobuf, which no job with TFRecords needs in its writers
    from beam_pipeline.core.records.example_view import ExampleView

_BLOCK = 512
_NAME_BYTES = 100
_CHUNK_BYTES = 1 << 20  # 1 MiB
_END = bytes(2 * _BLOCK)
_IMAGE_EXTENSIONS = frozenset(
    {"jpg", "jpeg", "jpe", "jfif", "png", "gif", "bmp", "dib", "webp", "jxl"}
)


class _TarWriter(record_format.RecordWriter):
    """Writes samples to a tar without copying an image."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._bases: set[str] = set()

    def write(self, sample: EncodedSample, key: str = "") -> None:
        """Writes the files of the next sample; a number sets its base name apart from others in the shard."""
        base = name = base_name(key)
        number = 1
        while name in self._bases:
            number += 1
            name = f"{base}%{number}"
        self._bases.add(name)
        for extension, content in sample_files(sample, self._features).items():
            padding = bytes(-len(content) % _BLOCK)
            self._put(member_header(f"{name}.{extension}", len(content)), content, padding)

    def finish(self) -> None:
        """Writes the two empty blocks that end a tar."""
        self._put(_END)


@dataclass(frozen=True)
class WebDatasetFormat(record_format.RecordFormat):
    """WebDataset's tar files."""

    name: ClassVar[str] = "webdataset"
    mark: ClassVar[str] = ".tar"
    shard_names: ClassVar[str] = "{dataset}-{split}-{number:05d}{mark}"
    file_names: ClassVar[re.Pattern[str]] = re.compile(r".*-\d{5,}\.tar")
    writer_type: ClassVar[type[record_format.RecordWriter]] = _TarWriter
    of_examples: ClassVar[bool] = False

    def receipt_stem(self, shard: str) -> str:
        """NAME-SPLIT-00000 for NAME-SPLIT-00000.tar."""
        return shard.removesuffix(self.mark)

    def records_in(self, file: BinaryIO, path: str, wanted: range) -> Iterator[bytes]:
        """Yields the examples of the samples with these numbers; what comes before is not read."""
        tar = _Tar(file, path)
        samples = itertools.groupby(tar.members(), itemgetter(0))
        for number, (_, members) in enumerate(samples):
            if number >= wanted.stop:
                return
            if number in wanted:
                starts, files = [], {}
                for _, extension, size, start in members:
                    starts.append(start)
                    files[extension] = tar.read(size, start)
                yield example_of(files, f"{path}: sample {number} at byte {starts[0]}")


def base_name(key: str) -> str:
    """The base name of a sample's files: its key, made safe.

    The extension of an image goes, other dots in the last component become `%2E`, because the library takes
    all from the first dot on for the extension. No component is empty, `.` or `..`.

    >>> base_name("cats/2024.05.01 a.JPG")
    'cats/2024%2E05%2E01 a'
    """
    *folders, name = key.replace("%", "%25").replace("\0", "%00").split("/")
    stem, dot, extension = name.rpartition(".")
    if dot and stem and extension.lower() in _IMAGE_EXTENSIONS:
        name = stem
    parts = [folder.replace(".", "%2E") if set(folder) <= {"."} else folder for folder in folders]
    return "/".join(part or "_" for part in (*parts, name.replace(".", "%2E")))


def member_header(name: str, size: int) -> bytes:
    """The header of a file in a tar: mode 644, no time and no owner.

    A name that does not fit is in an attribute before it, as pax has it.

    Args:
      name: the path in the tar.
      size: bytes of the file.
    """
    path = name.encode()
    if name.isascii() and len(path) <= _NAME_BYTES:
        return _header(path, size, _FILE)
    rest = b" path=%s\n" % path
    length = len(rest)  # counts its own digits as well
    while len(attribute := b"%d%s" % (length, rest)) != length:
        length = len(attribute)
    before = _header(b"././@PaxHeader", len(attribute), _PAX)
    file = _header(name.encode("ascii", "replace")[:_NAME_BYTES], size, _FILE)
    return before + attribute + bytes(-len(attribute) % _BLOCK) + file


_FILE, _PAX = b"0", b"x"
_OCTAL = re.compile(rb"[0-7]{11}")
_BEFORE_SIZE = b"0000644\0" + b"0000000\0" * 2
_TIME = b"%011o\0" % 0
_AFTER_KIND = (bytes(100) + b"ustar\x0000").ljust(355, b"\0")
_SUM = sum(_BEFORE_SIZE + _TIME + b" " * 8 + _AFTER_KIND)  # the checksum itself counts as blanks


def _header(path: bytes, size: int, kind: bytes) -> bytes:
    octal = b"%011o\0" % size
    checksum = b"%06o\0 " % (_SUM + sum(path) + sum(octal) + kind[0])
    start = path.ljust(_NAME_BYTES, b"\0")
    return start + _BEFORE_SIZE + octal + _TIME + checksum + kind + _AFTER_KIND


class _Tar:
    """A tar of ours, which is read from front to back. Raises DamagedRecordError."""

    def __init__(self, file: BinaryIO, path: str) -> None:
        self._file = file
        self._path = path
        self._at = 0

    def members(self) -> Iterator[tuple[str, str, int, int]]:
        """Yields (base name, extension, bytes, offset of the header) of each file; its content may be read then."""
        long_name, start = b"", 0
        while (block := self.read(_BLOCK, start)).strip(b"\0"):
            path, octal, kind = block[:_NAME_BYTES].rstrip(b"\0"), block[124:135], block[156:157]
            size = int(octal, 8) if _OCTAL.fullmatch(octal) else -1
            as_written = kind in (_FILE, _PAX) and block == _header(path, size, kind)
            if not as_written or size > wire.MAX_EXAMPLE_BYTES:
                raise self._damaged(start, f"the header is not as it was written: {excerpt(path)}")
            end = self._at + size + -size % _BLOCK
            if kind == _PAX:
                long_name = self.read(size, start).partition(b"=")[2][:-1]
            else:
                whole = (long_name or path).decode("utf-8", "surrogateescape")
                folder, slash, name = whole.rpartition("/")
                stem, _, extension = name.partition(".")
                yield f"{folder}{slash}{stem}", extension, size, start
                long_name = b""
            if self._file.seekable():
                self._at = self._file.seek(end)
            while self._at < end:
                self.read(min(end - self._at, _CHUNK_BYTES), self._at)
            start = end
        if self._file.read(_BLOCK + 1) != bytes(_BLOCK):
            raise self._damaged(start, "an empty block, expected another one and the end")

    def read(self, size: int, start: int) -> bytes:
        """The next bytes of the member whose header is at `start`."""
        data = self._file.read(size)
        self._at += len(data)
        if len(data) < size:
            raise self._damaged(start, "the file ends before the archive does")
        return data

    def _damaged(self, start: int, fault: str) -> DamagedRecordError:
        return DamagedRecordError(f"{self._path}: the member at byte {start}: {fault}")


# --- a sample as files ----------------------------------------------------------------------------


JSON, CLASS = "json", "cls"

_CLASS_KEY, _FORMAT_KEY = "image/class/label", "image/format"
_EMPTY = "__empty__"
_FURTHER = "label"
_OTHER = "bin"
_EXTENSIONS = {"jpeg": "jpg", RAW_FORMAT: _OTHER}
_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_URL = "data:"
_NO_TEXT = re.compile("[\x00-\x08\x0e-\x1f]")
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9_]")


def sample_files(sample: EncodedSample, features: Mapping[str, Any]) -> dict[str, bytes]:
    """Turns an example into files: extension -> content, the image first and the JSON last.

    Args:
      sample: the example; its image is not copied.
      features: key -> its description as in the manifest; the message tells which features are lists. One
        that is not described is a list if it does not have one value.
    """
    from beam_pipeline.core.records.example_view import ExampleView

    rest, image_key, image = _without_image(sample)
    example = ExampleView(rest, "a sample")
    files: dict[str, bytes] = {}
    values: dict[str, Any] = {}
    empty: dict[str, str] = {}
    class_file: dict[str, bytes] = {}
    if image_key:
        files[_image_extension(image, example)] = image
        values[image_key] = {"file": next(iter(files))}
    for key, (kind, items) in example.items():
        single = len(items) == 1 and not features.get(key, {}).get("shape")
        if not items:
            empty[key] = kind or "bytes"
        elif kind == "bytes":
            texts = [_text(item) for item in items]
            described = features.get(key, {}).get("content")
            named: list[str] = []
            if described or (single and texts[0] is None):
                named = _names(key, items, example, described, single=single)
            if named and files.keys().isdisjoint(named):
                files |= dict(zip(named, items, strict=True))
                places = [{"file": name} for name in named]
                values[key] = places[0] if single else places
                continue
            pairs = zip(texts, items, strict=True)
            items = [_url(item) if text is None else text for text, item in pairs]
        elif key == _CLASS_KEY and kind == "int64" and single:
            class_file[CLASS] = b"%d" % items[0]
        values[key] = items[0] if single else list(items)
    if empty:
        values[_EMPTY] = empty
    return {**files, **class_file, JSON: _to_json(values).encode()}


def example_of(files: Mapping[str, bytes], where: str) -> bytes:
    """Turns the files of a sample back into the serialized example.

    Args:
      files: extension -> content.
      where: the sample, in messages.

    Raises:
      DamagedRecordError: a file is missing, or the JSON is not as `sample_files` writes it.
    """
    try:
        if JSON not in files:
            raise ValueError(f"it has no .{JSON}, only {', '.join(f'.{name}' for name in files)}")
        values = json.loads(files[JSON])
        if not isinstance(values, dict):
            raise ValueError(f"its .{JSON} is not an object")
        empty = values.pop(_EMPTY, {})
        features = {key: _feature(key, values[key], empty, files) for key in values}
        return wire.encode_example(features)
    except (ValueError, OverflowError, RecursionError) as error:
        raise DamagedRecordError(f"{where}: {excerpt(error)}") from error


def _feature(key: str, value: Any, empty: Any, files: Mapping[str, bytes]) -> tuple[str, Any]:
    """The kind and the values of a feature. Raises ValueError."""
    items = value if isinstance(value, list) else [value]
    if items and all(isinstance(item, dict) for item in items):
        names = [str(item.get("file")) for item in items]
        for name in names:
            if name not in files:
                raise ValueError(f"its .{JSON} names a file .{name} for {key}, which is not there")
        return "bytes", [files[name] for name in names]
    if not items:
        kind = str(empty.get(key)) if isinstance(empty, dict) else ""
        return (kind if kind in ("float", "int64") else "bytes"), []
    kinds = set(map(type, items))
    if kinds == {str}:
        return "bytes", [_from_text(item) for item in items]
    if kinds in ({int}, {float}):
        return ("int64" if kinds == {int} else "float"), items
    raise ValueError(f"its .{JSON} has {key} neither as text nor as numbers of one kind")


def _without_image(sample: EncodedSample) -> tuple[bytes, str, bytes]:
    """A serialized example without its image, the key of the image, and the image.

    The image is the value of the last entry in the part before it. A sample in one piece is returned as
    it is, without a key.
    """
    before, image, after = sample[:3]
    if before:
        _, start = wire.parse_varint(before, 1)  # after the tag and the length of all features
        at = start
        while at < len(before):
            length, inside = wire.parse_varint(before, at + 1)
            if inside + length > len(before):
                entries = before[start:at] + after
                size, key = wire.parse_varint(before, inside + 1)
                name = before[key : key + size].decode()
                return wire.TAG_1 + wire.varint(len(entries)) + entries, name, image
            at = inside + length
    return sample.record, "", b""


def _image_extension(image: bytes, example: ExampleView) -> str:
    """The extension of an image: its format's, or by the bytes where no feature states that."""
    for value in example.values_of(_FORMAT_KEY, "bytes")[:1]:
        name: str = value.decode(errors="replace")
        if name.isalnum():
            return _EXTENSIONS.get(name, name)
    return _extension(image)


def _extension(data: bytes) -> str:
    """The extension of a value by its first bytes, however few there are."""
    name = image_extension(data[:LEAST_IMAGE].ljust(LEAST_IMAGE, b"\0"))
    return name if name in _IMAGE_EXTENSIONS else _OTHER


def _names(
    key: str, items: Sequence[bytes], example: ExampleView, content: Any, *, single: bool
) -> list[str]:
    """The extensions of the files of a feature: `right.png`; of a list `views.0.png`, ...; `talk.json`."""
    is_json, is_image = content == JSON, key == schema.ENCODED_KEY
    if is_image and single and not is_json:
        return [_image_extension(items[0], example)]
    stem = key.removeprefix(f"{_FURTHER}/") if is_json else key
    stem = stem.removeprefix("image/").removesuffix("/encoded").lower()
    stem = "" if is_image else _NOT_IN_A_NAME.sub("_", stem)
    extension_of = partial(_image_extension, example=example) if is_image else _extension
    extensions = (JSON if is_json else extension_of(item) for item in items)
    if single:
        return [f"{stem}.{extension}" for extension in extensions]
    return [f"{stem}.{number}.{extension}" for number, extension in enumerate(extensions)]


def _text(value: bytes) -> str | None:
    """Bytes as text in JSON; None if they are not text, or would be taken for a URL."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return None if _NO_TEXT.search(text) or text.startswith(_URL) else text


def _url(value: bytes) -> str:
    extension = _extension(value)
    kind = "application/octet-stream"
    if extension != _OTHER:
        kind = f"image/{'jpeg' if extension == 'jpg' else extension}"
    return f"{_URL}{kind};base64,{base64.b64encode(value).decode()}"


def _from_text(text: str) -> bytes:
    if not text.startswith(_URL):
        return text.encode()
    return base64.b64decode(text.partition(",")[2], validate=True)


# --- the columns of an example -------------------------------------------------------------------

_COLUMN = f"{_FURTHER}/"
_OF_OBJECTS = f"{schema.OBJECT_PREFIX}class/text"
_LABELS = ("image/class/text", "image/label")
_IMPLIED = (_CLASS_KEY, _EMPTY)


@dataclass
class ExampleColumns:
    """The columns that the features of an example come from.

    Attributes:
      fields: column -> value.
      names: extension -> column, of its files.
      kinds: column -> type name.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)

    def add_features(self, features: Mapping[str, Any]) -> None:
        """Adds the columns of features, as `sample_files` writes them. Raises ValueError."""
        try:
            self._add(self._without_objects(features) if _OF_OBJECTS in features else features)
        except (AttributeError, LookupError, TypeError) as error:
            raise ValueError(
                f"no example that --format {WebDatasetFormat.name} writes: {error!r}"
            ) from error

    def _add(self, features: Mapping[str, Any]) -> None:
        of_files = {key.removesuffix("encoded") for key in features if key.endswith("/encoded")}
        for key, value in features.items():
            name, items = key.removeprefix(_COLUMN), value if isinstance(value, list) else [value]
            if items and all(isinstance(item, dict) for item in items):
                column = name.removeprefix("image/").removesuffix("/encoded")
                self.names |= {str(item.get("file")): column for item in items}
                self.kinds |= {name: schema.JSON_KIND} if name != key else {}
            elif key in _LABELS:
                self.fields[CLASS] = value
                self.kinds |= {CLASS: "float"} if key == _LABELS[1] else {}
            elif f"{key.rpartition('/')[0]}/" not in of_files and key not in _IMPLIED:
                self.fields[name] = value
                self._add_kind(name, items, features.get(_EMPTY, {}).get(key, ""))

    def _add_kind(self, name: str, items: Sequence[Any], if_empty: str = "") -> None:
        kind = type(items[0]).__name__ if items else if_empty
        self.kinds |= {name: kind} if kind in schema.KIND_NAMES else {}

    def _without_objects(self, features: Mapping[str, Any]) -> Mapping[str, Any]:
        """Adds the objects of an example as the lists that tables of JSON have; returns the other features."""
        prefix = schema.OBJECT_PREFIX
        of = {key.removeprefix(prefix): features[key] for key in features if prefix in key}
        sides = [of.pop(f"bbox/{side}") for side in ("xmin", "ymin", "xmax", "ymax")]
        width, height = features["image/width"], features["image/height"]
        texts, ids = of.pop("class/text"), of.pop("class/label")
        lists: dict[str, Any] = {
            "bbox": [
                [xmin * width, ymin * height, (xmax - xmin) * width, (ymax - ymin) * height]
                for xmin, ymin, xmax, ymax in zip(*sides, strict=True)
            ],
            schema.CATEGORY_NAMES[0]: ids if texts == [*map(str, ids)] else texts,
        }
        for name, values in of.items():
            if "/" in name or str(values).startswith(f"['{_URL}"):
                # Nested, as key points and masks are.
                self.fields[f"{prefix}{name}"] = [[]]
                continue
            self._add_kind(f"{schema.OBJECTS_COLUMN}.{name}", values)
            lists[name] = values
        self.fields[schema.OBJECTS_COLUMN] = lists
        return {key: features[key] for key in features if prefix not in key}
