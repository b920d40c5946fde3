"""Google Cloud Storage (gs://) through Google's client library; the client and downloads are in `google_client`."""

from __future__ import annotations

import base64
import errno
import functools
import http
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from beam_pipeline.core.errors import CredentialsError
from beam_pipeline.storage import buckets
from beam_pipeline.storage.base import FoundFile
from beam_pipeline.storage.buckets import (
    FIRST_DELAY,
    LONGEST_DELAY,
    PAGE_SIZE,
    TRANSIENT_STATUS,
    BucketFiles,
    Permissions,
    StoredObject,
    TakenError,
    Waiting,
    lost,
    place_of,
)
from beam_pipeline.storage.google_client import (
    CREDENTIALS_HELP,
    TIMEOUT,
    DamagedError,
    client,
    download,
)

CHUNK_BYTES = 16 << 20  # 16 MiB per request of an upload; a multiple of 256 KiB
_CONTENT_TYPE = "application/octet-stream"
_LOST_STATUS = (404, 410)


class _Listed(NamedTuple):
    """An object as listed; creating the library's `Blob`s would take a third of a listing's time."""

    name: str
    size: int
    generation: int
    crc32c: str
    md5: str

    @classmethod
    def of(cls, _: Any, item: dict[str, str]) -> _Listed:
        return cls(
            item["name"],
            int(item.get("size", 0)),
            int(item.get("generation", 0)),
            item.get("crc32c", ""),
            item.get("md5Hash", ""),
        )


