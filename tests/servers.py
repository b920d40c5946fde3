"""HTTP servers for tests, in which a function answers each request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Asked(NamedTuple):
    """A request; its path has the query behind it."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


Answer = Callable[[Asked], tuple[int, Mapping[str, str], bytes]]
"""Gives status, headers and body. The header `Close` ends the connection unannounced."""


class Server(ThreadingHTTPServer):
    """A server, which counts its connections; tests may keep on it what its function needs."""

    daemon_threads = True
    connections = 0
    answers: Any
    requests: Any

    @property
    def url(self) -> str:
        return f"http://localhost:{self.server_port}"

    def process_request(self, *connection: Any) -> None:
        self.connections += 1
        super().process_request(*connection)

    def handle_error(self, *_: object) -> None:
        """A client that is gone, or that distrusts the server."""


@contextmanager
def served(answer: Answer) -> Iterator[Server]:
    """Answers requests while the block runs, each connection in a thread."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked = Asked(self.command, self.path, dict(self.headers.items()), body)
            status, headers, content = answer(asked)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)
            self.close_connection = "Close" in headers

        do_GET = do_POST = do_PUT = do_PATCH = do_HEAD = _handle  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with Server(("localhost", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
