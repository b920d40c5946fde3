"""Google Cloud Storage (gs://) through Google's client library.

Its client takes about 1 ms of CPU for a GET; urllib3 alone nearly half of that, and the standard library less. This
is more than everything else that is done with an image, so `_Direct` requests objects by the standard library, with
the client's credentials and endpoint. The client's session gets what fails there. The library obstore takes as
little, but it passes on no CRC-32C, does not survive a fork, and reads no name such as `a//b`.

This module is imported when the first `gs://` URI is used.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import http
import http.client
import io
import json
import mmap
import os
import re
import ssl
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import google.auth
import requests.adapters
import requests.certs
import requests.utils
import urllib3
from google.api_core.exceptions import GoogleAPICallError, from_http_status
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import GoogleAuthError, TransportError
from google.auth.transport.requests import Request
from google.cloud import storage
from google_crc32c import value
from urllib3.util import wait_for_read

from beam_pipeline.core.dataset.manifest import crc32c_text
from beam_pipeline.core.errors import CredentialsError
from beam_pipeline.storage import base, buckets

CHUNK_BYTES = 16 << 20  # 16 MiB per request of a large upload; a multiple of 256 KiB
CONNECTIONS = 64
"""Connections that are kept open, so that as many threads can read at once."""

TIMEOUT = (10.0, 60.0)
"""Seconds to wait for a connection, and for the next bytes of an answer."""

_OPTIONS = {"retry": None, "timeout": TIMEOUT}
_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_HEADERS = ("X-Goog-Hash", "X-Goog-Generation", "Content-Range")
_METADATA_SERVER = "169.254.169.254"
CREDENTIALS_HELP = (
    "run `gcloud auth application-default login`, or name a key file in "
    "GOOGLE_APPLICATION_CREDENTIALS, or run on a machine of Google Cloud with a service account"
)
_BROKEN_CONNECTION = (
    *(ConnectionError, TimeoutError, TransportError, http.client.HTTPException),
    *(requests.ConnectionError, requests.Timeout, urllib3.exceptions.HTTPError),
    *(requests.exceptions.ChunkedEncodingError, requests.exceptions.ContentDecodingError),
)


class DamagedError(Exception):
    """Other bytes arrived than were sent."""


class GoogleStorage(buckets.BucketFiles):
    """Google Cloud Storage."""

    title = "Google Cloud Storage"
    permissions = buckets.Permissions(
        list="storage.objects.list",
        get="storage.objects.get",
        create="storage.objects.create",
        delete="storage.objects.delete",
        replace="storage.objects.create or storage.objects.delete",
    )
    lists_digests = True
    proves_conditions = True

    def check_credentials(self) -> None:
        session()

    def get(self, uri: str, span: buckets.Span = None, version: str = "") -> tuple[bytes, str]:
        """Implements `get` of the protocol; the CRC-32C of a whole object is compared."""
        return download(buckets.place_of(uri), span, version)

    def find(self, uri: str) -> base.FoundFile:
        """Describes an object by a listing, which needs no other permission and has the checksum."""
        listed = next(self._listed(uri, fields=",crc32c", at_once=1), None)
        if listed is None or listed.name:
            raise FileNotFoundError(errno.ENOENT, "no object has this name", uri)
        return listed._replace(name=uri)

    def find_all(self, folder: str, names: Iterable[str]) -> dict[str, base.FoundFile]:
        """Describes objects by one listing."""
        names = sorted(names)
        listed = self._listed(folder + "/", names[0], names[-1] + "0", ",crc32c")  # without the end
        return {file.name: file for file in listed}

    def list_range(
        self, uri_prefix: str, start: str = "", end: str = "", *, digests: bool = False
    ) -> Iterator[base.FoundFile]:
        fields = ",md5Hash" if digests else ""
        for file in self._listed(uri_prefix, start, end, fields):
            if file.name and not (file.name.endswith("/") and not file.size):
                yield file

    def first_name(self, uri_prefix: str, start: str = "", end: str = "") -> str | None:
        first = next(self._listed(uri_prefix, start, end, at_once=1), None)
        return first.name if first else None

    def _listed(
        self, uri_prefix: str, start: str = "", end: str = "", fields: str = "", at_once: int = 0
    ) -> Iterator[base.FoundFile]:
        """Yields the objects of a range, page by page, with the fields that are asked for."""
        bucket, prefix = buckets.place_of(uri_prefix)
        token: str | None = None

        def listed(_: Any, item: dict[str, str]) -> base.FoundFile:
            return base.FoundFile(
                item["name"][len(prefix) :],
                int(item.get("size", 0)),
                int(item.get("generation", 0)),
                base64.b64decode(item.get("md5Hash", "")),
                item.get("crc32c", ""),
            )

        def request() -> tuple[list[base.FoundFile], str | None]:
            answer = session().client.list_blobs(
                bucket,
                prefix=prefix or None,
                start_offset=prefix + start if start else None,
                end_offset=prefix + end if end else None,
                page_token=token,
                page_size=at_once or buckets.PAGE_SIZE,
                fields=f"items(name,size,generation{fields}),nextPageToken",
                **_OPTIONS,
            )
            answer.item_to_value = listed  # the library's `Blob`s take a third of a listing's time
            page = [*next(answer.pages, ())]
            return page, answer.next_page_token

        while True:
            page, token = self.retried(request, uri_prefix, self.permissions.list)
            yield from page
            if not token:
                return

    def put(self, uri: str, data: bytes | mmap.mmap, crc32c: str, *, new: bool) -> None:
        """Writes as the protocol describes: more than 8 MiB by several requests, all of which are repeated."""
        options = {**_OPTIONS, **_condition(new)}
        file = data if isinstance(data, mmap.mmap) else io.BytesIO(data)
        try:
            _blob(uri).upload_from_file(
                file, rewind=True, size=len(data), checksum="crc32c", **options
            )
        except ValueError as error:  # the server has stored less of a chunk than was sent
            raise DamagedError(f"the upload cannot continue: {error}") from error

    def copy(self, source: str, uri: str, *, new: bool) -> bool:
        """Copies also between buckets; a large object takes several requests."""
        blob, copied = _blob(uri), _blob(source)
        rewrite = partial(blob.rewrite, copied, **_OPTIONS, **_condition(new))
        needed = f"{self.permissions.get}, {self.permissions.to_write(new=new)}"
        token: str | None = None
        while token := self.retried(lambda: rewrite(token=token)[0], uri, needed):
            pass
        return True

    def delete_together(self, uris: Sequence[str]) -> None:
        for uri in uris:
            _blob(uri).delete(**_OPTIONS)

    # Errors.

    def text(self, error: Any) -> str:
        """Returns an answer by its status and the server's words, another error by its class."""
        status = _status(error)
        if not status:
            return f"{type(error).__name__}: {error}"
        body = getattr(getattr(error, "response", None), "text", "").strip()
        words = (
            _details(error).get("message") or body[:300] or http.client.responses.get(status, "")
        )
        return " ".join(f"{status} {words}".split())

    def is_refusal(self, error: Exception) -> bool:
        status = _status(error)
        return status in buckets.REFUSED_STATUS or (status == 403 and is_transient(error))

    def permanent(self, error: Exception, uri: str) -> Exception | None:
        # The library's class of damaged uploads has moved between its versions 2 and 3.
        is_damaged = isinstance(error, DamagedError) or type(error).__name__ == "DataCorruption"
        if is_damaged or is_transient(error) or _is_forgotten(error):
            return None
        if isinstance(error, GoogleAuthError):
            return CredentialsError(
                f"{uri}: credentials cannot be used: {error}; {CREDENTIALS_HELP}"
            )
        if not isinstance(error, GoogleAPICallError):
            return error
        text, status = self.text(error), _status(error)
        if status == 401:
            return CredentialsError(f"{uri}: credentials are refused: {text}")
        if status == 412:
            return buckets.TakenError(text)
        numbers = {403: errno.EACCES, 404: errno.ENOENT, 416: errno.ERANGE}
        return OSError(numbers.get(status, errno.EIO), text, uri)


