"""One sample of a WebDataset: an example as files that share a base name.

    cats/0001.jpg    the image, its own bytes
    cats/0001.cls    the id of its class, where it has one
    cats/0001.json   every feature, under its key

In the JSON, a feature of one value is that value, a list is a list; text is text. Bytes that are not
text cannot stand in JSON: a single value, such as a mask, is a file beside it and the JSON has
`{"file": "segmentation_class.png"}`, the rest of that file's name; in a list, each is a `data:` URL.
`__empty__` has the kind of each list without values, so that nothing of the example is lost.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

from beam_pipeline.core.images.preparation import RAW_FORMAT
from beam_pipeline.core.labels.schema import ENCODED_KEY
from beam_pipeline.core.records.record_format import EncodedSample
from beam_pipeline.core.records.wire import TAG_1, encode_example, varint

JSON, CLASS = "json", "cls"

_CLASS_KEY, _FORMAT_KEY = "image/class/label", "image/format"
_EMPTY = "__empty__"
_OTHER = "bin"
_EXTENSIONS = {"jpeg": "jpg", RAW_FORMAT: _OTHER}
_BEGINNINGS = (
    (b"\xff\xd8\xff", "jpg"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"GIF8", "gif"),
    (b"BM", "bmp"),
    (b"RIFF", "webp"),
    (b"\xff\x0a", "jxl"),
    (b"\x00\x00\x00\x0cJXL ", "jxl"),
)
_LISTS = {"bytes_list": "bytes", "float_list": "float", "int64_list": "int64"}
_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_URL = "data:"
_NO_TEXT = re.compile("[\x00-\x08\x0e-\x1f]")
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9_]")


def sample_files(sample: EncodedSample, features: Mapping[str, Any]) -> dict[str, bytes]:
    """Turns an example into files: extension -> content, the image first and the JSON last.

    Args:
      sample: the example; its image is not copied.
      features: key -> its description, as the manifest has it; says which features are lists. One
        that is not described is a list if it does not have one value.
    """
    from beam_pipeline.core.records.example_proto import Example

    rest, image_key, image = _without_image(sample)
    found = Example.FromString(rest).features.feature
    files: dict[str, bytes] = {}
    values: dict[str, Any] = {}
    empty: dict[str, str] = {}
    class_file: dict[str, bytes] = {}
    if image_key:
        files[_image_extension(image, found)] = image
        values[image_key] = {"file": next(iter(files))}
    for key in sorted(found):
        kind = found[key].WhichOneof("kind") or "bytes_list"
        items = list(getattr(found[key], kind).value)
        single = len(items) == 1 and not features.get(key, {}).get("shape")
        if not items:
            empty[key] = _LISTS[kind]
        elif kind == "bytes_list":
            texts = [_text(item) for item in items]
            if single and texts[0] is None:
                name = _file_name(key, items[0], found)
                if name not in files:
                    files[name] = items[0]
                    values[key] = {"file": name}
                    continue
            pairs = zip(texts, items, strict=True)
            items = [_url(item) if text is None else text for text, item in pairs]
        elif key == _CLASS_KEY and kind == "int64_list" and single:
            class_file[CLASS] = b"%d" % items[0]
        values[key] = items[0] if single else items
    if empty:
        values[_EMPTY] = empty
    return {**files, **class_file, JSON: _to_json(values).encode()}


def example_of(files: Mapping[str, bytes]) -> bytes:
    """Turns the files of a sample back into the serialized example.

    Args:
      files: extension -> content.

    Raises:
      ValueError: a file is missing, or the JSON is not as `sample_files` writes it.
    """
    if JSON not in files:
        raise ValueError(f"it has no .{JSON}, only {', '.join(f'.{name}' for name in files)}")
    values = json.loads(files[JSON])
    if not isinstance(values, dict):
        raise ValueError(f"its .{JSON} is not an object")
    empty = values.pop(_EMPTY, {})
    return encode_example({key: _feature(key, values[key], empty, files) for key in values})


def _feature(key: str, value: Any, empty: Any, files: Mapping[str, bytes]) -> tuple[str, Any]:
    """The kind and the values of a feature. Raises ValueError."""
    if isinstance(value, dict):
        name = str(value.get("file"))
        if name not in files:
            raise ValueError(f"its .{JSON} names a file .{name} for {key}, which is not there")
        return "bytes", [files[name]]
    items = value if isinstance(value, list) else [value]
    if not items:
        kind = str(empty.get(key)) if isinstance(empty, dict) else ""
        return (kind if kind in _LISTS.values() else "bytes"), []
    kinds = set(map(type, items))
    if kinds == {str}:
        return "bytes", [_bytes(item) for item in items]
    if kinds in ({int}, {float}):
        return ("int64" if kinds == {int} else "float"), items
    raise ValueError(f"its .{JSON} has {key} neither as text nor as numbers of one kind")


def _without_image(sample: EncodedSample) -> tuple[bytes, str, bytes]:
    """A serialized example without its image, the key of the image, and the image.

    The image is the value of the last entry in the part before it. A sample in one piece is returned as
    it is, without a key.
    """
    before, image, after, _ = sample
    if before:
        _, start = _varint(before, 1)  # behind the tag and the length of all features
        at = start
        while at < len(before):
            length, inside = _varint(before, at + 1)
            if inside + length > len(before):
                entries = before[start:at] + after
                size, key = _varint(before, inside + 1)
                name = before[key : key + size].decode()
                return TAG_1 + varint(len(entries)) + entries, name, image
            at = inside + length
    return sample.record, "", b""


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The varint at a position, and the position behind it."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7


def _image_extension(image: bytes, found: Any) -> str:
    """The extension of an image: its format's, or by the bytes where no feature says that."""
    if _FORMAT_KEY in found and (said := found[_FORMAT_KEY].bytes_list.value):
        name: str = said[0].decode(errors="replace")
        if name.isalnum():
            return _EXTENSIONS.get(name, name)
    return _extension(image)


def _extension(data: bytes) -> str:
    return next((name for start, name in _BEGINNINGS if data.startswith(start)), _OTHER)


def _file_name(key: str, data: bytes, found: Any) -> str:
    """The extension of the file of a feature: `segmentation_class.png`."""
    if key == ENCODED_KEY:
        return _image_extension(data, found)
    name = key.removeprefix("image/").removesuffix("/encoded").lower()
    return f"{_NOT_IN_A_NAME.sub('_', name)}.{_extension(data)}"


def _text(value: bytes) -> str | None:
    """Bytes as text in JSON; None if they are not text, or would be taken for a URL."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return None if _NO_TEXT.search(text) or text.startswith(_URL) else text


def _url(value: bytes) -> str:
    return f"{_URL}{_mime(value)};base64,{base64.b64encode(value).decode()}"


def _mime(value: bytes) -> str:
    extension = _extension(value)
    if extension == _OTHER:
        return "application/octet-stream"
    return f"image/{'jpeg' if extension == 'jpg' else extension}"


def _bytes(text: str) -> bytes:
    if not text.startswith(_URL):
        return text.encode()
    return base64.b64decode(text.partition(",")[2], validate=True)
