"""A file system that keeps its files in a dictionary: no more than the protocol asks for."""

from __future__ import annotations

import io
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

from beam_pipeline.storage.base import FileSystem, FoundFile


class MemoryFiles(FileSystem):
    """Files by their URIs.

    Attributes:
      files: URI -> content.
      listed: the ranges that were asked for, in order: (prefix, start, end).
    """

    lists_ranges = True

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.files = dict(files or {})
        self.listed: list[tuple[str, str, str]] = []

    def read(self, uri: str, size: int = 0, offset: int = -1) -> bytes:
        if uri not in self.files:
            raise FileNotFoundError(uri)
        data = self.files[uri]
        return data if offset < 0 else data[offset : offset + size]

    def open_input(self, uri: str) -> BinaryIO:
        return io.BytesIO(self.read(uri))

    def find(self, uri: str) -> FoundFile:
        return FoundFile(uri, len(self.read(uri)))

    def list_files(self, folder: str) -> Iterator[FoundFile]:
        return self._named(f"{folder}/")

    def list_range(
        self, uri_prefix: str, start: str = "", end: str = "", *, digests: bool = False
    ) -> Iterator[FoundFile]:
        self.listed.append((uri_prefix, start, end))
        return self._named(uri_prefix, start, end)

    def first_name(self, uri_prefix: str, start: str = "", end: str = "") -> str | None:
        first = next(self._named(uri_prefix, start, end), None)
        return first.name if first else None

    def _named(self, prefix: str, start: str = "", end: str = "") -> Iterator[FoundFile]:
        uris = sorted(self.files)
        for uri in uris[bisect_left(uris, prefix + start) :]:
            name = uri.removeprefix(prefix)
            if not uri.startswith(prefix) or (end and name >= end):
                return
            yield FoundFile(name, len(self.files[uri]))

    @contextmanager
    def open_output(self, uri: str, temporary: str, *, new: bool = False) -> Iterator[Any]:
        sink = io.BytesIO()
        yield sink
        self.files[uri] = sink.getvalue()

    def delete(self, uris: Sequence[str]) -> None:
        for uri in uris:
            self.files.pop(uri, None)