def _blob(uri: str) -> Any:
    """Returns the library's `Blob` of an object, without a request. Raises as `session`."""
    place = buckets.place_of(uri)
    return session().client.bucket(place.bucket).blob(place.name, chunk_size=CHUNK_BYTES)


def _condition(new: bool) -> dict[str, int]:
    return {"if_generation_match": 0} if new else {}


def is_transient(error: BaseException) -> bool:
    """True if the failure of the connection or the server is transient."""
    status = _status(error)
    if status == 403:  # for some exceeded quotas, with reasons that a missing permission never has
        errors = _details(error).get("errors", ())
        return any("ateLimitExceeded" in str(item) for item in errors)
    return status in buckets.TRANSIENT_STATUS or isinstance(error, _BROKEN_CONNECTION)


def _is_forgotten(error: Any) -> bool:
    """True if the server no longer knows an upload, which must be sent again from its beginning.

    A POST begins an upload; its answer is 404 if the bucket does not exist.
    """
    request = getattr(getattr(error, "response", None), "request", None)
    return _status(error) in (404, 410) and getattr(request, "method", "") == "PUT"


def _status(error: Any) -> int:
    """Returns the HTTP status of an answer, also of one to a chunk of an upload; 0 for none."""
    response = getattr(error, "response", None)
    return int(getattr(error, "code", None) or getattr(response, "status_code", None) or 0)


