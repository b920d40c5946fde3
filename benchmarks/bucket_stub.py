"""A read-only bucket on this machine that answers each request after a fixed delay.

    python benchmarks/bucket_stub.py --delay-ms 30 --objects 10000 --kilobytes 110

It implements the part of Google Cloud Storage's JSON API that clients need to list and read: pages of
objects, an object's metadata, its bytes, a range of them; and GET as in its XML API and in S3.
Responses are prepared, so that a benchmark does not measure the server; `bucket_reads.py` measures its
limits. Any number of requests wait at the same time. It prints its port, and ends when its standard
input does. With --tls it serves HTTPS, with a certificate for `localhost` that `openssl` makes.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import json
import random
import re
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs, quote, unquote

import google_crc32c
from make_images import jpeg_of

BUCKET = "bucket"
FOLDER = "photos"
PAGE = 1000  # objects, like the service
_MEDIA = re.compile(r"(?:/download)?/storage/v1/b/[^/]+/o/([^?]+)\?.*alt=media")
_XML_MEDIA = re.compile(rf"/{BUCKET}/([^?]+)\Z")
_OBJECT = re.compile(r"/storage/v1/b/[^/]+/o/([^?]+)")
_LIST = re.compile(r"/storage/v1/b/[^/]+/o\?(.*)")
_OTHER_HEADERS = (  # which the service sends, too; clients parse them
    "Alt-Svc: clear",
    "Cache-Control: no-cache, no-store, max-age=0, must-revalidate",
    "Date: Mon, 01 Jan 2024 00:00:00 GMT",
    "Expires: Mon, 01 Jan 1990 00:00:00 GMT",
    "Pragma: no-cache",
    "Server: UploadServer",
    "Vary: Origin",
    "Vary: X-Origin",
    "X-Goog-Metageneration: 1",
    "X-Goog-Storage-Class: STANDARD",
    "X-Goog-Stored-Content-Encoding: identity",
    f"X-GUploader-UploadID: {'a' * 90}",
)
_RANGE = re.compile(rb"\r\nrange: *bytes=(\d+)-(\d*)", re.IGNORECASE)


def object_name(number: int) -> str:
    """Returns the name of an object; all objects hold the same image."""
    return f"{FOLDER}/{number:06d}.jpg"


def image(kilobytes: float) -> bytes:
    """Makes the image that every object holds."""
    return jpeg_of(int(kilobytes * 1000), random.Random(0))


def _response(status: str, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


class Bucket:
    """The content of the bucket, and its responses."""

    def __init__(self, objects: int, data: bytes) -> None:
        crc = base64.b64encode(google_crc32c.value(data).to_bytes(4, "big")).decode()
        self._names = [object_name(number) for number in range(objects)]
        self._known = frozenset(self._names)
        self._data = data
        self._fields = {
            "bucket": BUCKET,
            "size": str(len(data)),
            "generation": "1",
            "metageneration": "1",
            "crc32c": crc,
            "contentType": "image/jpeg",
            "updated": "2024-01-01T00:00:00.000Z",
        }
        self._headers = ("Content-Type: image/jpeg", f"X-Goog-Hash: crc32c={crc}")
        self._headers += (
            f'ETag: "{hashlib.md5(data).hexdigest()}"',
            "Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT",
        )
        self._headers += ("X-Goog-Generation: 1", f"X-Goog-Stored-Content-Length: {len(data)}")
        self._headers += _OTHER_HEADERS
        self._whole = _response("200 OK", data, *self._headers)

    def answer(self, head: bytes) -> bytes:
        """Returns the response to a request, given everything before its body."""
        path = head[4 : head.index(b" ", 4)].decode()
        if found := _MEDIA.match(path) or _XML_MEDIA.match(path):
            return (
                self._media(head) if unquote(found[1]) in self._known else _response("404 -", b"")
            )
        if found := _OBJECT.match(path):
            name = unquote(found[1])
            if name not in self._known:
                return _response("404 Not Found", b"{}")
            return self._json({"kind": "storage#object", "name": name, **self._fields})
        if found := _LIST.match(path):
            return self._page(parse_qs(found[1]))
        return self._json({"kind": "storage#bucket", "name": BUCKET, "location": "EU"})

    def _media(self, head: bytes) -> bytes:
        wanted = _RANGE.search(head)
        if not wanted:
            return self._whole
        start, size = int(wanted[1]), len(self._data)
        stop = min(int(wanted[2]) + 1, size) if wanted[2] else size
        if start >= stop:
            return _response("416 Range Not Satisfiable", b"")
        span = f"Content-Range: bytes {start}-{stop - 1}/{size}"
        return _response("206 Partial Content", self._data[start:stop], *self._headers, span)

    def _page(self, query: dict[str, list[str]]) -> bytes:
        (prefix,) = query.get("prefix", [""])
        (token,) = query.get("pageToken", ["0"])
        (most,) = query.get("maxResults", [str(PAGE)])
        start, stop = int(token), int(token) + min(int(most), PAGE)
        names = [name for name in self._names if name.startswith(prefix)]
        page = {"items": [{"name": name, **self._fields} for name in names[start:stop]]}
        return self._json({**page, "nextPageToken": str(stop)} if names[stop:] else page)

    def _json(self, content: object) -> bytes:
        return _response("200 OK", json.dumps(content).encode(), "Content-Type: application/json")


class _Connection(asyncio.Protocol):
    """Answers the requests of one connection, each after the delay."""

    def __init__(self, bucket: Bucket, delay_s: float) -> None:
        self._bucket = bucket
        self._delay_s = delay_s
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        connection = transport.get_extra_info("socket")
        # Room for a whole response at once.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)

    def data_received(self, data: bytes) -> None:
        *heads, self._received = (self._received + data).split(b"\r\n\r\n")
        for head in heads:
            answer = self._bucket.answer(head)
            if self._delay_s:
                asyncio.get_running_loop().call_later(self._delay_s, self._transport.write, answer)
            else:
                self._transport.write(answer)


async def serve(bucket: Bucket, delay_s: float, tls: ssl.SSLContext | None = None) -> None:
    """Serves at a free port, which is printed, until standard input ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(bucket, delay_s), "127.0.0.1", 0, ssl=tls)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


