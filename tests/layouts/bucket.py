"""Local folders under a scheme of their own, listed by prefix as object stores do: bucket:///tmp/x."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from apache_beam.io.filesystem import FileMetadata
from apache_beam.io.localfilesystem import LocalFileSystem

_SCHEME = "bucket://"


class Bucket(LocalFileSystem):  # type: ignore[misc]
    """Known to Beam as soon as it is imported, in this process only."""

    @classmethod
    def scheme(cls) -> str:
        return "bucket"

    def has_dirs(self) -> bool:
        return False

    def exists(self, path: str) -> bool:
        return os.path.isfile(path.removeprefix(_SCHEME))

    def metadata(self, path: str) -> FileMetadata:
        return FileMetadata(path, os.path.getsize(path.removeprefix(_SCHEME)))

    def open(self, path: str, *arguments: Any, **options: Any) -> Any:
        return super().open(path.removeprefix(_SCHEME), *arguments, **options)

    def _list(self, prefix: str) -> Iterator[FileMetadata]:
        for folder, _, names in os.walk(os.path.dirname(prefix.removeprefix(_SCHEME))):
            for name in sorted(names):
                path = os.path.join(folder, name)
                yield FileMetadata(_SCHEME + path, os.path.getsize(path))
