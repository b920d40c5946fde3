"""The driver of services that the library obstore reads and writes: Azure, here, and S3, in `s3.py`.

This module is imported when the first URI of a service is used. The library does not support names with an empty part
(`a//b`), a part `.` or `..`, or control characters: an object of such a name is an error, also where
it is listed. It raises one of a few classes of errors, with a text such as

    Generic S3 error: Error performing GET http://host/pets/a in 2ms - Server returned non-2xx status
    code: 503 Service Unavailable: <?xml ...><Error><Code>SlowDown</Code><Message>Slow down</Message>...

    Debug source:
    ...

so the status, the code and the message are read from the text.
"""

from __future__ import annotations

import errno
import hashlib
import html
import mmap
import os
import re
import threading
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import obstore
from obstore import exceptions
from obstore.store import AzureStore

from beam_pipeline.core.errors import ConversionError, CredentialsError, UsageError
from beam_pipeline.storage import base, buckets

MOST_BYTES = 5_000_000_000
"""Bytes of one upload: S3 takes 5 GiB, Azure 5,000 MiB, with a precondition."""

CHECKSUM_KEY = "crc32c"
"""Metadata of each object that this package writes: base64 of its big-endian CRC-32C."""

_CONNECT_TIMEOUT = "10s"
_READ_TIMEOUT = "60s"  # for the beginning of an answer and for its next bytes
_TIMEOUT = "10min"  # for a request
_PATIENT_TIMEOUT = "60min"  # for the upload of a large object

_BUCKET = re.compile(r"[A-Za-z0-9._$@-]+")  # and the account, which Azure's URIs may name
_LAST_CHARACTER = "\U0010ffff"
_AFTER_SURROGATES = 0xE000

_DEBUG = "\n\nDebug source:"
_ANSWER = re.compile(r"non-2xx status code: (\d{3}) ?([^:\n]*)(?:: (.*))?", re.DOTALL)
_CODE = re.compile(r"<Code>(.*?)</Code>", re.DOTALL)
_MESSAGE = re.compile(r"<Message>(.*?)</Message>", re.DOTALL)
_CODE_OF_DELETION = re.compile(r"\(code: (\w+)\)")  # of one among several objects
_AFTER_END = "Wanted range starting at"  # the library's own words, where a service answers 200
_REASON = re.compile(r'message: "([^"]+)"')
_TIMED_OUT = re.compile(r"TimedOut|kind: Timeout")
_TRANSIENT_CODES = frozenset({"RequestTimeout", "SlowDown", "InternalError", "ServerBusy"})

_REFUSED_CODES = frozenset(
    [
        *("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"),
        *("TokenRefreshRequired", "RequestTimeTooSkewed", "AuthorizationHeaderMalformed"),
        *("AuthenticationFailed", "InvalidAuthenticationInfo", "NoAuthenticationInformation"),
    ]
)
"""Codes of answers that refuse the credentials, rather than a permission."""

_runtime_of = 0
"""The process with the library's threads; a process forked from it has none."""


