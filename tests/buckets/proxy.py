"""A proxy before a service: it logs requests, spoils some, and adds what an emulator lacks.

Cloud Storage does these and its emulator does not, so that they are tested against this file's idea
of them, which is the documentation's:

- `ifGenerationMatch=0` is refused with 412 where the object exists, when an upload begins and when it
  ends, and when an object is copied. The proxy asks the emulator whether it does.
- Listings come by pages of `maxResults`, from `startOffset` to before `endOffset`.
- A resumable upload that is complete says so again when it is asked; one that has no byte yet says so;
  one that is deleted is gone.
- A chunk that begins before what a resumable upload holds already is taken from there on, as
  https://cloud.google.com/storage/docs/performing-resumable-uploads has it: "Cloud Storage ignores any
  bytes you send at an offset that Cloud Storage has already persisted".
- A range behind an object's end is 416.
- A range comes with the object's generation, and an earlier generation that is asked for is 404.
"""

from __future__ import annotations

import http.client
import json
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

_HOP_HEADERS = frozenset(
    {"connection", "content-length", "date", "host", "keep-alive", "server", "transfer-encoding"}
)


@dataclass
class Fault:
    """What to spoil.

    Attributes:
      method: a regular expression of the verbs.
      path: one to be found in the path, which is not quoted, or in the query behind it.
      status: answered in place of the service; 0 to let the request through.
      message: what the answer says.
      reason: the code that the answer gives beside it.
      cut: whether the answer breaks off in its middle; a short one never comes.
      kept: bytes of a chunk of an upload that arrive, the rest is lost; -1 for all.
      delay: seconds before the answer.
      times: how often, at most.
      probability: of each request.
      skip: how many requests to let through before.
      per_second: how many requests to let through each second.
    """

    method: str = ".*"
    path: str = ""
    status: int = 0
    message: str = "injected"
    reason: str = ""
    cut: bool = False
    kept: int = -1
    delay: float = 0
    times: int = 10**9
    probability: float = 1
    skip: int = 0
    per_second: int = 0


class Request(NamedTuple):
    """A request that came: verb, path without quotes, query, the status sent, whether spoilt."""

    method: str
    path: str
    query: Mapping[str, str]
    status: int
    spoilt: bool


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass
class _State:
    upstream: int
    faults: list[Fault] = field(default_factory=list)
    log: list[Request] = field(default_factory=list)
    completed: dict[str, Answer] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)
    """upload -> the name that must be free when it ends."""
    held: dict[str, int] = field(default_factory=dict)
    """upload -> how many bytes it holds."""
    passed: Counter[int] = field(default_factory=Counter)
    """second -> requests that were let through because of `per_second`."""
    rng: random.Random = field(default_factory=lambda: random.Random(7))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fault(self, method: str, target: str) -> Fault | None:
        with self.lock:
            for fault in self.faults:
                if not re.fullmatch(fault.method, method) or not re.search(fault.path, target):
                    continue
                if fault.times <= 0 or self.rng.random() >= fault.probability:
                    continue
                if fault.skip:
                    fault.skip -= 1
                    continue
                second = int(time.monotonic())
                if self.passed[second] < fault.per_second:
                    self.passed[second] += 1
                    return None
                fault.times -= 1
                return fault
        return None


