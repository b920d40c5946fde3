"""`inspect --to`: examples as image files and JSON Lines."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from beam_pipeline.core.dataset.names import INCOMPLETE_FOLDER
from beam_pipeline.core.errors import OutputError, OutputNotEmptyError
from beam_pipeline.core.images.header import image_extension
from beam_pipeline.core.records.example_view import FeatureList
from beam_pipeline.inspection.pictures import bare_pixels_of
from beam_pipeline.inspection.select import FoundExample
from beam_pipeline.inspection.sources import Source
from beam_pipeline.inspection.statistics import text_of
from beam_pipeline.storage import files

EXAMPLES_NAME = "examples.jsonl"
_NOT_IN_NAMES = re.compile(r"[^\w.\-]+")
_LONGEST_NAME = 60  # characters, which are 240 bytes at most


Export = Callable[[FoundExample], None]
"""Writes one example."""


@contextlib.contextmanager
def exporting(source: Source, folder: str) -> Iterator[Export]:
    """While the block runs, writes examples to a folder, and at its end their list.

    Args:
      source: where the examples come from.
      folder: the folder or its URI, new or empty. No file is written outside it, whatever the keys are.

    Raises:
      OutputNotEmptyError: the folder contains files.
      OutputError: a file cannot be written.
    """
    folder = files.canonical(folder)
    try:
        if files.list_folder(folder):
            raise OutputNotEmptyError(f"--to {folder} is not empty; name a new folder")
        files.make_folder(folder)
        try:
            with files.open_output(files.join(folder, EXAMPLES_NAME)) as lines:
                numbers = itertools.count()

                def write(example: FoundExample) -> None:
                    key = next(iter(source.naming.keys_of(example.features)), "")
                    features = {name: json_value(v) for name, v in example.features.items()}
                    for feature, data, extension in _images(example):
                        name = safe_name(next(numbers), key, extension)
                        files.write_bytes(files.join(folder, name), data)
                        features[feature] = {"file": name}
                    line = {
                        "key": key,
                        "split": example.file.split,
                        "file": example.file.uri.rpartition("/")[2],
                        "record": example.number,
                        "features": features,
                    }
                    text = json.dumps(line, ensure_ascii=False, allow_nan=False)
                    lines.write(f"{text}\n".encode("utf-8", "backslashreplace"))

                yield write
        finally:
            files.remove_folder(files.join(folder, INCOMPLETE_FOLDER))
    except OSError as error:
        raise OutputError(f"--to {folder} cannot be written: {error.strerror or error}") from error


def _images(example: FoundExample) -> Iterator[tuple[str, bytes, str]]:
    """(feature, content of a file, extension) of each image of an example."""
    if pixels := bare_pixels_of(example.features):
        key, rows, width, height = pixels
        yield key, b"P6\n%d %d\n255\n" % (width, height) + rows, "ppm"
    for key, values in example.features.items():
        data: Any = values.values[0] if len(values.values) == 1 else b""
        if values.kind == "bytes" and (extension := image_extension(data)):
            yield key, data, extension


def json_value(feature: FeatureList) -> Any:
    """The values of a feature for JSON: one value as itself, others as a list.

    Bytes that are not text become {"base64": ...}; NaN and infinities, which JSON does not have, texts.
    """
    values = [_json_of(value) for value in feature.values]
    return values[0] if len(values) == 1 else values


def _json_of(value: Any) -> Any:
    if isinstance(value, bytes):
        text = text_of(value)
        return {"base64": base64.b64encode(value).decode()} if text is None else text
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def safe_name(number: int, key: str, extension: str) -> str:
    """A file name for a sample that is unique by its number and is in no other folder.

    >>> safe_name(7, "../cat/a 1.jpg", "jpg")
    '000007-a_1.jpg'
    """
    stem = key.replace("\\", "/").rstrip("/").rpartition("/")[2]
    if stem.lower().endswith(f".{extension}"):
        stem = stem[: -len(extension) - 1]
    stem = _NOT_IN_NAMES.sub("_", stem)[:_LONGEST_NAME].strip("._")
    return f"{number:06d}{'-' if stem else ''}{stem}.{extension}"