class ObstoreFiles(buckets.BucketFiles):
    """A service, through stores of the library: one for each bucket, with connections and credentials.

    Attributes:
      credentials_help: what to do without credentials.
    """

    credentials_help: ClassVar[str]

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stores: dict[tuple[str, bool], Any] = {}

    @abstractmethod
    def new_store(self, bucket: str, options: dict[str, Any]) -> Any:
        """Makes a store of the library.

        Args:
          bucket: a `Place.bucket`.
          options: keyword arguments for the store: `client_options`, `retry_config`.

        Raises:
          CredentialsError: credentials are missing.
          UsageError: a setting is missing.
          Exception: the library's, for a setting that it cannot use.
        """

    def store(self, uri: str, *, patient: bool = False) -> Any:
        """Returns the store of a URI's bucket, made on first use; threads share it.

        Args:
          uri: an object or folder.
          patient: for requests that send much, whose answer may take an hour.

        Raises:
          CredentialsError: credentials are missing.
          UsageError: no bucket can have this name, a setting is missing or cannot be used, or this
            process was forked after the library was used.
        """
        _check_process(self.title)
        key = (buckets.place_of(uri).bucket, patient)
        if key not in self._stores:
            with self._lock:
                if key not in self._stores:
                    self._stores[key] = self._new_store(buckets.bucket_uri(uri), patient)
        return self._stores[key]

    def _new_store(self, uri: str, patient: bool) -> Any:
        bucket = buckets.place_of(uri).bucket
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
        # `retried` repeats requests and logs it; the library would repeat them in silence.
        options = {"client_options": client_options, "retry_config": {"max_retries": 0}}
        try:
            return self.new_store(bucket, options)
        except ConversionError:
            raise
        except Exception as error:  # the library's, for a key or a variable that it cannot read
            reason = str(error).partition("\n")[0]
            raise UsageError(f"{uri}: settings of {self.title} cannot be used: {reason}") from error

    def _named(self, uri: str, *, patient: bool = False) -> tuple[Any, str]:
        """Returns store and name of an object. Raises OSError if the library does not support the name."""
        name = buckets.place_of(uri).name
        if not name or name[0] == "/" or name[-1] == "/":  # the library would drop the slash
            reason = (
                "the name cannot be read or written: it begins or ends with a slash, or is empty"
            )
            raise OSError(errno.EINVAL, reason, uri)
        return self.store(uri, patient=patient), name

    # Reading.

    def get(self, uri: str, span: buckets.Span = None, version: str = "") -> tuple[bytes, str]:
        store, name = self._named(uri)
        options: dict[str, Any] = {"range": span} if span else {}
        if version:
            options["if_match"] = version
        answer = obstore.get(store, name, options=options or None)
        return bytes(answer.bytes()), (answer.meta["e_tag"] or "") if span else ""

    def find(self, uri: str) -> base.FoundFile:
        answer = self._head(uri)
        version, crc32c = _version(answer.meta["e_tag"]), answer.attributes.get(CHECKSUM_KEY, "")
        return base.FoundFile(uri, answer.meta["size"], version, crc32c=crc32c)

    def changed_at(self, uri: str) -> int:
        """As the protocol describes; versions here are not times. In S3, times are whole seconds."""
        return int(self._head(uri).meta["last_modified"].timestamp() * 1e6)

    def _head(self, uri: str) -> Any:
        """Requests an object's metadata. Raises FileNotFoundError."""
        store, name = self._named(uri)
        return self.retried(
            lambda: obstore.get(store, name, options={"head": True}),
            uri,
            self.permissions.get,
            missing=False,
        )

    # Listing.

    def list_range(
        self, uri_prefix: str, start: str = "", end: str = "", *, digests: bool = False
    ) -> Iterator[base.FoundFile]:
        """Lists as the protocol describes. Raises OSError also if a service does not list by name."""
        assert not digests, "an ETag is not always a digest"
        prefix = buckets.place_of(uri_prefix).name
        marker: base.FoundFile | None = None  # an empty object, or one that represents a folder
        last = ""
        for listed in self._listed(uri_prefix, start):
            name = listed["path"][len(prefix) :]
            if self.lists_ranges:
                if end and name >= end:
                    break
                if name < last and not listed["size"] and f"{name}/" >= last:
                    continue  # the library has cut the slash at the end of its name
                if name <= last:
                    reason = f"the service lists {name!r} after {last!r}; expected names in order"
                    raise OSError(errno.EIO, reason, uri_prefix)
                last = name
            elif end and name >= end:
                continue
            if marker is not None and not name.startswith(f"{marker.name}/"):
                yield marker
            file = base.FoundFile(name, listed["size"], _version(listed["e_tag"]))
            marker = None if file.size else file
            if file.size:
                yield file
        if marker is not None and not end.startswith(f"{marker.name}/"):  # which begins its files
            yield marker

    def first_name(self, uri_prefix: str, start: str = "", end: str = "") -> str | None:
        for listed in self._listed(uri_prefix, start):
            name: str = listed["path"][len(buckets.place_of(uri_prefix).name) :]
            return None if end and name >= end else name
        return None

    def _listed(self, uri_prefix: str, start: str) -> Iterator[dict[str, Any]]:
        """Yields objects with a prefix in their names, from a name on, page by page."""
        prefix = buckets.place_of(uri_prefix).name
        folder, first = prefix.rpartition("/")[0], prefix + start
        for page in self._pages(uri_prefix, folder, first):
            for listed in page:
                path = listed["path"]
                if path >= first and path.startswith(prefix) and path != prefix:
                    yield listed
                elif self.lists_ranges and path > first and not path.startswith(prefix):
                    return

    def _pages(self, uri: str, folder: str, first: str) -> Iterator[list[dict[str, Any]]]:
        """Yields the pages of a listing; after an error, it continues after the last name that came."""
        begins_inside = self.lists_ranges and first not in ("", f"{folder}/")
        offset = before(first) if begins_inside else None
        store = self.store(uri)
        last = ""
        pages: Any = None

        def page() -> Any:
            nonlocal pages
            if pages is None:
                pages = obstore.list(
                    store, folder or None, offset=offset, chunk_size=buckets.PAGE_SIZE
                )
                if last and not self.lists_ranges:  # it cannot begin there, so it starts again
                    return _rest_after(last, pages)
            try:
                return next(pages, None)
            except Exception:
                pages = None
                raise

        while True:
            listed = self.retried(page, uri, self.permissions.list)
            if listed is None:
                return
            if listed:
                last = listed[-1]["path"]
                offset = last if self.lists_ranges else None
                yield listed

    # Writing.

    def put(self, uri: str, data: bytes | mmap.mmap, crc32c: str, *, new: bool) -> None:
        """Writes as the protocol describes, with one request; the CRC-32C goes along as metadata.

        The request is signed with the SHA-256 of the content where the service checks that.
        """
        if len(data) > MOST_BYTES:
            reason = (
                f"a file of more than {MOST_BYTES:,} bytes cannot be written to {self.title}; "
                "use more shards (--num_shards)"
            )
            raise OSError(errno.EFBIG, reason, uri)
        store, name = self._named(uri, patient=isinstance(data, mmap.mmap))
        mode = "create" if new else "overwrite"
        options = {"mode": mode, "use_multipart": False, "attributes": {CHECKSUM_KEY: crc32c}}
        obstore.put(store, name, data, **options)

    def copy(self, source: str, uri: str, *, new: bool) -> bool:
        """Copies within a bucket."""
        if buckets.bucket_uri(source) != buckets.bucket_uri(uri):
            return False
        store, name = self._named(uri, patient=True)
        copied = self._named(source)[1]
        if new and self.exists(uri):  # some services ignore that condition of a copy
            raise buckets.TakenError(uri)
        needed = f"{self.permissions.get} or {self.permissions.create}"
        self.retried(lambda: obstore.copy(store, copied, name, overwrite=not new), uri, needed)
        return True

    def delete_together(self, uris: Sequence[str]) -> None:
        obstore.delete(self.store(uris[0]), [self._named(uri)[1] for uri in uris])

    # Errors.

    def text(self, error: Exception) -> str:
        return answer_of(error).text

    def is_refusal(self, error: Exception) -> bool:
        return answer_of(error).status in buckets.REFUSED_STATUS

    def permanent(self, error: Exception, uri: str) -> Exception | None:
        if isinstance(error, ValueError):
            return OSError(errno.EINVAL, f"the name cannot be read or written: {error}", uri)
        is_own = isinstance(error, OSError) and error.errno  # the library's have none
        if is_own or not isinstance(error, (exceptions.BaseError, OSError)):
            return error
        status, code, text = answer_of(error)
        if isinstance(error, (exceptions.AlreadyExistsError, exceptions.PreconditionError)):
            return buckets.TakenError(text)
        is_unknown = isinstance(error, exceptions.UnauthenticatedError) or status == 401
        if is_unknown or code in _REFUSED_CODES:
            return CredentialsError(
                f"{uri}: credentials are refused or cannot be had: {text}; {self.credentials_help}"
            )
        numbers = {
            errno.ENOENT: isinstance(error, FileNotFoundError) or status == 404,
            errno.EACCES: status == 403 or code == "AccessDenied",
            errno.ERANGE: status == 416 or _AFTER_END in text,
            errno.EINVAL: isinstance(error, exceptions.InvalidPathError),
        }
        for number, applies in numbers.items():
            if applies:
                return OSError(number, text, uri)
        if 300 <= status < 400 or "Received redirect" in text:
            return OSError(errno.EIO, f"{text}; the bucket may be in another region", uri)
        transient = status in buckets.TRANSIENT_STATUS or code in _TRANSIENT_CODES
        if (status or code) and not transient:
            return OSError(errno.EIO, text, uri)
        return None


