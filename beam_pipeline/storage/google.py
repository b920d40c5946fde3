"""Google Cloud Storage (gs://)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

from beam_pipeline.core.dataset.manifest import crc32c_text
from beam_pipeline.storage import google_objects as objects
from beam_pipeline.storage import google_reader
from beam_pipeline.storage.base import FileSystem, FoundFile
from beam_pipeline.storage.google_client import client
from beam_pipeline.storage.google_upload import Upload, copy_object


class GoogleStorage(FileSystem):
    """Objects of Google Cloud Storage, with as few requests as possible.

    An object appears, complete, when its upload ends, so no temporary name and no rename is needed.
    """

    lists_ranges = True
    lists_digests = True

    def read(self, uri: str, size: int = 0, offset: int = -1) -> bytes:
        """Reads an object, or part of it, with one request. Raises OSError."""
        return google_reader.read(uri, size, offset)

    def open_input(self, uri: str) -> BinaryIO:
        """Opens an object. Raises OSError."""
        return google_reader.open_input(uri)

    def size_of(self, uri: str) -> int:
        """Returns bytes, or -1. Raises as `list_files`."""
        try:
            return objects.find(uri).size
        except FileNotFoundError:
            return -1

    def holds(self, uri: str, size: int, crc32c: int) -> bool:
        """Compares the object's metadata, with one request. Raises as `list_files`."""
        try:
            found = objects.find(uri)
        except FileNotFoundError:
            return False
        return found.size == size and found.crc32c in ("", crc32c_text(crc32c))

    def altered(self, folder: str, expected: Mapping[str, tuple[int, str]]) -> list[str]:
        """Compares what one listing tells. Raises as `list_files`."""
        if not expected:
            return []
        first, last = min(expected), max(expected)
        found = objects.checksums(folder + "/", first, last + "0")  # the end is left out
        return sorted(name for name in expected if found.get(name) != expected[name])

    def version_of(self, uri: str) -> int:
        """Returns the generation. Raises FileNotFoundError, and as `list_files`."""
        return objects.find(uri).generation

    def list_files(self, folder: str) -> Iterator[FoundFile]:
        """Lists every object below a folder, sorted. Raises BucketError, OSError."""
        return objects.list_objects(folder + "/")

    def list_range(
        self, uri_prefix: str, start: str = "", end: str = "", *, digests: bool = False
    ) -> Iterator[FoundFile]:
        """Lists a range of names. Raises BucketError, OSError."""
        return objects.list_objects(uri_prefix, start, end, digests=digests)

    def first_name(self, uri_prefix: str, start: str = "", end: str = "") -> str | None:
        """Returns the first name of a range. Raises BucketError, OSError."""
        return objects.first_object(uri_prefix, start, end)

    def check_credentials(self) -> None:
        """Makes the client. Raises UsageError."""
        client()

    def check_readable(self, folder: str) -> None:
        """Requests one name.

        Raises:
          CredentialsError: there are no credentials, or they are refused.
          BucketError: the bucket does not exist, or may not be listed.
        """
        objects.first_with_prefix(folder + "/")

    def prepare_folder(self, folder: str, probe: str) -> None:
        """Writes an empty object and deletes it again. Raises BucketError."""
        with Upload(probe, new=True):
            pass
        objects.delete_one(probe)

    def open_output(self, uri: str, temporary: str, *, new: bool = False) -> Upload:
        """Opens an `Upload`, which needs no temporary name."""
        return Upload(uri, new=new)

    def copy_from(self, source: str, uri: str, temporary: str, *, new: bool = False) -> bool:
        """Has the service copy the object, also between buckets. Raises as `copy_object`."""
        copy_object(source, uri, new=new)
        return True

    def delete(self, uris: Sequence[str]) -> None:
        """Deletes objects. Raises BucketError, OSError."""
        objects.delete(uris)