class Proxy:
    """The proxy, served by threads of this process.

    Args:
      upstream: the port of the service.
      handler: what it does with requests.
    """

    def __init__(self, upstream: int, handler: type[Handler] | None = None) -> None:
        self._state = _State(upstream)
        served = type("Handler", (handler or _GoogleHandler,), {"state": self._state})
        self._server = ThreadingHTTPServer(("localhost", 0), served)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a cut connection
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://localhost:{self._server.server_address[1]}"

    def spoil(self, *faults: Fault) -> None:
        """Sets the faults, in place of those before."""
        with self._state.lock:
            self._state.faults[:] = faults
            self._state.rng.seed(7)

    def take_log(self) -> list[Request]:
        """The requests since the last time."""
        with self._state.lock:
            log = self._state.log.copy()
            self._state.log.clear()
        return log

    def reset(self) -> None:
        """Forgets faults and log, and logs no request that came before, however late its answer."""
        self.spoil()
        with self._state.lock:
            self._state.log = []

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Handler(BaseHTTPRequestHandler):
    """Passes requests on, or spoils them."""

    protocol_version = "HTTP/1.1"
    state: _State

    def log_message(self, *_: Any) -> None:
        pass

    def _handle(self) -> None:
        log = self.state.log  # of the test that runs now: the answer may be delayed beyond its end
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.path = re.sub(r"\Ahttp://[^/]+", "", self.path)  # from one that takes it for its proxy
        split = urlsplit(self.path)
        path, query = unquote(split.path), dict(parse_qsl(split.query, keep_blank_values=True))
        fault = self.state.fault(self.command, unquote(self.path))
        if fault and fault.delay:
            time.sleep(fault.delay)
        if fault and fault.status:
            answer = self.refusal(fault.status, fault.message, fault.reason)
        else:
            answer = self.answer(path, query, body, fault.kept if fault else -1)
        with self.state.lock:
            spoilt = fault is not None
            logged = query | self.noted(body)
            log.append(Request(self.command, path, logged, answer.status, spoilt))
        self._send(answer, cut=fault is not None and fault.cut)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = _handle  # noqa: N815

    def answer(self, path: str, query: dict[str, str], body: bytes, kept: int) -> Answer:
        """The service's answer."""
        return self.forward(self.command, self.path, body)

    def refusal(self, status: int, message: str, reason: str) -> Answer:
        """An answer in place of the service's."""
        return _refusal(status, message, reason)

    def noted(self, body: bytes) -> dict[str, str]:
        """What else to log of a request, beside its query."""
        return {}

    def forward(self, method: str, target: str, body: bytes) -> Answer:
        """Passes a request on."""
        connection = http.client.HTTPConnection("localhost", self.state.upstream, timeout=60)
        passed = _HOP_HEADERS - {"date"}  # which Azure's clients sign
        headers = {k: v for k, v in self.headers.items() if k.lower() not in passed}
        headers["Host"] = self.headers["Host"]  # so that upload URLs lead here again
        try:
            connection.request(method, target, body, headers)
            answer = connection.getresponse()
            dropped = _HOP_HEADERS - {"content-length"} if method == "HEAD" else _HOP_HEADERS
            kept = {k: v for k, v in answer.getheaders() if k.lower() not in dropped}
            return Answer(answer.status, kept, answer.read())
        finally:
            connection.close()

    def _send(self, answer: Answer, *, cut: bool) -> None:
        if cut and not answer.body:
            self.close_connection = True
            return
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if "content-length" not in map(str.lower, answer.headers):
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if cut:
            self.close_connection = True
            self.wfile.write(answer.body[: len(answer.body) // 2])
        elif self.command != "HEAD":
            self.wfile.write(answer.body)


class _GoogleHandler(Handler):
    """Adds what the emulator lacks."""

    def answer(self, path: str, query: dict[str, str], body: bytes, kept: int) -> Answer:
        upload = query.get("upload_id")
        if upload:
            return self._upload_answer(path, body, upload, kept)
        first = query.get("ifGenerationMatch") == "0"
        target = path.rpartition("/rewriteTo")[2]
        name = _name_of_new(target, query, body) if first else ""
        if first and self._taken(target, name):
            return _precondition_failed()
        if query.get("alt") == "media" and ("Range" in self.headers or "generation" in query):
            answer = self._media_answer(query)
        else:
            answer = self.forward(self.command, self.path, body)
        if self.command == "GET" and path.endswith("/o") and answer.status == 200:
            return _page(answer, query)
        if first and query.get("uploadType") == "resumable" and answer.status == 200:
            location = next(v for k, v in answer.headers.items() if k.lower() == "location")
            self.state.first[dict(parse_qsl(urlsplit(location).query))["upload_id"]] = name
        if answer.status == 206 and not answer.body:
            return _refusal(416, "Requested range not satisfiable")
        return answer

    def _media_answer(self, query: Mapping[str, str]) -> Answer:
        metadata = self.forward("GET", urlsplit(self.path).path.removeprefix("/download"), b"")
        if metadata.status != 200:
            return metadata
        generation = json.loads(metadata.body)["generation"]
        if query.get("generation", generation) != generation:
            return _refusal(404, "No such object")
        answer = self.forward("GET", self.path, b"")
        return answer._replace(headers={**answer.headers, "X-Goog-Generation": generation})

    def _upload_answer(self, path: str, body: bytes, upload: str, kept: int) -> Answer:
        if upload in self.state.completed:
            return self.state.completed[upload]
        if self.command == "DELETE":
            self.state.completed[upload] = _refusal(410, "the upload was cancelled")
            return Answer(499, {}, b"")
        content_range = self.headers.get("Content-Range", "")
        ends = not content_range.endswith("/*")
        if ends and upload in self.state.first and self._taken(path, self.state.first[upload]):
            return _precondition_failed()
        answer = self.forward(self.command, self.path, self._new_bytes(body, upload, kept))
        if answer.status == 200:
            self.state.completed[upload] = answer
        if answer.headers.get("Range") == "bytes=0-0":  # the emulator has nothing yet
            return Answer(answer.status, {}, answer.body)
        return answer

    def _new_bytes(self, body: bytes, upload: str, kept: int) -> bytes:
        """Cuts a chunk to what its upload does not hold yet, and names that range in the headers."""
        span = re.fullmatch(r"bytes (\d+)-(\d+)/(.+)", self.headers.get("Content-Range", ""))
        if span is None:
            return body
        start, end, total = int(span[1]), int(span[2]) + 1, span[3]
        held = self.state.held.get(upload, 0)
        new = body[max(held - start, 0) :]
        new = new[:kept] if kept >= 0 else new
        held += len(new)
        self.state.held[upload] = held
        total = total if held == end else "*"
        first = held - len(new)
        value = f"bytes {first}-{held - 1}/{total}" if new else f"bytes */{total}"
        self.headers.replace_header("Content-Range", value)
        return new

    def _taken(self, path: str, name: str) -> bool:
        """Whether there is an object of this name in the bucket of a path."""
        bucket = path.split("/b/")[1].split("/")[0]
        target = f"/storage/v1/b/{bucket}/o?prefix={quote(name, safe='')}"
        found = json.loads(self.forward("GET", target, b"").body or b"{}")
        return any(item["name"] == name for item in found.get("items", ()))


def _refusal(status: int, message: str, reason: str = "") -> Answer:
    errors = [{"message": message, "reason": reason}] if reason else []
    error = {"error": {"code": status, "message": message, "errors": errors}}
    return Answer(status, {"Content-Type": "application/json"}, json.dumps(error).encode())


def _precondition_failed() -> Answer:
    return _refusal(412, "At least one of the pre-conditions you specified did not hold.")


def _name_of_new(path: str, query: Mapping[str, str], body: bytes) -> str:
    """The name of an object to be: in the path of a copy, the query, or the JSON that the body begins with."""
    if "/o/" in path:
        return path.partition("/o/")[2]
    if "name" in query:
        return query["name"]
    metadata, _ = json.JSONDecoder().raw_decode(body[body.index(b"{") :].decode("latin-1"))
    name: str = metadata["name"]
    return name


def _page(answer: Answer, query: Mapping[str, str]) -> Answer:
    """One page of a listing; its token is the name that the next one begins with."""
    listed = json.loads(answer.body)
    start = max(query.get("startOffset", ""), query.get("pageToken", ""))
    end = query.get("endOffset", "")
    items = [
        item
        for item in listed.get("items", ())
        if item["name"] >= start and (not end or item["name"] < end)
    ]
    size = int(query.get("maxResults", 1000))
    page = {**listed, "items": items[:size]}
    if items[size:]:
        page["nextPageToken"] = items[size]["name"]
    return Answer(answer.status, answer.headers, json.dumps(page).encode())


COPIED, DELETED = "(copied)", "(deleted)"
_COPY_HEADERS = ("x-amz-copy-source", "x-ms-copy-source")


class S3Handler(Handler):
    """Refuses as S3 does."""

    codes: ClassVar[dict[int, str]] = {
        403: "AccessDenied",
        404: "NoSuchKey",
        429: "TooManyRequests",
        500: "InternalError",
        503: "SlowDown",
    }
    deleted_name = re.compile(rb"<Key>(.*?)</Key>")

    def refusal(self, status: int, message: str, reason: str) -> Answer:
        code = reason or self.codes[status]
        body = f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
        headers = {"Content-Type": "application/xml"}
        return Answer(status, headers, b"" if self.command == "HEAD" else body.encode())

    def noted(self, body: bytes) -> dict[str, str]:
        copied = next(filter(None, map(self.headers.get, _COPY_HEADERS)), None)
        noted = {COPIED: copied} if copied else {}
        if self.command == "POST":
            names = (unquote(name.decode()) for name in self.deleted_name.findall(body))
            noted[DELETED] = "\n".join(names)
        return noted


class AzureHandler(S3Handler):
    """Refuses as Azure Blob Storage does."""

    codes: ClassVar[dict[int, str]] = {
        403: "AuthorizationPermissionMismatch",
        404: "BlobNotFound",
        429: "TooManyRequests",
        500: "InternalError",
        503: "ServerBusy",
    }
    deleted_name = re.compile(rb"\r\nDELETE /(?:devstoreaccount1/)?[^/]+/(\S+) HTTP")