def _check_process(title: str) -> None:
    """Notes the process that uses the exceptions. Raises UsageError in one forked from it.

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


def _version(e_tag: str | None) -> int:
    """Returns 56 bits of an ETag's hash; 0 without one.

    In S3 the ETag is mostly the MD5 of the content, so an object that was uploaded again unchanged
    keeps its version.
    """
    if not e_tag:
        return 0
    text = e_tag.strip('"')  # which Azure writes around it in headers only
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "big")


def _rest_after(last: str, pages: Iterator[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Goes through pages to the one with a name; returns the objects after it there."""
    for page in pages:
        for index, listed in enumerate(page):
            if listed["path"] == last:
                return page[index + 1 :]
    raise OSError(errno.EIO, f"{last!r}, where the listing broke off, is gone")


def before(name: str) -> str | None:
    r"""Returns a name before a name, as near to it as the library allows; None for none.

    A service lists the names after a given one. So that the name itself is listed too, the listing
    starts after one that is smaller:

    >>> before("photos/img_3")
    'photos/img_2\U0010ffff'
    """
    while name:
        code = ord(name[-1])
        smaller = 0xD7FF if code == _AFTER_SURROGATES else code - 1
        name = name[:-1]
        candidate = f"{name}{chr(max(smaller, 0))}{_LAST_CHARACTER}"
        if _is_path(candidate):
            return candidate
        if _is_path(name):
            return name
    return None


