"""A bucket of a real or emulated service, as tests know it, past the proxy and past the program's own client."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, NamedTuple

from tests.gcs.proxy import Fault, Proxy, Request


class Kinds(NamedTuple):
    """Regular expressions of the verb and of path and query, for each kind of request."""

    list: tuple[str, str]
    read: tuple[str, str]
    write: tuple[str, str]
    delete: tuple[str, str]


class Store(ABC):
    """A new, empty bucket.

    Attributes:
      scheme: of its URIs.
      container: the service's word for a bucket.
      kinds: how its requests are told apart.
      permissions: the service's names for list, get, create and delete.
      bucket: its name.
      uri: the same as a URI.
      proxy: what the program talks to.
    """

    scheme: ClassVar[str]
    container: ClassVar[str] = "bucket"
    kinds: ClassVar[Kinds]
    permissions: ClassVar[dict[str, str]]
    bucket: str
    proxy: Proxy

    @property
    def uri(self) -> str:
        return f"{self.scheme}://{self.bucket}"

    @abstractmethod
    def put(self, name: str, content: bytes) -> None:
        """Uploads an object."""

    @abstractmethod
    def names(self, prefix: str = "") -> list[str]:
        """The objects whose names begin so, sorted."""

    @abstractmethod
    def get(self, name: str) -> bytes:
        """Downloads an object."""

    @abstractmethod
    def delete(self, prefix: str) -> None:
        """Deletes every object whose name begins so."""

    @abstractmethod
    def touch(self, name: str) -> None:
        """Makes another version of an object, of the same size."""

    @abstractmethod
    def name_of(self, request: Request) -> str:
        """The object in the path of a request; empty if it is about others."""

    @abstractmethod
    def is_read(self, request: Request) -> bool:
        """Whether a request is for the content of an object."""

    @abstractmethod
    def is_copy(self, request: Request) -> bool:
        """Whether a request has the service copy an object."""

    @abstractmethod
    def deleted(self, log: Iterable[Request]) -> list[str]:
        """The objects whose deletion was requested."""

    @abstractmethod
    def is_about_bucket(self, request: Request) -> bool:
        """Whether a request is about the bucket itself, not about its objects."""

    @abstractmethod
    def shown(self, status: int, message: str) -> str:
        """A refusal by the proxy, as errors show it."""

    @abstractmethod
    def late_deletion(self, name: str, seconds: float) -> Fault:
        """Keeps the deletion of an object waiting, after that of the manifest."""

    def reads(self, log: Iterable[Request]) -> list[str]:
        """The objects whose content was asked for, as often as it was."""
        return [self.name_of(request) for request in log if self.is_read(request)]

    def put_folder(self, folder: Path, prefix: str) -> None:
        """Uploads every file below a folder."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.put(f"{prefix}/{path.relative_to(folder).as_posix()}", path.read_bytes())

    def get_folder(self, prefix: str, folder: Path) -> Path:
        """Downloads every object below a prefix."""
        for name in self.names(prefix + "/"):
            path = folder / name.removeprefix(prefix + "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.get(name))
        return folder
