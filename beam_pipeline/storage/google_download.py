"""GET requests for objects of Google Cloud Storage, by urllib3 with Google's credentials.

Google's client takes about 1 ms of CPU for a GET, most of it in the layers above urllib3. That is more
than everything else that is done with an image, so images are requested here. Credentials, endpoint,
retries and errors are those of Google's client.
"""

from __future__ import annotations

import base64
import http
import json
import os
import urllib.request
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from google_crc32c import value

from beam_pipeline.storage.google_client import (
    CONCURRENT_READS,
    TIMEOUT,
    DamagedError,
    Session,
    session,
)

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
      urllib3.exceptions.HTTPError: no answer, or not all of it.
    """
    path = f"/download/storage/v1/b/{quote(bucket, safe='')}/o/{quote(name, safe='')}?alt=media"
    if generation is not None:
        path += f"&generation={generation}"
    headers = dict(_HEADERS)
    if span is not None:
        headers["Range"] = f"bytes={span[0]}-{span[1] - 1}"
    answer = _server().get(path, headers)
    data: bytes = answer.data
    if answer.status == http.HTTPStatus.OK:
        _check(data, answer.headers)
        data = data if span is None else data[span[0] : span[1]]
    elif answer.status != http.HTTPStatus.PARTIAL_CONTENT:
        raise _error(answer)
    found = answer.headers.get("X-Goog-Generation")
    return Download(data, int(found) if found else None)


class _Server:
    """The server of a client; threads share its connections.

    Attributes:
      owner: the client.
    """

    def __init__(self, owner: Session) -> None:
        from google.auth.transport.urllib3 import Request
        from urllib3.util import Retry, Timeout

        self.owner = owner
        self._url = owner.client.api_endpoint.rstrip("/")
        scheme, _, folder = urlsplit(self._url)[:3]
        manager = _manager(owner, self._url)
        self._connections = manager.connection_from_url(self._url)
        by_proxy = manager.proxy is not None and scheme == "http"  # without a tunnel
        self._folder = self._url if by_proxy else folder
        self._request = Request(manager)
        connect_seconds, read_seconds = TIMEOUT
        self._options = {
            # Again at once, as the server may have closed a connection that was kept; then `retried` waits.
            "retries": Retry(1, redirect=0, status=0, respect_retry_after_header=False),
            "timeout": Timeout(connect=connect_seconds, read=read_seconds),
            "redirect": False,
            "decode_content": False,
            "assert_same_host": not by_proxy,
        }

    def get(self, path: str, headers: dict[str, str]) -> Any:
        """Makes a request with an access token, and once more with a new one after 401."""
        answer = self._get(path, headers)
        if answer.status == http.HTTPStatus.UNAUTHORIZED:
            self.owner.credentials.refresh(self._request)
            answer = self._get(path, headers)
        return answer

    def _get(self, path: str, headers: dict[str, str]) -> Any:
        self.owner.credentials.before_request(self._request, "GET", self._url + path, headers)
        return self._connections.urlopen(
            "GET", self._folder + path, headers=headers, **self._options
        )


_known: _Server | None = None


def _server() -> _Server:
    """Returns the server of this process's client. Raises as `session`."""
    global _known
    owner = session()
    found = _known
    if found is None or found.owner is not owner:  # a forked process has a new one
        found = _known = _Server(owner)
    return found


def _manager(owner: Session, url: str) -> Any:
    """Returns urllib3's manager of connections, with what `requests` would use.

    That is the proxy and the certificates that the environment names, or the client certificate.
    """
    from google.auth.transport.urllib3 import AuthorizedHttp
    from requests.certs import where
    from urllib3 import PoolManager, ProxyManager

    if owner.is_mtls:
        sender = AuthorizedHttp(owner.credentials)
        sender.configure_mtls_channel()
        return sender.http
    trusted = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or where()
    options: dict[str, Any] = {
        "maxsize": CONCURRENT_READS,
        "cert_reqs": "CERT_REQUIRED",
        "ca_cert_dir" if os.path.isdir(trusted) else "ca_certs": trusted,
    }
    scheme, host = urlsplit(url)[:2]
    proxies = urllib.request.getproxies()
    proxy = proxies.get(scheme) or proxies.get("all")
    if not proxy or urllib.request.proxy_bypass(host):
        return PoolManager(**options)
    return ProxyManager(proxy if "://" in proxy else f"http://{proxy}", **options)


class _ErrorText:
    """The part of an answer that errors of Google's libraries show."""

    def __init__(self, data: bytes) -> None:
        self.text = data.decode("utf-8", "replace")

    def json(self) -> Any:
        """Returns the JSON. Raises ValueError."""
        return json.loads(self.text)


def _check(data: bytes, headers: Any) -> None:
    """Compares a whole object with the checksum that the server sends along."""
    for line in headers.getlist("X-Goog-Hash"):
        for entry in line.split(","):
            kind, _, expected = entry.strip().partition("=")
            if kind == "crc32c":
                found = base64.b64encode(value(data).to_bytes(4, "big")).decode()
                if found != expected:
                    raise DamagedError(
                        f"{len(data)} bytes with CRC-32C {found} arrived, expected {expected}"
                    )


def _error(answer: Any) -> Exception:
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
