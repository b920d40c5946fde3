"""The services that the library obstore reads and writes: stores, retries, translated errors.

A `Service` is one kind of storage, such as S3. It makes the library's stores, one per bucket, which
hold connections and credentials. The library is imported when the first URI of a service is used.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, TypeVar

from beam_pipeline.core.errors import (
    BucketError,
    ConversionError,
    CredentialsError,
    UsageError,
)
from beam_pipeline.storage import retries
from beam_pipeline.storage.obstore_errors import RefusedError, answer_of, translated

Result = TypeVar("Result")

_CONNECT_TIMEOUT = "10s"
_READ_TIMEOUT = "60s"  # for the beginning of an answer and for its next bytes
_TIMEOUT = "10min"  # for a request
_PATIENT_TIMEOUT = "60min"  # for the upload of a large object

_BUCKET = re.compile(r"[A-Za-z0-9._$@-]+")  # and the account, which Azure's URIs may name

_runtime_of = 0
"""The process in which the library has begun its threads; a process forked from it has none."""


class Permissions(NamedTuple):
    """The permissions of a service, as its documentation names them."""

    list: str
    get: str
    create: str
    delete: str


class Place(NamedTuple):
    """An object of a bucket.

    Attributes:
      bucket: the part of the URI that names the bucket, and for some services the account.
      name: the object's name in the bucket; it may be empty, or a prefix.
    """

    bucket: str
    name: str


def place_of(uri: str) -> Place:
    """Returns bucket and name of a URI.

    >>> place_of("s3://pets/cat/1.jpg")
    Place(bucket='pets', name='cat/1.jpg')
    """
    bucket, _, name = uri.partition("://")[2].partition("/")
    return Place(bucket, name)


def bucket_uri(uri: str) -> str:
    """Returns the URI of an object's bucket."""
    return f"{uri.partition('://')[0]}://{place_of(uri).bucket}"


class Service(ABC):
    """One kind of storage.

    Attributes:
      title: the service's name.
      container: its word for a bucket.
      extra: the extra of this package that installs what it needs.
      credentials_help: what to do if there are no credentials.
      permissions: names of its permissions.
      deletes: objects that one request deletes.
      is_sorted: True if listings are sorted by name, and can begin at any name.
    """

    title: ClassVar[str]
    container: ClassVar[str] = "bucket"
    extra: ClassVar[str]
    credentials_help: ClassVar[str]
    permissions: ClassVar[Permissions]
    deletes: ClassVar[int]
    is_sorted: ClassVar[bool]

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stores: dict[tuple[str, bool], Any] = {}

    @abstractmethod
    def new_store(self, bucket: str, options: Mapping[str, Any]) -> Any:
        """Makes a store of the library.

        Args:
          bucket: a `Place.bucket`.
          options: keyword arguments for the store: `client_options`, `retry_config`.

        Raises:
          CredentialsError: there are no credentials.
          UsageError: a setting is missing.
          Exception: the library's, for a setting that it cannot use.
        """

    @abstractmethod
    def check_credentials(self) -> None:
        """Checks that there are credentials. Raises CredentialsError, UsageError."""

    def store(self, uri: str, *, patient: bool = False) -> Any:
        """Returns the store of a URI's bucket, made on first use; threads share it.

        Args:
          uri: an object or folder.
          patient: for requests that send much, whose answer may take an hour.

        Raises:
          CredentialsError: there are no credentials.
          UsageError: no bucket can have this name, a setting is missing or cannot be used, or this
            process was forked after the library was used.
        """
        _check_process(self.title)
        key = (place_of(uri).bucket, patient)
        found = self._stores.get(key)
        if found is None:
            self.library()
            with self._lock:
                found = self._stores.get(key)
                if found is None:
                    found = self._stores[key] = self._new_store(bucket_uri(uri), patient)
        return found

    def _new_store(self, uri: str, patient: bool) -> Any:
        bucket = place_of(uri).bucket
        if not _BUCKET.fullmatch(bucket):  # the library ends the process for some others
            raise UsageError(
                f"{uri}/: no {self.container} of {self.title} has such a name; expected letters a to z, "
                "digits, dots and hyphens"
            )
        client_options: dict[str, Any] = {
            "connect_timeout": _CONNECT_TIMEOUT,
            "timeout": _PATIENT_TIMEOUT if patient else _TIMEOUT,
            **({} if patient else {"read_timeout": _READ_TIMEOUT}),
        }
        # `retried` repeats requests, and says so; the library would repeat them in silence.
        options = {"client_options": client_options, "retry_config": {"max_retries": 0}}
        try:
            return self.new_store(bucket, options)
        except ConversionError:
            raise
        except Exception as error:  # the library's, for a key or a variable that it cannot read
            what = str(error).partition("\n")[0]
            raise UsageError(f"{uri}: settings of {self.title} cannot be used: {what}") from error

    def library(self) -> Any:
        """Returns the library. Raises UsageError if it is not installed."""
        try:
            import obstore
        except ImportError as error:
            raise self.not_installed(error) from error
        return obstore

    def not_installed(self, error: ImportError) -> UsageError:
        """Returns the error of a missing library."""
        return UsageError(
            f"{self.title} needs {error.name}, which is not installed: "
            f"pip install '.[{self.extra}]' in the checkout of beam-tfrecord"
        )

    def retried(self, request: Callable[[], Result], uri: str) -> Result:
        """Makes a request, and repeats it after a transient error.

        Args:
          request: makes the request from its beginning each time it is called.
          uri: the object or folder that it is about, for errors.

        Raises:
          TimeoutError: the request failed for `retries.RETRY_SECONDS`.
          CredentialsError: there are no credentials, or they are refused.
          TakenError: an object that should be new exists.
          OSError: another permanent error, as `translated` has it.
        """
        try:
            return retries.retried(
                request,
                lambda error: translated(error, uri),
                shown=lambda error: answer_of(error).text,
                service=self.title,
                uri=uri,
            )
        except RefusedError as error:
            raise CredentialsError(
                f"{uri}: credentials are refused or cannot be had: {error}; {self.credentials_help}"
            ) from error

    @contextlib.contextmanager
    def bucket_errors(self, uri: str, permission: str) -> Iterator[None]:
        """Turns 404 and 403 into errors that name the bucket and the permission.

        Raises:
          BucketError: the bucket does not exist, or the permission is missing.
        """
        try:
            yield
        except FileNotFoundError as error:
            raise BucketError(
                f"{self.container} {bucket_uri(uri)} does not exist: {uri}: {error.strerror}"
            ) from error
        except PermissionError as error:
            raise self.not_permitted(uri, permission, error) from error

    def not_permitted(self, uri: str, permission: str, error: OSError) -> BucketError:
        """Returns the error of a missing permission."""
        return BucketError(
            f"{uri}: permission {permission} on {self.container} {bucket_uri(uri)} is missing: "
            f"{error.strerror}"
        )


def _check_process(title: str) -> None:
    """Notes the process that uses the library. Raises UsageError in one forked from it.

    The library's threads do not live on in a forked process, so a request there would never end.
    """
    global _runtime_of
    if not _runtime_of:
        _runtime_of = os.getpid()
    elif _runtime_of != os.getpid():
        raise UsageError(
            f"{title} was used before this process was forked, and cannot be used in it: start "
            "processes with the method `spawn` or `forkserver`, in PyTorch with "
            'DataLoader(..., multiprocessing_context="spawn")'
        )