def _details(error: Any) -> dict[str, Any]:
    """Returns what an answer of the JSON interface states about an error; empty for another answer."""
    try:
        details = error.response.json()["error"]
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}
    return details if isinstance(details, dict) else {}


# The client.


class Session(NamedTuple):
    """The client of a process, and its two senders of downloads, whose connections threads share.

    Attributes:
      client: Google's.
      http: its `requests` session, for what `direct` fails to download.
      direct: for downloads; None with a proxy, a certificate of the client's, or unreadable certificates.
    """

    client: Any
    http: Any
    direct: _Direct | None


_lock = threading.Lock()
_session: Session | None = None


def session() -> Session:
    """Returns the session of this process, made on first use.

    Raises:
      CredentialsError: credentials are missing, or they cannot be used.
    """
    global _session
    if _session is None:
        with _lock:
            _session = _session or _new_session()
    return _session


def _forget_session() -> None:
    """Gives a forked process its own connections, and a lock that no thread has."""
    global _session, _lock
    _session, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_session)


def _new_session() -> Session:
    # Else the library requests a bucket's metadata along with the first request, for its traces.
    os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
    if os.environ.get("STORAGE_EMULATOR_HOST"):
        credentials, project = AnonymousCredentials(), None
    else:
        credentials, project = default_credentials()
    client = storage.Client(project=project or "none", credentials=credentials)
    return session_of(client)


def session_of(client: Any) -> Session:
    """Returns the session of a client, and lets the client keep as many connections open.

    With its default of 10, some requests would pay for a new connection and a TLS handshake. The
    client lacks a public option for this: neither its constructor nor `client_options` takes a
    session or a pool size, except by `_http`, which only this function touches.
    """
    http, url = client._http, client.api_endpoint
    if getattr(http, "is_mtls", False):  # its own adapter contains the certificate
        return Session(client, http, None)
    adapter = requests.adapters.HTTPAdapter(pool_maxsize=CONNECTIONS)
    for scheme in ("https://", "http://"):
        http.mount(scheme, adapter)
    settings = requests.Session().merge_environment_settings(url, {}, None, None, None)
    if requests.utils.select_proxy(url, settings["proxies"]):
        return Session(client, http, None)
    trusted = requests.certs.where() if settings["verify"] is True else settings["verify"]
    direct = None
    with contextlib.suppress(OSError):  # the session tells of certificates that cannot be read
        direct = _Direct(url, trusted, http.credentials)
    return Session(client, http, direct)


def default_credentials() -> tuple[Any, str | None]:
    """Returns application default credentials, and the project that they or the environment name.

    It fails at once if there cannot be any: Google's own search waits 20 seconds for the metadata server.

    Raises:
      CredentialsError: credentials are missing, or they cannot be used.
    """
    if not (_credentials_named() or _metadata_server_answers()):
        raise CredentialsError(f"gs://: no credentials found on this machine; {CREDENTIALS_HELP}")
    try:
        credentials, project = google.auth.default(scopes=[_SCOPE])
    except (GoogleAuthError, ValueError, OSError) as error:
        raise CredentialsError(
            f"gs://: credentials cannot be used: {error}; {CREDENTIALS_HELP}"
        ) from error
    return credentials, project


def _credentials_named() -> bool:
    """True if a file or the environment names credentials."""
    names = ("GOOGLE_APPLICATION_CREDENTIALS", "GCE_METADATA_HOST", "GCE_METADATA_ROOT")
    folder = os.environ.get("CLOUDSDK_CONFIG") or os.path.expanduser("~/.config/gcloud")
    return any(map(os.environ.get, names)) or os.path.exists(
        os.path.join(folder, "application_default_credentials.json")
    )


def _metadata_server_answers() -> bool:
    """True if this machine runs in Google Cloud; elsewhere, another server may be at that address."""
    connection = http.client.HTTPConnection(_METADATA_SERVER, timeout=1)
    try:
        connection.request("GET", "/", headers={"Metadata-Flavor": "Google"})
        return connection.getresponse().getheader("Metadata-Flavor") == "Google"
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


# Downloads.


