"""Google's client: single GET requests, to a server that answers as it is told, and credentials."""

from __future__ import annotations

import base64
import gzip
import multiprocessing
import os
import shutil
import socketserver
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from beam_pipeline.core.errors import CredentialsError
from beam_pipeline.storage.buckets import Place
from tests.harness import run
from tests.servers import Asked, Server, served

google = pytest.importorskip("beam_pipeline.storage.google", reason="needs google-cloud-storage")

CONTENT = bytes(range(256)) * 40
PATH = "/download/storage/v1/b/pets/o/cat%2Fa%20%231%25.jpg?alt=media"


def hash_of(content: bytes) -> str:
    """The header's value for an object."""
    crc = google_crc32c.value(content).to_bytes(4, "big")
    return f"crc32c={base64.b64encode(crc).decode()}, md5=x"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server that clients of this process find in the environment.

    It answers each request with the next of its answers, the last one again and again, and keeps (path, headers).
    """

    def answer(asked: Asked) -> Any:
        server.requests.append((asked.path, asked.headers))
        return server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]

    with served(answer) as server:
        headers = {"X-Goog-Hash": hash_of(CONTENT), "X-Goog-Generation": "17"}
        server.answers, server.requests = [(200, headers, CONTENT)], []
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        google._forget_session()
        yield server
        google._forget_session()


def get(span: tuple[int, int] | None = None, generation: str = "") -> tuple[bytes, str]:
    """Downloads the object."""
    return google.download(Place("pets", "cat/a #1%.jpg"), span, generation)


def retried() -> bytes:
    """Downloads the object as the driver does."""
    return google.GoogleStorage().fetch("gs://pets/cat/a #1%.jpg")[0]


def test_an_object_is_had_by_the_connection_of_the_one_before(server: Server) -> None:
    """Its name is quoted, and it comes with its generation."""
    for _ in range(3):
        assert get() == (CONTENT, "17")
    assert [path for path, _ in server.requests] == [PATH] * 3
    assert server.connections == 1


def test_a_part_of_one_generation(server: Server) -> None:
    """A range names its last byte; a server that sends all of the object is understood."""
    server.answers[:0] = [(206, {"X-Goog-Hash": hash_of(CONTENT)}, CONTENT[3:7])]
    assert get((3, 7), "17") == (CONTENT[3:7], "")
    assert get((3, 7), "17") == (CONTENT[3:7], "17")
    for path, headers in server.requests:
        assert path == f"{PATH}&generation=17"
        assert headers["Range"] == "bytes=3-6"


def test_a_part_that_is_cut_is_requested_again(server: Server) -> None:
    """The end of an answer without a length is not the object's: the range that it announces is longer."""
    span = {"Content-Range": "bytes 3-6/10240"}
    server.answers[:0] = [(206, span, CONTENT[3:5]), (206, span, CONTENT[3:7])]
    assert google.GoogleStorage().fetch("gs://pets/cat/a #1%.jpg", (3, 7))[0] == CONTENT[3:7]
    server.answers[:0] = [(206, {"Content-Range": "bytes 3-4/5"}, CONTENT[3:5])]
    assert get((3, 7))[0] == CONTENT[3:5]


def test_damage_is_noticed(server: Server) -> None:
    """Other bytes than those of the checksum are an error, that is worth another request."""
    server.answers[:0] = [(200, {"X-Goog-Hash": hash_of(b"other")}, CONTENT)]
    with pytest.raises(google.DamagedError, match=r"^10240 bytes with CRC-32C .*, expected "):
        get()
    server.answers[:0] = [(200, {"X-Goog-Hash": hash_of(b"other")}, CONTENT)]
    assert retried() == CONTENT


def test_an_object_that_is_stored_compressed(server: Server) -> None:
    """It comes as it is stored, and the checksum is that of these bytes."""
    stored = gzip.compress(CONTENT)
    server.answers = [(200, {"Content-Encoding": "gzip", "X-Goog-Hash": hash_of(stored)}, stored)]
    assert get()[0] == stored
    assert server.requests[0][1]["Accept-Encoding"] == "gzip"


def test_a_connection_that_the_server_closed(server: Server) -> None:
    """It is replaced at once, without the wait of a retry, also in the middle of an answer."""
    good = server.answers[0]
    for headers in ({"Close": "yes"}, {"Close": "yes", "Content-Length": "20000"}):
        server.answers[:0] = [(good[0], {**headers, **good[1]}, good[2])]
        assert get()[0] == CONTENT
        assert get()[0] == CONTENT
    assert server.connections == 4


def test_a_forked_process_has_connections_of_its_own(server: Server) -> None:
    """Both go on reading."""
    assert get()[0] == CONTENT
    context = multiprocessing.get_context("fork")
    child = context.Process(target=_read_in_child)
    child.start()
    child.join(30)
    assert child.exitcode == 0
    assert get()[0] == CONTENT
    assert server.connections == 2


