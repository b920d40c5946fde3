"""An emulator and a proxy before it for the whole run, a bucket of its own for each test."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator

import pytest

from beam_pipeline.storage import google_client
from tests.gcs.proxy import Fault, Proxy, Request
from tests.google import EMULATOR, needs_google
from tests.harness import REPOSITORY
from tests.stores import Kinds, Store

_buckets = itertools.count()


class Cloud(Store):
    """A bucket of the emulator."""

    scheme = "gs"
    kinds = Kinds(
        list=("GET", r"/o\?"), read=("GET", "alt=media"), write=("POST", ""), delete=("DELETE", "")
    )
    permissions = {  # noqa: RUF012
        verb: f"storage.objects.{verb}" for verb in ("list", "get", "create", "delete")
    }

    def __init__(self, port: int, proxy: Proxy) -> None:
        from google.auth.credentials import AnonymousCredentials
        from google.cloud import storage

        self.proxy = proxy
        self._client = storage.Client(
            project="none",
            credentials=AnonymousCredentials(),
            client_options={"api_endpoint": f"http://localhost:{port}"},
        )
        self.bucket = f"bucket-{os.getpid()}-{next(_buckets)}"
        self._client.create_bucket(self.bucket)

    def put(self, name: str, content: bytes) -> None:
        self._client.bucket(self.bucket).blob(name).upload_from_string(content)

    def names(self, prefix: str = "") -> list[str]:
        return [blob.name for blob in self._client.list_blobs(self.bucket, prefix=prefix)]

    def get(self, name: str) -> bytes:
        content: bytes = self._client.bucket(self.bucket).blob(name).download_as_bytes()
        return content

    def delete(self, prefix: str) -> None:
        for blob in self._client.list_blobs(self.bucket, prefix=prefix):
            blob.delete()

    def touch(self, name: str) -> None:
        self.put(name, self.get(name))

    def name_of(self, request: Request) -> str:
        return request.path.partition("/o/")[2]

    def is_read(self, request: Request) -> bool:
        return request.method == "GET" and request.query.get("alt") == "media"

    def is_copy(self, request: Request) -> bool:
        return "/rewriteTo/" in request.path

    def deleted(self, log: Iterable[Request]) -> list[str]:
        return [self.name_of(request) for request in log if request.method == "DELETE"]

    def is_about_bucket(self, request: Request) -> bool:
        return request.path.endswith(f"/b/{self.bucket}")

    def shown(self, status: int, message: str) -> str:
        return f"{status} {message}"

    def late_deletion(self, name: str, seconds: float) -> Fault:
        return Fault("DELETE", name, delay=seconds, times=1)


@pytest.fixture(scope="session")
def google_servers() -> Iterator[tuple[int, Proxy]]:
    needs_google(EMULATOR)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.gcs.emulator"],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    port = int(process.stdout.readline())
    proxy = Proxy(port)
    yield port, proxy
    proxy.stop()
    process.stdin.close()  # at which the emulator ends
    try:
        process.wait(30)
    finally:
        process.kill()
    process.stdout.close()


@pytest.fixture
def cloud(google_servers: tuple[int, Proxy], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """A bucket, and a proxy that spoils nothing yet; the program finds them in the environment."""
    port, proxy = google_servers
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", proxy.url)
    monkeypatch.setattr(google_client, "RETRY_SECONDS", 3.0)  # a fault in the code shall not hang
    proxy.reset()
    yield Cloud(port, proxy)
    proxy.spoil()
