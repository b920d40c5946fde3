"""A server that lists a bucket as Google Cloud Storage does, and keeps no objects."""

from __future__ import annotations

import json
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

PAGE = 1000


def size_of(name: str) -> int:
    """The size that the server says an object has."""
    return 1000 + len(name.encode())


def generation_of(name: str) -> int:
    """The generation that it says it has."""
    return 1_700_000_000_000_000 + len(name)


class Request(NamedTuple):
    """A request for names. Attributes: as in its URL; found, how many names it was given."""

    prefix: str
    start: str
    end: str
    token: str
    most: int
    found: int


class ListingServer(ThreadingHTTPServer):
    """Serves `GET /storage/v1/b/BUCKET/o` of one bucket.

    Args:
      bucket: its name; of any other there is none.
      names: of the objects in it.
      page: names a page at most.
      latency: seconds that each answer is held back.

    Attributes:
      requests: what was asked for, in order.
      most_requests: how many are answered; further ones are forbidden.
    """

    daemon_threads = True

    def __init__(
        self, bucket: str, names: Iterable[str], page: int = PAGE, latency: float = 0.0
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bucket = bucket
        self.names = sorted(set(names), key=str.encode)
        self.keys = [name.encode() for name in self.names]
        self.page = page
        self.latency = latency
        self.requests: list[Request] = []
        self.most_requests = 1_000_000

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def list(self, prefix: str, start: str, end: str, token: str, most: int) -> dict[str, Any]:
        """What the service answers."""
        low = bisect_left(self.keys, max(prefix.encode(), start.encode()))
        if token:
            low = bisect_right(self.keys, token.encode())
        high = bisect_left(self.keys, end.encode()) if end else len(self.keys)
        found = []
        for index in range(low, min(high, low + most)):
            if not self.keys[index].startswith(prefix.encode()):
                high = index
                break
            found.append(self.names[index])
        self.requests.append(Request(prefix, start, end, token, most, len(found)))
        answer: dict[str, Any] = {"kind": "storage#objects"}
        if found:
            answer["items"] = [
                {"name": name, "size": str(size_of(name)), "generation": str(generation_of(name))}
                for name in found
            ]
        if low + len(found) < high and len(found) == most:
            following = self.keys[low + len(found)]
            if following.startswith(prefix.encode()):
                answer["nextPageToken"] = found[-1]
        return answer

    def chains(self) -> list[int]:
        """How many pages each listing took, one after another; listings of one name left out."""
        pages: dict[tuple[str, str, str], int] = {}
        for request in self.requests:
            if request.most > 1:
                listing = (request.prefix, request.start, request.end)
                pages[listing] = pages.get(listing, 0) + 1
        return list(pages.values())

    @property
    def probes(self) -> int:
        """Requests for one name."""
        return sum(request.most == 1 for request in self.requests)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: ListingServer

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        given = {name: values[0] for name, values in parse_qs(url.query).items()}
        if unquote(url.path) != f"/storage/v1/b/{self.server.bucket}/o":
            self._answer(404, {"error": {"code": 404, "message": "The bucket does not exist."}})
            return
        if len(self.server.requests) >= self.server.most_requests:
            self._answer(403, {"error": {"code": 403, "message": "No more."}})
            return
        most = min(int(given.get("maxResults", self.server.page)), self.server.page)
        start, end = given.get("startOffset", ""), given.get("endOffset", "")
        token = given.get("pageToken", "")
        self._answer(200, self.server.list(given.get("prefix", ""), start, end, token, most))

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        time.sleep(self.server.latency)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving(bucket: str, names: Iterable[str], page: int = PAGE) -> Iterator[ListingServer]:
    """A server in a thread of its own while the block runs."""
    with ListingServer(bucket, names, page) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
