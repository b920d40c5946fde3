"""GET requests for objects of Google Cloud Storage, by Python's own HTTP client.

Google's client takes about 1 ms of CPU for a GET, most of it in the libraries that it sends requests
with. That is more than everything else that is done with an image, so images are requested here, on
connections that are kept open. Credentials, endpoint, retries and errors are those of Google's client.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import time
import urllib.request
from collections import deque
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from google_crc32c import value

from beam_pipeline.transforms.storage.google_client import (
    CONCURRENT_READS,
    TIMEOUT,
    DamagedError,
    Session,
    session,
)

_IDLE_SECONDS = 60.0
"""Seconds for which an unused connection is kept; servers close them after a few minutes."""

_HEADERS = {
    "Accept-Encoding": "gzip",  # an object that is stored compressed comes as it is stored
    "User-Agent": "beam-tfrecord",
}


class Download(NamedTuple):
    """The answer to a request.

    Attributes:
      data: the bytes.
      generation: of the object; None if the server does not say.
    """

    data: bytes
    generation: int | None


def download(
    bucket: str, name: str, span: tuple[int, int] | None, generation: int | None
) -> Download:
    """Requests an object, or part of it, once; the CRC-32C of a whole object is compared.

    Args:
      bucket: the bucket.
      name: the object's name in it.
      span: (first byte, byte after the last); None for the whole object.
      generation: of the object, which must still exist; None for the latest.

    Raises:
      UsageError, CredentialsError: as `client`.
      DamagedError: the bytes have another checksum than the object.
      google.api_core.exceptions.GoogleAPICallError: another answer than the object.
      google.auth.exceptions.GoogleAuthError: there is no access token.
      ConnectionError, TimeoutError, http.client.HTTPException: no answer, or not all of it.
    """
    path = f"/download/storage/v1/b/{quote(bucket, safe='')}/o/{quote(name, safe='')}?alt=media"
    if generation is not None:
        path += f"&generation={generation}"
    headers = dict(_HEADERS)
    if span is not None:
        headers["Range"] = f"bytes={span[0]}-{span[1] - 1}"
    answer = _server().get(path, headers)
    data = answer.data
    if answer.status == http.HTTPStatus.OK:
        _check(data, answer.headers)
        data = data if span is None else data[span[0] : span[1]]
    elif answer.status != http.HTTPStatus.PARTIAL_CONTENT:
        raise _error(answer)
    found = answer.headers.get("X-Goog-Generation")
    return Download(data, int(found) if found else None)


def is_possible() -> bool:
    """False if requests go through a proxy or carry a client certificate, as Google's client has it."""
    return not session().is_mtls and not _server().is_proxied


class _Answer(NamedTuple):
    status: int
    headers: Any
    data: bytes


class _ErrorText:
    """The part of an answer that errors of Google's libraries show."""

    def __init__(self, data: bytes) -> None:
        self.text = data.decode("utf-8", "replace")

    def json(self) -> Any:
        """Returns the JSON. Raises ValueError."""
        return json.loads(self.text)


class _Server:
    """The server of a client, and the connections to it that are free; threads share them."""

    def __init__(self, owner: Session) -> None:
        from google.auth.transport.requests import Request

        self.owner = owner
        self._request = Request()
        url = urlsplit(owner.client.api_endpoint)
        assert url.hostname is not None
        self._host, self._port = url.hostname, url.port
        self._url = f"{url.scheme}://{url.netloc}"
        self._folder = url.path.rstrip("/")
        self._tls = _tls() if url.scheme == "https" else None
        proxies = urllib.request.getproxies()
        has_proxy = bool(proxies.get(url.scheme) or proxies.get("all"))
        self.is_proxied = has_proxy and not urllib.request.proxy_bypass(url.netloc)
        self._free: deque[tuple[http.client.HTTPConnection, float]] = deque(maxlen=CONCURRENT_READS)

    def get(self, path: str, headers: dict[str, str]) -> _Answer:
        """Makes a request with an access token, and once more with a new one after 401."""
        path = self._folder + path
        credentials = self.owner.credentials
        credentials.before_request(self._request, "GET", self._url + path, headers)
        answer = self._get(path, headers)
        if answer.status == http.HTTPStatus.UNAUTHORIZED:
            credentials.refresh(self._request)
            credentials.before_request(self._request, "GET", self._url + path, headers)
            answer = self._get(path, headers)
        return answer

    def _get(self, path: str, headers: dict[str, str]) -> _Answer:
        try:
            connection = self._take()
            if connection is not None:
                try:
                    return self._exchange(connection, path, headers)
                except (ConnectionError, ssl.SSLError):  # closed, and so perhaps the others are
                    self._free.clear()
            return self._exchange(self._connect(), path, headers)
        except (ConnectionError, TimeoutError):
            raise
        except OSError as error:  # of TLS, or the name or the network cannot be found
            raise ConnectionError(f"{type(error).__name__}: {error}") from error

    def _take(self) -> http.client.HTTPConnection | None:
        """Returns the connection that was used last, if it was used lately."""
        try:
            connection, used = self._free.pop()
        except IndexError:
            return None
        return connection if time.monotonic() - used < _IDLE_SECONDS else None

    def _connect(self) -> http.client.HTTPConnection:
        connect_seconds, read_seconds = TIMEOUT
        connection = (
            http.client.HTTPConnection(self._host, self._port, timeout=connect_seconds)
            if self._tls is None
            else http.client.HTTPSConnection(
                self._host, self._port, timeout=connect_seconds, context=self._tls
            )
        )
        connection.connect()
        connection.sock.settimeout(read_seconds)
        return connection

    def _exchange(
        self, connection: http.client.HTTPConnection, path: str, headers: dict[str, str]
    ) -> _Answer:
        try:
            connection.request("GET", path, headers=headers)
            found = connection.getresponse()
            answer = _Answer(found.status, found.headers, found.read())
        except BaseException:
            connection.close()
            raise
        if found.will_close:
            connection.close()
        else:
            self._free.append((connection, time.monotonic()))
        return answer


_known: _Server | None = None


def _server() -> _Server:
    """Returns the server of this process's client. Raises as `session`."""
    global _known
    owner = session()
    if _known is None or _known.owner is not owner:  # a forked process has a new one
        _known = _Server(owner)
    return _known


def _tls() -> ssl.SSLContext:
    """Trusts the certificates that Google's client trusts."""
    from requests.certs import where

    path = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or where()
    is_folder = os.path.isdir(path)
    context = ssl.create_default_context(
        cafile=None if is_folder else path, capath=path if is_folder else None
    )
    context.set_alpn_protocols(["http/1.1"])
    return context


def _check(data: bytes, headers: Any) -> None:
    """Compares a whole object with the checksum that the server sends along."""
    for line in headers.get_all("X-Goog-Hash", ()):
        for entry in line.split(","):
            kind, _, expected = entry.strip().partition("=")
            if kind == "crc32c":
                found = base64.b64encode(value(data).to_bytes(4, "big")).decode()
                if found != expected:
                    raise DamagedError(
                        f"{len(data)} bytes with CRC-32C {found} arrived, expected {expected}"
                    )


def _error(answer: _Answer) -> Exception:
    """Returns the error of Google's libraries for an answer."""
    from google.api_core import exceptions

    text = _ErrorText(answer.data)
    try:
        errors = text.json()["error"].get("errors", ())
    except (AttributeError, KeyError, TypeError, ValueError):
        errors = ()
    found: Exception = exceptions.from_http_status(
        answer.status, text.text, errors=errors, response=text
    )
    return found