def _is_path(name: str) -> bool:
    """True if the library takes a name as it is."""
    has_control = any(character < " " or character == "\x7f" for character in name)
    return not has_control and all(part not in ("", ".", "..") for part in name.split("/"))


class Answer(NamedTuple):
    """What an error of the library contains.

    Attributes:
      status: the HTTP status; 0 if no answer came.
      code: the service's code; may be empty.
      text: all of it in one line.
    """

    status: int
    code: str
    text: str


def answer_of(error: BaseException) -> Answer:
    """Returns what an error of the library contains.

    >>> answer_of(Exception("x - Server returned non-2xx status code: 404 Not Found: "))
    Answer(status=404, code='', text='404 Not Found')
    """
    text, _, debug = str(error).partition(_DEBUG)
    answer = _ANSWER.search(text)
    if answer is None:
        deletion = _CODE_OF_DELETION.search(text)
        if deletion:
            code = deletion[1]
            return Answer(int(code) if code.isdecimal() else 0, code, _one_line(text))
        return Answer(0, "", _one_line(_with_reason(text, debug)))
    status, phrase, body = int(answer[1]), answer[2], answer[3] or ""
    tag = _CODE.search(body)
    message = _MESSAGE.search(body)
    words = html.unescape(message[1]).split("\n")[0] if message else ""
    line = ": ".join(filter(None, (html.unescape(tag[1]) if tag else phrase, words)))
    return Answer(status, tag[1] if tag else "", _one_line(f"{status} {line}"))


def _with_reason(text: str, debug: str) -> str:
    """Returns the text of an error of the connection, with the reason that is deep in it."""
    reason = _REASON.search(debug)
    if reason:
        return f"{text} ({reason[1]})"
    return f"{text} (timed out)" if _TIMED_OUT.search(debug) else text


def _one_line(text: str) -> str:
    return " ".join(text.split())[:500]


# --- Azure Blob Storage (az://, abfs://, abfss://) -------------------------------------------------


_ACCOUNT_IN_HOST = re.compile(r"([^@]+)@([a-z0-9]+)(?:\.(?:dfs|blob)\.core\.windows\.net)?")
_ACCOUNT = "AZURE_STORAGE_ACCOUNT_NAME"
_ACCOUNT_OF_CLI = "AZURE_STORAGE_ACCOUNT"
_ENDPOINTS = ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")


class AzureFiles(ObstoreFiles):
    """Azure Blob Storage; the library reads its settings from the environment."""

    title = "Azure Blob Storage"
    container = "container"
    credentials_help = (
        "set AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, or AZURE_CLIENT_ID, "
        "AZURE_TENANT_ID and AZURE_CLIENT_SECRET, or AZURE_USE_AZURE_CLI=true after `az login`, or "
        "run on a machine with a managed identity; for public containers set "
        "AZURE_SKIP_SIGNATURE=true"
    )
    permissions = buckets.Permissions(
        list="to list (Storage Blob Data Reader)",
        get="to read (Storage Blob Data Reader)",
        create="to write (Storage Blob Data Contributor)",
        delete="to delete (Storage Blob Data Contributor)",
    )
    lists_ranges = False  # not in accounts with folders (hierarchical namespace)

    def new_store(self, bucket: str, options: dict[str, Any]) -> Any:
        """Makes a store of a container. Raises UsageError."""
        container, account = container_of(bucket)
        endpoint = next(filter(None, map(os.environ.get, _ENDPOINTS)), "")
        if endpoint.startswith("http://") or os.environ.get("AZURE_STORAGE_USE_EMULATOR"):
            options["client_options"]["allow_http"] = True
        return AzureStore(container, config={"account_name": account}, **options)


def container_of(bucket: str) -> tuple[str, str]:
    """Returns container and account of the part of a URI before its first slash.

    Raises:
      UsageError: neither the URI nor the environment names the account.

    >>> container_of("pets@myaccount.dfs.core.windows.net")
    ('pets', 'myaccount')
    """
    named = _ACCOUNT_IN_HOST.fullmatch(bucket)
    if named:
        return named[1], named[2]
    account = os.environ.get(_ACCOUNT) or os.environ.get(_ACCOUNT_OF_CLI)
    if not account:
        raise UsageError(
            f"az://{bucket}: no storage account is named; set {_ACCOUNT}, or write "
            f"abfs://{bucket}@ACCOUNT.dfs.core.windows.net/"
        )
    return bucket, account