def certificate_of(stem: str) -> str:
    """Returns the path of a certificate, given the stem of its files."""
    return f"{stem}.pem"


def _tls(stem: str) -> ssl.SSLContext | None:
    if not stem:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate_of(stem), f"{stem}.key")
    return context


@contextmanager
def certified() -> Iterator[str]:
    """Makes a certificate for `running`; yields the stem of its files."""
    with tempfile.TemporaryDirectory() as folder:
        stem = f"{folder}/localhost"
        command = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
        ]
        command += ["-nodes", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
        command += ["-addext", "basicConstraints=critical,CA:FALSE"]
        command += ["-keyout", f"{stem}.key", "-out", certificate_of(stem)]
        subprocess.run(command, check=True, capture_output=True)
        yield stem


@contextmanager
def running(delay_ms: float, objects: int, kilobytes: float, tls: str = "") -> Iterator[int]:
    """Runs the server in its own process while the block runs; yields its port.

    Args:
      delay_ms: added to every response.
      objects: in the bucket.
      kilobytes: of each.
      tls: the stem of a certificate's files, for HTTPS.
    """
    command = [sys.executable, __file__, "--delay-ms", str(delay_ms), "--objects", str(objects)]
    command += ["--kilobytes", str(kilobytes), "--tls", tls]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.stdin.close()


def media_path(name: str) -> str:
    """Returns the path and query with which clients request an object's bytes."""
    return f"/download/storage/v1/b/{BUCKET}/o/{quote(name, safe='')}?alt=media"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--delay-ms", type=float, default=30, help="added to every response")
    parser.add_argument("--objects", type=int, default=10_000)
    parser.add_argument("--kilobytes", type=float, default=110, help="size of each object")
    parser.add_argument("--tls", default="", help="serve HTTPS with STEM.pem and STEM.key")
    arguments = parser.parse_args()
    bucket = Bucket(arguments.objects, image(arguments.kilobytes))
    asyncio.run(serve(bucket, arguments.delay_ms / 1000, _tls(arguments.tls)))


if __name__ == "__main__":
    main()
