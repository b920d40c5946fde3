"""Reads caption files, each with the JSON object beside it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.labels.table_files import UTF_8, LabelTable
from beam_pipeline.core.labels.tables import LabelSchema
from beam_pipeline.core.labels.typed_rows import typed_row
from beam_pipeline.core.references import LabelRow
from beam_pipeline.layouts.shared.sidecars import (
    CAPTION_COLUMN,
    KEY_COLUMN,
    json_fields,
)
from beam_pipeline.storage import files

JSON = ".json"
MOST_BYTES = (
    1 << 20
)  # 1 MiB of a caption or an object; they are held with the reference of the image

_NO_CAPTIONS = ("readme", "license", "licence", "copying", "notice", "changelog")
_LISTS = frozenset({"labels", "classes", "requirements"})
_ENCODING_NAMES = {UTF_8: "UTF-8", "utf-16": "UTF-16"}
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class CaptionReader:
    """Reads a caption file: the labels of the image of its name.

    Attributes:
      folders: folders with captions of images that lie elsewhere; an image is named by the caption's path
        below them. Other captions lie beside their images.
      table: the samples' columns, as of a table.
      schema: their kinds.
      encoding: encoding of the captions; empty for UTF-8, or UTF-16 with a byte order mark.
      has_fields: True if JSON objects lie beside captions.
    """

    folders: tuple[str, ...]
    table: LabelTable
    schema: LabelSchema
    encoding: str
    has_fields: bool

    def read(self, file: BinaryIO, uri: str) -> Iterator[LabelRow | DeadLetter]:
        """Yields the one row of a file; none for a README and the like."""
        if is_no_caption(posixpath.basename(uri)):
            return
        name = self._image(uri)
        fields: dict[str, Any] = {KEY_COLUMN: name}
        problem = ""
        try:
            fields[CAPTION_COLUMN] = caption_of(_bounded(file), self.encoding)
            if self.has_fields:
                fields = {**fields_beside(uri), **fields}  # a caption's own file comes first
        except (OSError, ValueError, RecursionError) as error:
            problem = (isinstance(error, OSError) and error.strerror) or str(error)
        row = typed_row(
            name=name,
            fields=fields,
            table=replace(self.table, uri=uri),
            schema=self.schema,
            line=0,
        )
        yield row._replace(problem=problem) if problem else row

    def _image(self, uri: str) -> str:
        """The path of a caption's image, without extension."""
        stem = posixpath.splitext(uri)[0]
        inside = [folder for folder in self.folders if uri.startswith(f"{folder}/")]
        return stem[len(max(inside)) + 1 :] if inside else stem


def is_no_caption(name: str) -> bool:
    """True for names of files that lie in many folders and describe no image, such as README.txt."""
    stem = posixpath.splitext(name)[0].lower()
    return stem.startswith(_NO_CAPTIONS) or stem in _LISTS


def caption_of(data: bytes, encoding: str = "") -> str:
    """The text of a caption file, all of its lines, without space around it.

    Raises:
      ValueError: it has another encoding.
    """
    encoding = encoding or encoding_of(data)
    try:
        text = data.decode(encoding).strip()
        text.encode()  # some encodings can write half of a surrogate pair
        return text
    except UnicodeError as error:
        raise ValueError(
            f"not a text in {_ENCODING_NAMES.get(encoding, encoding)} ({error}); save it as UTF-8, or "
            "name the encoding of all captions with --labels_encoding"
        ) from error


def encoding_of(data: bytes) -> str:
    """The encoding of a caption file where none is given, by its byte order mark."""
    return "utf-16" if data.startswith(_UTF_16_MARKS) else UTF_8


def fields_beside(uri: str) -> dict[str, Any]:
    """The columns in the JSON object beside a caption file; none without such a file.

    Raises:
      OSError: it cannot be read.
      ValueError, RecursionError: it is no JSON object.
    """
    try:
        with files.open_input(f"{posixpath.splitext(uri)[0]}{JSON}") as file:
            data = _bounded(file)
    except FileNotFoundError:
        return {}
    try:
        return json_fields(data.decode(UTF_8))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the {JSON} beside the caption cannot be used: {error}") from error


def _bounded(file: BinaryIO) -> bytes:
    """The bytes of a small file. Raises ValueError if it is larger."""
    data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError(f"the file has more than {MOST_BYTES} bytes; expected a short text")
    return data