class GoogleStorage(BucketFiles):
    """Google Cloud Storage."""

    title = "Google Cloud Storage"
    permissions = Permissions(
        *(f"storage.objects.{verb}" for verb in ("list", "get", "create", "delete"))
    )
    lists_digests = True
    written_by_beam = True
    proves_conditions = True

    def check_credentials(self) -> None:
        client()

    def check_name(self, uri: str) -> None:
        client()

    def get(
        self, uri: str, span: tuple[int, int] | None = None, version: str = ""
    ) -> tuple[bytes, str]:
        """Reads as the protocol says; the CRC-32C of a whole object is compared."""
        place = place_of(uri)
        return self.retried(lambda: download(place, span, version), uri)

    def find(self, uri: str) -> StoredObject:
        """Describes an object by a listing, which needs no other permission and has the checksum."""
        listed, _ = self._page(uri, size=1, fields=",crc32c")
        if not listed or listed[0].name != place_of(uri).name:
            raise FileNotFoundError(errno.ENOENT, "no object has this name", uri)
        return StoredObject(listed[0].size, listed[0].generation, listed[0].crc32c)

    def find_all(self, folder: str, names: Iterable[str]) -> dict[str, StoredObject]:
        """Describes objects by one listing."""
        names = sorted(names)
        listed = self._listed(folder + "/", names[0], names[-1] + "0", ",crc32c")  # without the end
        return {name: StoredObject(at.size, at.generation, at.crc32c) for name, at in listed}

    def list_range(
        self, uri_prefix: str, start: str = "", end: str = "", *, digests: bool = False
    ) -> Iterator[FoundFile]:
        for name, at in self._listed(uri_prefix, start, end, ",md5Hash" if digests else ""):
            if name and not (name.endswith("/") and not at.size):
                yield FoundFile(name, at.size, at.generation, base64.b64decode(at.md5))

    def first_name(self, uri_prefix: str, start: str = "", end: str = "") -> str | None:
        listed, _ = self._page(uri_prefix, start, end, size=1)
        return listed[0].name[len(place_of(uri_prefix).name) :] if listed else None

    def _listed(
        self, uri_prefix: str, start: str, end: str, fields: str
    ) -> Iterator[tuple[str, _Listed]]:
        """Yields names relative to the prefix, with the objects, page by page."""
        prefix, token = place_of(uri_prefix).name, None
        while True:
            page, token = self._page(uri_prefix, start, end, token=token, fields=fields)
            yield from ((listed.name[len(prefix) :], listed) for listed in page)
            if not token:
                return

    def _page(
        self,
        uri_prefix: str,
        start: str = "",
        end: str = "",
        *,
        token: str | None = None,
        size: int = 0,
        fields: str = "",
    ) -> tuple[list[_Listed], str | None]:
        """Returns one page of a listing, and the token of the next."""
        bucket, prefix = place_of(uri_prefix)

        def request() -> tuple[list[_Listed], str | None]:
            answer = client().list_blobs(
                bucket,
                prefix=prefix or None,
                start_offset=prefix + start if start else None,
                end_offset=prefix + end if end else None,
                page_token=token,
                page_size=size or PAGE_SIZE,
                fields=f"items(name,size,generation{fields}),nextPageToken",
                retry=None,
                timeout=TIMEOUT,
            )
            answer.item_to_value = _Listed.of
            page = [*next(answer.pages, ())]
            return page, answer.next_page_token

        with self.naming(uri_prefix, self.permissions.list):
            return self.retried(request, uri_prefix)

    def put(self, uri: str, data: bytes, crc32c: str, *, new: bool) -> None:
        options = {**_condition(new), "checksum": "crc32c", "retry": None, "timeout": TIMEOUT}
        blob = _blob(uri)
        with self.naming(uri, self._to_create(new)):
            self.retried(lambda: blob.upload_from_string(data, _CONTENT_TYPE, **options), uri)

    def stream(self, uri: str, *, new: bool) -> _Resumable:
        return _Resumable(self, uri, new, self._to_create(new))

    def copy(self, source: str, uri: str, *, new: bool) -> bool:
        """Copies also between buckets; a large object takes several requests."""
        blob, copied = _blob(uri), _blob(source)
        options = {**_condition(new), "retry": None, "timeout": TIMEOUT}
        token: str | None = None

        def request() -> str | None:
            next_token: str | None = blob.rewrite(copied, token=token, **options)[0]
            return next_token

        joint = " and " if new else ", "
        with self.naming(uri, f"{self.permissions.get}{joint}{self._to_create(new)}"):
            while token := self.retried(request, uri):
                pass
        return True

    def _to_create(self, new: bool) -> str:
        """Returns the permissions to write an object; replacing one takes two."""
        names = self.permissions
        return names.create if new else f"{names.create} or {names.delete}"

    def delete_together(self, uris: Sequence[str]) -> None:
        for uri in uris:
            blob = _blob(uri)
            try:
                with self.naming(uri, self.permissions.delete, missing=False):
                    self.retried(functools.partial(blob.delete, retry=None, timeout=TIMEOUT), uri)
            except FileNotFoundError:  # or an earlier attempt deleted it
                pass

    # Errors.

    def text(self, error: Any) -> str:
        """Returns an answer by its code and the server's words, another error by its class."""
        error = _api_error(error)
        code = getattr(error, "code", None)
        if code is None:
            return f"{type(error).__name__}: {error}"
        return " ".join(f"{int(code)} {_words(error)}".split())

    def permanent(self, error: Exception, uri: str) -> Exception | None:
        client()  # raises an error if the library is not installed
        from google.api_core import exceptions
        from google.auth.exceptions import GoogleAuthError

        if is_transient(error) or isinstance(
            error, (DamagedError, _library_error("DataCorruption"))
        ):
            return None
        if isinstance(error, exceptions.RetryError):
            return self.timeout(buckets.RETRY_SECONDS, self.text(error.cause), uri)
        if isinstance(error, GoogleAuthError):
            return CredentialsError(
                f"{uri}: credentials cannot be used: {error}; {CREDENTIALS_HELP}"
            )
        answer = _api_error(error)
        if not isinstance(answer, exceptions.GoogleAPICallError):
            return error
        text = self.text(answer)
        if isinstance(answer, exceptions.Unauthorized):
            return CredentialsError(f"{uri}: credentials are refused: {text}")
        if isinstance(answer, exceptions.PreconditionFailed):
            return TakenError(text)
        if isinstance(answer, exceptions.Forbidden):
            return PermissionError(errno.EACCES, text, uri)
        if isinstance(answer, exceptions.NotFound):
            return FileNotFoundError(errno.ENOENT, text, uri)
        is_after_end = isinstance(answer, exceptions.RequestRangeNotSatisfiable)
        return OSError(errno.ERANGE if is_after_end else errno.EIO, text, uri)


def _blob(uri: str) -> Any:
    """Returns the library's `Blob` of an object, without a request. Raises as `client`."""
    place = place_of(uri)
    return client().bucket(place.bucket).blob(place.name)


def _condition(new: bool) -> dict[str, int]:
    return {"if_generation_match": 0} if new else {}


