"""Google Cloud Storage's client: credentials, one client per process, and its downloads.

Google's libraries are imported when the first `gs://` URI is used. Its client takes about 1 ms of CPU
for a GET, most of it in the layers above urllib3. That is more than everything else that is done with
an image, so objects are requested by urllib3 here. Credentials, endpoint, retries and errors are those
of Google's client. The library obstore would take another 0.25 ms less, but it passes on no CRC-32C,
does not survive a fork, and reads no name such as `a//b`.
"""

from __future__ import annotations

import base64
import http
import json
import os
import threading
import urllib.request
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from google_crc32c import value

from beam_pipeline.core.errors import CredentialsError, UsageError
from beam_pipeline.storage.buckets import Place

CONCURRENT_READS = 64
"""Connections that are kept open, so that as many threads can read at once."""

TIMEOUT = (10.0, 60.0)
"""Seconds to wait for a connection, and for the next bytes of an answer."""

# Else the library requests a bucket's metadata along with the first request, for its traces.
_NO_BUCKET_METADATA = "DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA"
_METADATA_SERVER = "169.254.169.254"
CREDENTIALS_HELP = (
    "run `gcloud auth application-default login`, or name a key file in "
    "GOOGLE_APPLICATION_CREDENTIALS, or run on a machine of Google Cloud with a service account"
)

_HEADERS = {
    "Accept-Encoding": "gzip",  # an object that is stored compressed comes as it is stored
    "User-Agent": "beam-tfrecord",
}


class DamagedError(Exception):
    """The bytes of an answer are not those that the server sent."""


class Session(NamedTuple):
    """The client of a process.

    Attributes:
      client: the library's.
      credentials: those of the client.
      is_mtls: True if it sends a client certificate.
    """

    client: Any
    credentials: Any
    is_mtls: bool


_lock = threading.Lock()
_session: Session | None = None


def client() -> Any:
    """Returns the client of this process. Raises as `session`."""
    return session().client


def session() -> Session:
    """Returns the session of this process, made on first use; threads share it.

    Raises:
      UsageError: google-cloud-storage is not installed.
      CredentialsError: there are no credentials, or they cannot be used.
    """
    global _session
    found = _session
    if found is None:
        with _lock:
            found = _session = _session or _new_session()
    return found


def _forget_session() -> None:
    """Gives a forked process its own connections, and a lock that no thread holds."""
    global _session, _lock
    _session, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_session)


def _new_session() -> Session:
    try:
        from google.auth.credentials import AnonymousCredentials
        from google.cloud import storage
        from requests.adapters import HTTPAdapter
    except ImportError as error:
        raise UsageError(
            f"gs:// needs google-cloud-storage, which is not installed ({error}): "
            "pip install '.[gcp]' in the checkout of beam-tfrecord"
        ) from error
    os.environ.setdefault(_NO_BUCKET_METADATA, "true")
    if os.environ.get("STORAGE_EMULATOR_HOST"):
        credentials, project = AnonymousCredentials(), None
    else:
        credentials, project = _credentials()
    made = storage.Client(project=project or "none", credentials=credentials)
    return Session(made, credentials, _keep_connections(made, HTTPAdapter))


def _keep_connections(made: Any, adapter: Any) -> bool:
    """Lets a client keep one connection open per reading thread; its default is 10.

    With fewer, every other read pays for a new connection and a TLS handshake. The client has no
    public option for this: neither its constructor nor `client_options` takes a session or a pool
    size, except by `_http`, which only this function touches.

    Returns: True if it sends a client certificate.
    """
    session = made._http
    is_mtls = bool(getattr(session, "is_mtls", False))
    if not is_mtls:  # otherwise its own adapter holds the certificate
        for scheme in ("https://", "http://"):
            session.mount(scheme, adapter(pool_maxsize=CONCURRENT_READS))
    return is_mtls


def default_project() -> str | None:
    """Returns the project that the credentials or the environment name.

    Raises:
      CredentialsError: there are no credentials, or they cannot be used.
    """
    return _credentials()[1]


def _credentials() -> tuple[Any, str | None]:
    """Returns application default credentials, or fails at once if there cannot be any.

    Google's own search waits 20 seconds for the metadata server before it gives up.
    """
    import google.auth
    from google.auth.exceptions import GoogleAuthError

    if not (_credentials_named() or _metadata_server_answers()):
        raise CredentialsError(f"gs://: no credentials found on this machine; {CREDENTIALS_HELP}")
    try:
        credentials, project = google.auth.default(
            scopes=["https://www.googleapis.com/auth/devstorage.read_write"]
        )
    except (GoogleAuthError, ValueError, OSError) as error:
        raise CredentialsError(
            f"gs://: credentials cannot be used: {error}; {CREDENTIALS_HELP}"
        ) from error
    return credentials, project


def _credentials_named() -> bool:
    """True if a file or the environment names credentials."""
    if os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
        return True
    if os.environ.get("GCE_METADATA_HOST") or os.environ.get("GCE_METADATA_ROOT"):
        return True
    folder = os.environ.get("CLOUDSDK_CONFIG") or os.path.expanduser("~/.config/gcloud")
    return os.path.exists(os.path.join(folder, "application_default_credentials.json"))


def _metadata_server_answers() -> bool:
    """True if this machine runs in Google Cloud; elsewhere, another server may be at that address."""
    import http.client

    connection = http.client.HTTPConnection(_METADATA_SERVER, timeout=1)
    try:
        connection.request("GET", "/", headers={"Metadata-Flavor": "Google"})
        return connection.getresponse().getheader("Metadata-Flavor") == "Google"
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def download(place: Place, span: tuple[int, int] | None, generation: str) -> tuple[bytes, str]:
    """Requests an object, or part of it, once; the CRC-32C of a whole object is compared.

    Args:
      place: the object.
      span: (first byte, byte after the last); None for the whole object.
      generation: of the object, which must still exist; empty for the latest.

    Returns: the bytes, and the object's generation; empty if the server does not say.

    Raises:
      UsageError, CredentialsError: as `client`.
      DamagedError: the bytes have another checksum than the object.
      google.api_core.exceptions.GoogleAPICallError: another answer than the object.
      google.auth.exceptions.GoogleAuthError: there is no access token.
      urllib3.exceptions.HTTPError: no answer, or not all of it.
    """
    bucket, name = (quote(part, safe="") for part in place)
    path = f"/download/storage/v1/b/{bucket}/o/{name}?alt=media"
    if generation:
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
    return data, answer.headers.get("X-Goog-Generation", "")


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
