"""Google Cloud Storage's client: credentials, one client per process, retries, translated errors.

Google's libraries are imported when the first `gs://` URI is used.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import http
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

from beam_pipeline.core.errors import CredentialsError, UsageError
from beam_pipeline.storage.retries import (
    FIRST_DELAY,
    LONGEST_DELAY,
    RETRY_SECONDS,
    Waiting,
)

CONCURRENT_READS = 64
"""Connections that are kept open, so that as many threads can read at once."""

TIMEOUT = (10.0, 60.0)
"""Seconds to wait for a connection, and for the next bytes of an answer."""

_TITLE = "Google Cloud Storage"
# Else the library requests a bucket's metadata along with the first request, for its traces.
_NO_BUCKET_METADATA = "DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA"
_RETRIED_STATUS = frozenset({408, 429, 500, 502, 503, 504})
_METADATA_SERVER = "169.254.169.254"
_HELP = (
    "run `gcloud auth application-default login`, or name a key file in "
    "GOOGLE_APPLICATION_CREDENTIALS, or run on a machine of Google Cloud with a service account"
)

Result = TypeVar("Result")


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
        raise CredentialsError(f"gs://: no credentials found on this machine; {_HELP}")
    try:
        credentials, project = google.auth.default(
            scopes=["https://www.googleapis.com/auth/devstorage.read_write"]
        )
    except (GoogleAuthError, ValueError, OSError) as error:
        raise CredentialsError(f"gs://: credentials cannot be used: {error}; {_HELP}") from error
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


@contextlib.contextmanager
def translated_errors(uri: str) -> Iterator[None]:
    """Turns the errors of Google's libraries into Python's and ours while a `with` block runs.

    Args:
      uri: the object or folder that the requests are about.

    Raises:
      TimeoutError: a request failed for `RETRY_SECONDS`; a runner may try the bundle again.
      PermissionError: 403.
      FileNotFoundError: 404.
      CredentialsError: 401, or no access token can be obtained.
      google.api_core.exceptions.PreconditionFailed: 412, for the caller to interpret.
      OSError: another permanent error.
    """
    client()  # raises an error if the library is not installed
    from google.api_core import exceptions
    from google.auth.exceptions import GoogleAuthError

    answers = (exceptions.GoogleAPICallError, invalid_response())
    try:
        yield
    except exceptions.RetryError as error:
        raise TimeoutError(
            errno.ETIMEDOUT,
            f"{_TITLE} gave no good answer for {RETRY_SECONDS:.0f} s; the last: "
            f"{_shown(_api_error(error.cause))}",
            uri,
        ) from error
    except GoogleAuthError as error:
        raise CredentialsError(f"{uri}: credentials cannot be used: {error}; {_HELP}") from error
    except answers as error:
        raise _translated(_api_error(error), uri) from error


def _translated(error: Any, uri: str) -> Exception:
    """Returns Python's or our error for an answer of the server."""
    from google.api_core import exceptions

    if isinstance(error, exceptions.PreconditionFailed):
        found: Exception = error
        return found
    if isinstance(error, exceptions.Forbidden):
        return PermissionError(errno.EACCES, _shown(error), uri)
    if isinstance(error, exceptions.NotFound):
        return FileNotFoundError(errno.ENOENT, _shown(error), uri)
    if isinstance(error, exceptions.Unauthorized):
        return CredentialsError(f"{uri}: credentials are refused: {_shown(error)}")
    return OSError(errno.EIO, _shown(error), uri)


def retried(request: Callable[[], Result], uri: str) -> Result:
    """Makes a request, and repeats it after a transient error.

    Args:
      request: makes the request from its beginning each time it is called.
      uri: the object or folder that it is about, for errors.

    Raises: the errors of `translated_errors`.
    """
    with translated_errors(uri):
        result: Result = retry_policy(_is_transient)(request)()
        return result


def retry_policy(is_transient: Callable[[BaseException], bool]) -> Any:
    """Returns the `google.api_core.retry.Retry` that every request uses."""
    from google.api_core import retry

    waiting = Waiting(_TITLE)
    return retry.Retry(
        predicate=is_transient,
        on_error=lambda error: waiting.add(_shown(_api_error(error))),
        initial=FIRST_DELAY,
        maximum=LONGEST_DELAY,
        timeout=RETRY_SECONDS,
    )


def _is_transient(error: BaseException) -> bool:
    """True if the same request may succeed later; damaged downloads are retried, too."""
    return answer_is_transient(error) or isinstance(error, (DamagedError, data_corruption()))


def answer_is_transient(error: BaseException) -> bool:
    """True if the failure of the connection or the server is transient."""
    from google.api_core import exceptions
    from google.auth.exceptions import TransportError

    answer = _api_error(error)
    if isinstance(answer, exceptions.GoogleAPICallError):
        if answer.code in _RETRIED_STATUS:
            return True
        # Some exceeded quotas give 403, with reasons that a missing permission never has.
        reasons = [one.get("reason", "") for one in answer.errors if isinstance(one, dict)]
        return answer.code == 403 and any(text.endswith("ateLimitExceeded") for text in reasons)
    return isinstance(error, (TransportError, *_broken_connections()))


def _api_error(error: Any) -> Any:
    """Returns the error of `google.api_core` for an answer; resumable uploads raise another class."""
    from google.api_core import exceptions

    if isinstance(error, invalid_response()):
        return exceptions.from_http_response(error.response)  # type: ignore[attr-defined]
    return error


def invalid_response() -> type[Exception]:
    """Returns the class of the errors that a resumable upload raises for an answer."""
    return _library_error("InvalidResponse")


def data_corruption() -> type[Exception]:
    """Returns the class of the errors for bytes with a wrong checksum."""
    return _library_error("DataCorruption")


@functools.cache
def _library_error(name: str) -> type[Exception]:
    """Returns a class of errors of the client library, which its version 3 moved."""
    try:
        from google.cloud.storage import exceptions as found
    except ImportError:  # before version 3
        import google.resumable_media as found
    error: type[Exception] = getattr(found, name)
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


def _shown(error: Any) -> str:
    """Returns an error as one line: an answer by its code and the server's words."""
    code = getattr(error, "code", None)
    if code is None:
        return f"{type(error).__name__}: {error}"
    return " ".join(f"{int(code)} {_words(error)}".split())


def _words(error: Any) -> str:
    """Returns the server's message, which is plain text for downloads and JSON otherwise."""
    answer = error.response
    if answer is None or not answer.text.strip():
        return http.HTTPStatus(error.code).phrase
    try:
        return str(answer.json()["error"]["message"])
    except (KeyError, TypeError, ValueError):
        return str(answer.text[:300])
