"""File systems on services that the library obstore reads and writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO, ClassVar

from beam_pipeline.core.dataset.manifest import crc32c_text
from beam_pipeline.core.errors import BucketError
from beam_pipeline.storage import obstore_objects as objects
from beam_pipeline.storage.base import FileSystem, FoundFile
from beam_pipeline.storage.obstore_client import Service, bucket_uri
from beam_pipeline.storage.obstore_errors import TakenError
from beam_pipeline.storage.obstore_upload import Upload, copy_object, with_checksum


class ObstoreFiles(FileSystem):
    """Objects of a service, with as few requests as possible.

    An object appears, complete, when its upload ends, so no temporary name and no rename is needed.

    Attributes:
      service_class: the service.
    """

    written_by_beam = False
    service_class: ClassVar[type[Service]]

    def __init__(self) -> None:
        self._service = self.service_class()
        self.lists_ranges = self._service.is_sorted

    def read(self, uri: str, size: int = 0, offset: int = -1) -> bytes:
        """Reads an object, or part of it, with one request. Raises OSError."""
        return objects.read(self._service, uri, size, offset)

    def open_input(self, uri: str) -> BinaryIO:
        """Opens an object. Raises OSError."""
        return objects.open_input(self._service, uri)

    def size_of(self, uri: str) -> int:
        """Returns bytes, or -1. Raises BucketError, OSError."""
        try:
            return objects.find(self._service, uri).size
        except FileNotFoundError:
            return -1

    def holds(self, uri: str, size: int, crc32c: int) -> bool:
        """Compares the object's metadata; one without a checksum is read. Raises as `size_of`."""
        try:
            found = with_checksum(self._service, uri, objects.find(self._service, uri), size)
        except FileNotFoundError:
            return False
        return (found.size, found.crc32c) == (size, crc32c_text(crc32c))

    def altered(self, folder: str, expected: Mapping[str, tuple[int, str]]) -> list[str]:
        """Compares the metadata of each object, with one request each. Raises as `size_of`."""
        uris = {f"{folder}/{name}": name for name in expected}
        found = objects.checksums(self._service, list(uris))
        altered = []
        for uri, name in uris.items():
            size, _ = expected[name]
            one = found.get(uri)
            if one is not None:
                one = with_checksum(self._service, uri, one, size)
            if one is None or (one.size, one.crc32c) != expected[name]:
                altered.append(name)
        return sorted(altered)

    def version_of(self, uri: str) -> int:
        """Returns a hash of the ETag. Raises FileNotFoundError, and as `size_of`."""
        return objects.find(self._service, uri).version

    def list_files(self, folder: str) -> Iterator[FoundFile]:
        """Lists every object below a folder. Raises BucketError, OSError."""
        return objects.list_objects(self._service, folder + "/")

    def list_range(
        self, uri_prefix: str, start: str = "", end: str = "", *, digests: bool = False
    ) -> Iterator[FoundFile]:
        """Lists a range of names, without digests. Raises BucketError, OSError."""
        assert not digests, "an ETag is not always a digest"
        return objects.list_objects(self._service, uri_prefix, start, end)

    def first_name(self, uri_prefix: str, start: str = "", end: str = "") -> str | None:
        """Returns the first name of a range. Raises BucketError, OSError."""
        return objects.first_object(self._service, uri_prefix, start, end)

    def check_credentials(self) -> None:
        """Looks for credentials. Raises UsageError."""
        self._service.library()
        self._service.check_credentials()

    def check_readable(self, folder: str) -> None:
        """Requests one page of names.

        Raises:
          CredentialsError: there are no credentials, or they are refused.
          BucketError: the bucket does not exist, or may not be listed.
        """
        objects.first_object(self._service, folder + "/")

    def prepare_folder(self, folder: str, probe: str) -> None:
        """Creates an empty object, which must fail the second time, and deletes it again.

        Raises:
          BucketError: the bucket does not exist, a permission is missing, or the service replaces
            an object that should be new.
        """
        with Upload(self._service, probe, new=True):
            pass
        try:
            if not self._is_kept(probe):
                raise BucketError(
                    f"{bucket_uri(folder)}: the service replaces an object in spite of the "
                    "condition If-None-Match, so another job's shards would not be safe; "
                    "write to another service, or to a local folder"
                )
        finally:
            objects.delete(self._service, [probe])

    def _is_kept(self, uri: str) -> bool:
        """True if the service refuses to create an object that exists."""
        try:
            objects.create_empty(self._service, uri)
        except TakenError:
            return True
        return False

    def open_output(self, uri: str, temporary: str, *, new: bool = False) -> Upload:
        """Opens an `Upload`, which needs no temporary name."""
        return Upload(self._service, uri, new=new)

    def copy_from(self, source: str, uri: str, temporary: str, *, new: bool = False) -> bool:
        """Has the service copy the object within a bucket. Raises as `copy_object`."""
        return copy_object(self._service, source, uri, new=new)

    def delete(self, uris: Sequence[str]) -> None:
        """Deletes objects. Raises BucketError, OSError."""
        objects.delete(self._service, uris)
