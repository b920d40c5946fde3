"""Buckets of real or emulated services, as tests know them: past the proxy and past the program's own client."""

from __future__ import annotations

import base64
import email.utils
import functools
import hashlib
import hmac
import http.client
import importlib.util
import itertools
import os
import random
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest

from beam_pipeline.storage import buckets, files
from tests.buckets.proxy import (
    COPIED,
    DELETED,
    AzureHandler,
    Fault,
    Handler,
    Proxy,
    Request,
    S3Handler,
)
from tests.harness import REPOSITORY, wait_until
from tests.pictures import write_files

KEY, SECRET = "minio-of-tests", "secret-of-tests"
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = (  # Azurite's own, which its documentation names
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
_buckets = itertools.count()
_PACKAGES = {"google.cloud.storage": "google-cloud-storage"}
EMULATOR = {"gcp_storage_emulator": "gcp-storage-emulator"}


def needs_google(more: dict[str, str] | None = None) -> None:
    """Skips the test where Google's client is not installed, or another module.

    Args:
      more: module -> package, of what else is needed.
    """
    for module, package in {**_PACKAGES, **(more or {})}.items():
        try:
            missing = importlib.util.find_spec(module) is None
        except ModuleNotFoundError:
            missing = True
        if missing:
            pytest.skip(f"needs {package}: pip install '.[gcp,gcs]'")


class Kinds(NamedTuple):
    """Regular expressions of the verb and of path and query, for each kind of request."""

    list: tuple[str, str]
    read: tuple[str, str]
    write: tuple[str, str]
    delete: tuple[str, str]


class Store:
    """A new, empty bucket. Of what tells requests apart, S3 and Azure have most in common.

    Attributes:
      scheme: of its URIs.
      container: the service's word for a bucket.
      kinds: how its requests are told apart.
      permissions: the service's names for list, get, create and delete.
      handler: what the proxy does with its requests.
      bucket: its name.
      root: the path of its requests.
      proxy: what the program talks to.
    """

    scheme: ClassVar[str]
    container: ClassVar[str] = "bucket"
    kinds: ClassVar[Kinds]
    permissions: ClassVar[dict[str, str]]
    handler: ClassVar[type[S3Handler]]

    def __init__(self, proxy: Proxy, path: str = "/") -> None:
        self.proxy = proxy
        self.bucket = f"bucket-{os.getpid()}-{next(_buckets)}"
        self.root = path + self.bucket

    @property
    def uri(self) -> str:
        return f"{self.scheme}://{self.bucket}"

    def put(self, name: str, content: bytes) -> None:
        """Uploads an object."""
        raise NotImplementedError

    def names(self, prefix: str = "") -> list[str]:
        """The objects whose names begin so, sorted."""
        raise NotImplementedError

    def get(self, name: str) -> bytes:
        """Downloads an object."""
        raise NotImplementedError

    def delete_one(self, name: str) -> None:
        """Deletes an object."""
        raise NotImplementedError

    def delete(self, prefix: str) -> None:
        """Deletes every object whose name begins so."""
        for name in self.names(prefix):
            self.delete_one(name)

    def touch(self, name: str) -> None:
        """Makes another version of an object, of the same size: S3's ETag is the same for the same content."""
        content = self.get(name)
        self.put(name, content[:-1] + bytes([content[-1] ^ 1]))

    def name_of(self, request: Request) -> str:
        """The object in the path of a request; empty if it is about others."""
        return request.path.removeprefix(self.root)[1:]

    def is_read(self, request: Request) -> bool:
        """Whether a request is for the content of an object."""
        return request.method == "GET" and bool(self.name_of(request))

    def is_copy(self, request: Request) -> bool:
        """Whether a request has the service copy an object."""
        return COPIED in request.query

    def deleted(self, log: Iterable[Request]) -> list[str]:
        """The objects whose deletion was requested."""
        return [name for r in log for name in r.query.get(DELETED, "").split("\n") if name]

    def is_about_bucket(self, request: Request) -> bool:
        """Whether a request is about the bucket itself, not about its objects."""
        of_objects = {"list-type", "delete"} & request.query.keys()
        of_objects |= {"list", "batch"} & {request.query.get("comp", "")}
        return request.path == self.root and not of_objects

    def shown(self, status: int, message: str) -> str:
        """A refusal by the proxy, as errors show it."""
        return f"{status} {self.handler.codes[status]}: {message}"

    def late_deletion(self, name: str, seconds: float, *, manifest: bool = True) -> Fault:
        """Keeps the deletion of an object waiting, after that of the probe, and of the manifest if there is one."""
        return Fault(*self.kinds.delete, delay=seconds, times=1, skip=1 + manifest)

    def reads(self, log: Iterable[Request]) -> list[str]:
        """The objects whose content was asked for, as often as it was."""
        return [self.name_of(request) for request in log if self.is_read(request)]

    def put_folder(self, folder: Path, prefix: str) -> None:
        """Uploads every file below a folder."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.put(f"{prefix}/{path.relative_to(folder).as_posix()}", path.read_bytes())

    def get_folder(self, prefix: str, folder: Path) -> Path:
        """Downloads every object below a prefix."""
        names = self.names(prefix + "/")
        contents = {name.removeprefix(prefix + "/"): self.get(name) for name in names}
        write_files(str(folder), dict(contents))
        return folder


class GoogleStore(Store):
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

        super().__init__(proxy)
        endpoint = {"api_endpoint": f"http://localhost:{port}"}
        client = storage.Client("none", AnonymousCredentials(), client_options=endpoint)
        self._bucket = client.create_bucket(self.bucket)

    def put(self, name: str, content: bytes) -> None:
        self._bucket.blob(name).upload_from_string(content)

    def names(self, prefix: str = "") -> list[str]:
        return [blob.name for blob in self._bucket.list_blobs(prefix=prefix)]

    def get(self, name: str) -> bytes:
        content: bytes = self._bucket.blob(name).download_as_bytes()
        return content

    def delete_one(self, name: str) -> None:
        self._bucket.blob(name).delete()

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

    def late_deletion(self, name: str, seconds: float, *, manifest: bool = True) -> Fault:
        return Fault("DELETE", name, delay=seconds, times=1)


class MinioStore(Store):
    """A bucket of MinIO."""

    scheme = "s3"
    handler = S3Handler
    kinds = Kinds(
        list=("GET", "list-type=2"),
        read=("GET", r"\A[^?]*\Z"),
        write=("PUT", ""),
        delete=("POST", r"\?delete"),
    )
    permissions = {  # noqa: RUF012
        "list": "s3:ListBucket",
        "get": "s3:GetObject",
        "create": "s3:PutObject",
        "delete": "s3:DeleteObject",
    }

    def __init__(self, port: int, proxy: Proxy) -> None:
        super().__init__(proxy)
        self._client = client(port)
        self._client.create_bucket(Bucket=self.bucket)

    def put(self, name: str, content: bytes) -> None:
        self._client.put_object(Bucket=self.bucket, Key=name, Body=content)

    def names(self, prefix: str = "") -> list[str]:
        pages = self._client.get_paginator("list_objects_v2")
        found = pages.paginate(Bucket=self.bucket, Prefix=prefix)
        return [one["Key"] for page in found for one in page.get("Contents", ())]

    def get(self, name: str) -> bytes:
        content: bytes = self._client.get_object(Bucket=self.bucket, Key=name)["Body"].read()
        return content

    def delete_one(self, name: str) -> None:
        self._client.delete_object(Bucket=self.bucket, Key=name)


@functools.cache
def client(port: int) -> Any:
    """Amazon's own client, past the proxy."""
    from botocore.session import Session

    session = Session()
    session.set_credentials(KEY, SECRET)
    return session.create_client("s3", "us-east-1", endpoint_url=f"http://localhost:{port}")


class AzuriteStore(Store):
    """A container of Azurite."""

    scheme = "az"
    container = "container"
    handler = AzureHandler
    kinds = Kinds(
        list=("GET", "comp=list"),
        read=("GET", r"\A[^?]*\Z"),
        write=("PUT", ""),
        delete=("POST", "comp=batch"),
    )
    permissions = {  # noqa: RUF012
        "list": "to list (Storage Blob Data Reader)",
        "get": "to read (Storage Blob Data Reader)",
        "create": "to write (Storage Blob Data Contributor)",
        "delete": "to delete (Storage Blob Data Contributor)",
    }

    def __init__(self, port: int, proxy: Proxy) -> None:
        from obstore.store import AzureStore

        super().__init__(proxy, f"/{ACCOUNT}/")
        _create_container(port, self.bucket)
        config = {"account_name": ACCOUNT, "account_key": ACCOUNT_KEY}
        config["endpoint"] = f"http://localhost:{port}/{ACCOUNT}"
        self._store = AzureStore(self.bucket, config=config, client_options={"allow_http": True})

    def put(self, name: str, content: bytes) -> None:
        self._store.put(name, content, use_multipart=False)

    def names(self, prefix: str = "") -> list[str]:
        paths = (one["path"] for page in self._store.list() for one in page)
        return sorted(path for path in paths if path.startswith(prefix))

    def get(self, name: str) -> bytes:
        return bytes(self._store.get(name).bytes())

    def delete_one(self, name: str) -> None:
        self._store.delete(name)


def _create_container(port: int, name: str) -> None:
    """Creates a container by a request signed with the account's key."""
    date = email.utils.formatdate(usegmt=True)
    headers = {"x-ms-date": date, "x-ms-version": "2021-08-06", "Content-Length": "0"}
    canonical = [f"x-ms-date:{date}", "x-ms-version:2021-08-06"]
    signed = "\n".join(
        ["PUT", *[""] * 11, *canonical, f"/{ACCOUNT}/{ACCOUNT}/{name}", "restype:container"]
    )
    key = base64.b64decode(ACCOUNT_KEY)
    signature = base64.b64encode(hmac.new(key, signed.encode(), hashlib.sha256).digest()).decode()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{signature}"
    connection = http.client.HTTPConnection("localhost", port)
    connection.request("PUT", f"/{ACCOUNT}/{name}?restype=container", headers=headers)
    assert connection.getresponse().status == 201
    connection.close()


def _minio() -> list[str]:
    found = os.environ.get("BEAM_TFRECORD_MINIO") or shutil.which("minio")
    return [found] if found else []


def _azurite() -> list[str]:
    """The command of Azurite; its script for Node, if the variable names that."""
    found = os.environ.get("BEAM_TFRECORD_AZURITE") or shutil.which("azurite-blob")
    if not found:
        return []
    return ["node", found] if found.endswith(".js") else [found]


def _free_port() -> int:
    with socket.create_server(("localhost", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def _serving(command: list[str], handler: type[Handler], port: int) -> Iterator[tuple[int, Proxy]]:
    """Runs a server, with a proxy before it."""
    environment = {**os.environ, "MINIO_ROOT_USER": KEY, "MINIO_ROOT_PASSWORD": SECRET}
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet)

    def answers() -> bool:
        assert process.poll() is None, f"{command[0]} ended with exit code {process.returncode}"
        try:
            connection = http.client.HTTPConnection("localhost", port, timeout=5)
            connection.request("GET", "/")
            return connection.getresponse().status < 500
        except OSError:
            return False

    proxy = Proxy(port, handler)
    try:
        wait_until(answers)
        yield port, proxy
    finally:
        proxy.stop()
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Proxy]]:
    """MinIO's port, and the proxy before it."""
    if importlib.util.find_spec("obstore") is None or importlib.util.find_spec("botocore") is None:
        pytest.skip("needs obstore and botocore: pip install '.[s3]'")
    if not _minio():
        pytest.skip("needs MinIO: set BEAM_TFRECORD_MINIO to its binary")
    port, folder = _free_port(), tmp_path_factory.mktemp("minio")
    command = [*_minio(), "server", "--quiet", "--address", f"localhost:{port}", str(folder)]
    yield from _serving(command, S3Handler, port)
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def azurite() -> Iterator[tuple[int, Proxy]]:
    """Azurite's port, and the proxy before it."""
    if importlib.util.find_spec("obstore") is None:
        pytest.skip("needs obstore: pip install '.[azure]'")
    if not _azurite():
        pytest.skip("needs Azurite: set BEAM_TFRECORD_AZURITE to its azurite-blob")
    port = _free_port()
    options = ["--blobPort", str(port), "--inMemoryPersistence", "--silent", "--disableTelemetry"]
    yield from _serving(
        [*_azurite(), *options, "--skipApiVersionCheck", "--loose"], AzureHandler, port
    )