def download(place: buckets.Place, span: buckets.Span, generation: str) -> tuple[bytes, str]:
    """Requests an object, or part of it, once; the CRC-32C of a whole object is compared.

    Args:
      place: the object.
      span: (first byte, byte after the last); None for the whole object.
      generation: of the object, which must still exist; empty for the latest.

    Returns: the bytes, and the object's generation; empty if the server does not tell.

    Raises:
      CredentialsError: as `session`.
      DamagedError: the bytes have another checksum than the object.
      GoogleAPICallError: another answer than the object.
      GoogleAuthError: the access token is missing.
      requests.RequestException, urllib3.exceptions.HTTPError: no answer, or not all of it.
    """
    client, http_session, direct = session()
    bucket, name = (quote(part, safe="") for part in place)
    url = f"{client.api_endpoint.rstrip('/')}/download/storage/v1/b/{bucket}/o/{name}?alt=media"
    if generation:
        url += f"&generation={generation}"
    # An object that is stored compressed comes as it is stored.
    headers = {"Accept-Encoding": "gzip", "User-Agent": "beam-tfrecord"}
    if span is not None:
        headers["Range"] = f"bytes={span[0]}-{span[1] - 1}"
    answer = direct.get(url, headers) if direct else None
    if answer is None:
        sent = http_session.get(
            url, headers=headers, timeout=TIMEOUT, allow_redirects=False, stream=True
        )
        whole = sent.raw.read(decode_content=False)
        answer = _Answer(
            sent.status_code, whole, *(sent.headers.get(name, "") for name in _HEADERS)
        )
    data = answer.data
    if answer.status == http.HTTPStatus.OK:
        _check(data, answer.checksums)
        data = data if span is None else data[span[0] : span[1]]
    elif answer.status == http.HTTPStatus.PARTIAL_CONTENT:
        first, last, *_ = [*map(int, re.findall(r"\d+", answer.span)), 0, len(data) - 1]
        if len(data) <= last - first:
            raise DamagedError(f"{len(data)} bytes arrived, announced were {answer.span}")
    else:
        text = data.decode("utf-8", "replace")
        response = SimpleNamespace(text=text, json=partial(json.loads, text))
        raise from_http_status(answer.status, text, response=response)
    return data, answer.generation


class _Answer(NamedTuple):
    """Attributes: status; data; the values of `_HEADERS`, empty if the server sends none."""

    status: int
    data: bytes
    checksums: str
    generation: str
    span: str


class _Direct:
    """Requests objects by the standard library's client, on connections that are kept."""

    def __init__(self, url: str, trusted: str, credentials: Any) -> None:
        """Takes the server's URL, the path of the trusted certificates, and credentials.

        Raises:
          OSError: the certificates cannot be read.
        """
        self._credentials, self._renewal = credentials, Request()
        parts = urlsplit(url)
        new: Callable[..., http.client.HTTPConnection] = http.client.HTTPConnection
        if parts.scheme == "https":
            file, folder = (None, trusted) if os.path.isdir(trusted) else (trusted, None)
            context = ssl.create_default_context(cafile=file, capath=folder)
            new = partial(http.client.HTTPSConnection, context=context)
        self._new = partial(new, parts.netloc, timeout=TIMEOUT[0])
        self._idle: deque[http.client.HTTPConnection] = deque()
        weakref.finalize(self, _close_all, self._idle)

    def get(self, url: str, headers: Mapping[str, str]) -> _Answer | None:
        """Requests an object once; None if the connection fails, or the token is refused.

        Raises:
          GoogleAuthError: the access token is missing.
        """
        headers, path = dict(headers), url.split("/", 3)[3]
        self._credentials.before_request(self._renewal, "GET", url, headers)
        failures = OSError, http.client.HTTPException
        with contextlib.suppress(*failures), contextlib.ExitStack() as closing:
            connection = closing.enter_context(contextlib.closing(self._connection()))
            connection.request("GET", f"/{path}", headers=headers)
            answer = connection.getresponse()
            data = answer.read()
            if connection.sock:  # else the server has announced to close it
                self._idle.append(connection)
                closing.pop_all()
            if answer.status != http.HTTPStatus.UNAUTHORIZED:
                values = (answer.getheader(name, "") for name in _HEADERS)
                return _Answer(answer.status, data, *values)
        return None

    def _connection(self) -> http.client.HTTPConnection:
        """Returns an idle connection that still is, or a new one. Raises OSError."""
        with contextlib.suppress(IndexError):
            connection = self._idle.pop()
            while wait_for_read(connection.sock, 0):  # the server closed it, or sent too much
                connection.close()
                connection = self._idle.pop()
            return connection
        connection = self._new()
        connection.connect()  # which closes it if TLS fails
        connection.sock.settimeout(TIMEOUT[1])
        return connection


def _close_all(connections: Iterable[http.client.HTTPConnection]) -> None:
    for connection in connections:
        connection.close()


def _check(data: bytes, checksums: str) -> None:
    """Compares a whole object with the checksums that the server sends along."""
    for entry in checksums.split(","):
        kind, _, expected = entry.strip().partition("=")
        if kind == "crc32c" and (crc32c := crc32c_text(value(data))) != expected:
            raise DamagedError(
                f"{len(data)} bytes with CRC-32C {crc32c} arrived, expected {expected}"
            )