def _read_in_child() -> None:
    assert get()[0] == CONTENT


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error": {"message": "no\\nsuch object", "errors": [{"reason": "notFound"}]}}', ""),
        (b"no such object", ""),
        (b'["no such object"]', '404 ["no such object"]'),
        (b"", "404 Not Found"),
    ],
)
def test_an_error_shows_the_words_of_the_server(server: Server, body: bytes, said: str) -> None:
    """As one line with the status, if they are JSON or text."""
    server.answers = [(404, {}, body)]
    with pytest.raises(FileNotFoundError) as caught:
        retried()
    assert caught.value.strerror == (said or "404 no such object")


def test_an_exceeded_quota_is_waited_for(server: Server) -> None:
    """403 is an error that lasts, but for its reasons that pass."""
    body = b'{"error": {"message": "slow down", "errors": [{"reason": "userRateLimitExceeded"}]}}'
    server.answers[:0] = [(403, {}, body)]
    assert retried() == CONTENT
    server.answers = [(403, {}, b"who are you?")]
    with pytest.raises(PermissionError, match="403 who are you"):
        retried()


def test_credentials_are_those_of_the_client(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests carry token and project; a token that is refused twice, by both senders, is renewed once."""
    from google.auth.credentials import CredentialsWithQuotaProject

    class Credentials(CredentialsWithQuotaProject):  # type: ignore[misc]
        def refresh(self, request: Any) -> None:
            self.token = f"{self.token or 'token'}+"

    credentials = Credentials()
    credentials._quota_project_id = "payer"
    client = google.storage.Client("none", credentials)
    monkeypatch.setattr(google, "_session", google.session_of(client))
    server.answers[:0] = [(401, {}, b"expired")] * 2
    assert get()[0] == CONTENT
    sent = [(head["authorization"], head["x-goog-user-project"]) for _, head in server.requests]
    assert sent == [(f"Bearer token{ends}", "payer") for ends in ("+", "+", "++")]
    server.answers = [(401, {}, b"revoked")]
    with pytest.raises(CredentialsError, match="credentials are refused: 401 revoked"):
        retried()


def test_a_proxy_is_used_except_for_hosts_that_need_none(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the environment says."""
    monkeypatch.setenv("HTTP_PROXY", server.url)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://storage.invalid")
    google._forget_session()
    assert get()[0] == CONTENT
    assert server.requests[0][0] == f"http://storage.invalid{PATH}"
    monkeypatch.setenv("NO_PROXY", "storage.invalid")
    google._forget_session()
    with pytest.raises(google.requests.ConnectionError):
        get()


def test_tls(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A server is trusted if the certificates that Google's client trusts include its own."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "ca.pem")]
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    subprocess.run([*command, "-nodes", *names, *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "ca.pem", tmp_path / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"https://localhost:{server.server_port}")
    google._forget_session()
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "ca.pem"))
    assert get()[0] == CONTENT
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    google._forget_session()
    with pytest.raises(google.requests.ConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
        get()
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", f"{tmp_path}/gone.pem")
    google._forget_session()
    with pytest.raises(OSError, match=f"invalid path: {tmp_path}/gone.pem"):
        get()


UNUSUAL = {
    "in chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2800\r\n%b\r\n0\r\n\r\n",
    "without a length": b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n%b",
    "longer than it says": b"HTTP/1.1 200 OK\r\nContent-Length: 10240\r\n\r\n%bHTTP/1.1 200 OK\r\n",
    "of HTTP 1.0": b"HTTP/1.0 200 OK\r\nContent-Length: 10240\r\n\r\n%b",
}


@pytest.mark.parametrize("answer", UNUSUAL.values(), ids=UNUSUAL)
def test_an_unusual_answer(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read as a whole, like any other."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            self.wfile.write(answer % CONTENT)

    with socketserver.ThreadingTCPServer(("localhost", 0), Handler) as found:
        threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://localhost:{found.server_address[1]}")
        google._forget_session()
        assert [get()[0] for _ in range(2)] == [CONTENT] * 2
        google._forget_session()
        found.shutdown()


@pytest.fixture
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine without settings of Google's."""
    for name in [name for name in os.environ if "GOOGLE" in name]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    google._forget_session()
    yield
    google._forget_session()


@pytest.mark.usefixtures("nobody")
@pytest.mark.promise("no_credentials")
def test_no_credentials(tmp_path: Path) -> None:
    """Are missed at once, by all commands, with what to do about it."""
    for argv in (
        ["convert", "--images", "gs://b/photos", "--output", str(tmp_path / "out")],
        ["convert", "--images", str(tmp_path), "--output", "gs://b/out"],
        ["verify", "gs://b/out"],
    ):
        stderr = run(*argv, code=2).err
        assert "gs://: no credentials found on this machine" in stderr
        assert "gcloud auth application-default login" in stderr


@pytest.mark.usefixtures("nobody")
@pytest.mark.parametrize("content", [None, "{not JSON", '{"type": "service_account"}', "{}"])
def test_a_credentials_file_that_is_no_use(
    tmp_path: Path, content: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is missing or broken is named."""
    path = tmp_path / "key.json"
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    if content is not None:
        path.write_text(content)
    with pytest.raises(CredentialsError, match="gs://: credentials cannot be used") as caught:
        google.session()
    assert str(path) in str(caught.value)