@pytest.fixture
def environment(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """Settings of no one, and a folder for them; what the program has kept is forgotten."""
    folder = tmp_path_factory.mktemp("settings")
    for name in [name for name in os.environ if name.startswith(("AWS_", "AZURE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(folder / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    files._remote.cache_clear()
    yield folder
    files._remote.cache_clear()


Stores = Iterator[Store]


def _stored(
    kind: Any, servers: tuple[int, Proxy], patch: pytest.MonkeyPatch, variables: dict[str, str]
) -> Stores:
    """A bucket, and a proxy that spoils nothing yet; the program finds them in the environment."""
    port, proxy = servers
    for name, value in variables.items():
        patch.setenv(name, value)
    patch.setattr(buckets, "RETRY_SECONDS", 3.0)  # a fault in the code shall not hang
    proxy.reset()
    yield kind(port, proxy)
    proxy.spoil()


@pytest.fixture
def minio_store(
    minio: tuple[int, Proxy], environment: Path, monkeypatch: pytest.MonkeyPatch
) -> Stores:
    variables = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    variables["AWS_ENDPOINT_URL"] = minio[1].url
    yield from _stored(MinioStore, minio, monkeypatch, variables)


@pytest.fixture
def azurite_store(
    azurite: tuple[int, Proxy], environment: Path, monkeypatch: pytest.MonkeyPatch
) -> Stores:
    account = {"ACCOUNT_NAME": ACCOUNT, "ACCOUNT_KEY": ACCOUNT_KEY}
    account["ENDPOINT"] = f"{azurite[1].url}/{ACCOUNT}"
    variables = {f"AZURE_STORAGE_{name}": value for name, value in account.items()}
    yield from _stored(AzuriteStore, azurite, monkeypatch, variables)


@pytest.fixture(scope="session")
def google_servers() -> Iterator[tuple[int, Proxy]]:
    needs_google(EMULATOR)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.buckets.emulator"],
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
def google_store(google_servers: tuple[int, Proxy], monkeypatch: pytest.MonkeyPatch) -> Stores:
    variables = {"STORAGE_EMULATOR_HOST": google_servers[1].url}
    yield from _stored(GoogleStore, google_servers, monkeypatch, variables)


MEBI = 1 << 20


def random_bytes(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


def write_a(
    cloud: Store, content: bytes, name: str = "a", then: Callable[[], object] = lambda: None
) -> None:
    """Writes a new file and does something else before it is complete."""
    with files.open_output(f"{cloud.uri}/{name}", new=True) as sink:
        sink.write(content)
        then()