class _Resumable:
    """A resumable upload. One chunk is held in memory and resent after a transient error."""

    def __init__(self, driver: GoogleStorage, uri: str, new: bool, permission: str) -> None:
        from google.api_core import retry

        self._driver = driver
        self._uri = uri
        self._permission = permission
        waiting = Waiting(driver.title)
        self._writer = _writer_class()(
            _blob(uri),
            chunk_size=CHUNK_BYTES,
            retry=retry.Retry(
                predicate=is_transient,
                on_error=lambda error: waiting.add(driver.text(error)),
                initial=FIRST_DELAY,
                maximum=LONGEST_DELAY,
                timeout=buckets.RETRY_SECONDS,
            ),
            content_type=_CONTENT_TYPE,
            checksum="crc32c",
            timeout=TIMEOUT,
            **_condition(new),
        )

    def write(self, data: bytes) -> None:
        """Adds bytes, which the library sends when they fill a chunk."""
        self._request(lambda: self._writer.write(data))

    def complete(self, size: int, crc32c: str) -> None:
        """Sends the rest, and checks that the object exists."""
        self._request(self._writer.complete)
        try:
            stored = self._driver.find(self._uri)
            is_whole = (stored.size, stored.crc32c) == (size, crc32c)
        except FileNotFoundError:
            is_whole = False
        if not is_whole:
            raise lost(self._uri, "the upload ended, but the object is not as it was sent")

    def close(self) -> None:
        """Does nothing: an upload that is not completed is discarded by the server after a week."""

    def _request(self, request: Callable[[], object]) -> None:
        with self._driver.naming(self._uri, self._permission):
            try:
                request()
            except ValueError as error:  # the server has stored less of a chunk than was sent
                raise lost(self._uri, f"the upload cannot go on: {error}") from error
            except Exception as error:
                raise self._failure(error) from error

    def _failure(self, error: Any) -> Exception:
        if isinstance(error, _library_error("DataCorruption")):
            self._driver.delete_together([self._uri])
            return lost(self._uri, "the upload arrived damaged and was deleted again")
        if isinstance(error, _library_error("InvalidResponse")):
            # A POST begins an upload; the answer is 404 if the bucket does not exist.
            answer = error.response  # type: ignore[attr-defined]
            if answer.status_code in _LOST_STATUS and answer.request.method == "PUT":
                return lost(self._uri, "the server has forgotten the upload")
        return self._driver.permanent(error, self._uri) or error


@functools.cache
def _writer_class() -> Any:
    """Returns the library's writer of a resumable upload, with one change.

    Python closes an open file when it is garbage collected, and `BlobWriter.close` completes the
    upload: after a failed write, a truncated shard would appear. So `close` does nothing here, and
    `complete` completes the upload.

    The library's own remedy, `terminate`, does not work: version 3.17 sends its DELETE to the URL
    that begins uploads, not to that of the upload, and if the request fails, the writer stays open.
    """
    from google.cloud.storage.fileio import BlobWriter

    class Writer(BlobWriter):  # type: ignore[misc, unused-ignore]
        def close(self) -> None:
            """Does nothing."""

        def complete(self) -> None:
            """Sends the rest, which makes the object visible."""
            super().close()

    return Writer


def is_transient(error: BaseException) -> bool:
    """True if the failure of the connection or the server is transient."""
    from google.api_core import exceptions
    from google.auth.exceptions import TransportError

    answer = _api_error(error)
    if isinstance(answer, exceptions.GoogleAPICallError):
        if answer.code in TRANSIENT_STATUS:
            return True
        # Some exceeded quotas give 403, with reasons that a missing permission never has.
        reasons = [item.get("reason", "") for item in answer.errors if isinstance(item, dict)]
        return answer.code == 403 and any(text.endswith("ateLimitExceeded") for text in reasons)
    return isinstance(error, (TransportError, *_broken_connections()))


def _api_error(error: Any) -> Any:
    """Returns the error of `google.api_core` for an answer; resumable uploads raise another class."""
    from google.api_core import exceptions

    if isinstance(error, _library_error("InvalidResponse")):
        return exceptions.from_http_response(error.response)  # type: ignore[attr-defined]
    return error


@functools.cache
def _library_error(name: str) -> type[Exception]:
    """Returns a class of errors of the client library, which its version 3 moved."""
    try:
        from google.cloud.storage import exceptions as library
    except ImportError:  # before version 3
        import google.resumable_media as library
    error: type[Exception] = getattr(library, name)
    return error


@functools.cache
def _broken_connections() -> tuple[type[Exception], ...]:
    """Returns the classes of the errors that a broken connection raises."""
    import http.client

    import requests
    import urllib3

    return (
        ConnectionError,
        TimeoutError,
        http.client.HTTPException,
        requests.ConnectionError,
        requests.Timeout,
        requests.exceptions.ChunkedEncodingError,
        requests.exceptions.ContentDecodingError,
        urllib3.exceptions.HTTPError,
    )


def _words(error: Any) -> str:
    """Returns the server's message, which is plain text for downloads and JSON otherwise."""
    answer = error.response
    if answer is None or not answer.text.strip():
        return http.HTTPStatus(error.code).phrase
    try:
        return str(answer.json()["error"]["message"])
    except (KeyError, TypeError, ValueError):
        return str(answer.text[:300])
