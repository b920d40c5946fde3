"""The driver over obstore: settings, names, stores, errors, whose texts say what happened, and retries."""

from __future__ import annotations

import errno
import http.client
import itertools
import logging
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from obstore import exceptions

from beam_pipeline.core.errors import BucketError, UsageError
from beam_pipeline.storage import buckets, files, obstore_driver, pace
from tests.buckets import proxy, services
from tests.harness import program, python
from tests.rows import in_rows
from tests.servers import Asked, served

URI = "s3://pets/a"
NO_CONNECTION = """Generic S3 error: Error performing GET http://h/pets/a in 2ms - HTTP error: error sending \
request

Debug source:
Os { code: 111, kind: ConnectionRefused, message: "Connection refused" }"""
REFUSED = """Generic S3 error: Error performing GET http://h/pets/a in 2ms - Server returned non-2xx \
status code: {}: <?xml version="1.0"?>
<Error><Code>{}</Code><Message>{}</Message><Key>a</Key></Error>

Debug source:
Generic {{ body: "<Code>Other</Code>" }}"""


def _text(cell: str) -> str:
    """The text of an error of the table: status, code and message of a refusal, or as it is."""
    parts = cell.split(", ")
    return (
        REFUSED.format(*parts)
        if len(parts) == 3
        else {"NO_CONNECTION": NO_CONNECTION}.get(cell, cell)
    )


class Shelf(obstore_driver.ObstoreFiles):
    """A service without a server."""

    title = "Shelf"
    container = "shelf"
    credentials_help = "ask the librarian"
    permissions = buckets.Permissions("look", "take", "put", "burn")

    def new_store(self, bucket: str, options: dict[str, Any]) -> Any:
        return bucket, options["client_options"]


def test_a_bucket_has_one_store_for_short_and_one_for_long_requests() -> None:
    """An upload of gigabytes may wait for its answer longer than a reader."""
    shelf = Shelf()
    short, long = shelf.store("shelf://a/1"), shelf.store("shelf://a/2", patient=True)
    assert shelf.store("shelf://a/3") is short
    assert shelf.store("shelf://b/3")[0] == "b"
    assert "read_timeout" in short[1]
    assert "read_timeout" not in long[1]


@pytest.mark.parametrize("bucket", ["", "my pets", "b\xfccket", "pets?x", "pets\n"])
def test_a_name_that_no_bucket_has(bucket: str) -> None:
    """Is an error at once, as the library ends the process for some of them."""
    with pytest.raises(UsageError) as caught:
        Shelf().store(f"shelf://{bucket}/a/1.jpg")
    assert str(caught.value) == (
        f"shelf://{bucket}/: no shelf of Shelf has such a name; expected letters a to z, digits, dots "
        "and hyphens"
    )


def test_a_setting_that_the_library_cannot_use() -> None:
    """Is told in one line."""

    class Locked(Shelf):
        def new_store(self, bucket: str, options: dict[str, Any]) -> Any:
            raise ValueError("the key is bent\n\nDebug source: ...")

    with pytest.raises(UsageError) as caught:
        Locked().store("shelf://a/1")
    assert str(caught.value) == "shelf://a: settings of Shelf cannot be used: the key is bent"


def test_errors_name_bucket_and_permission() -> None:
    """And say where credentials are looked for."""
    shelf = Shelf()

    def failing(error: OSError) -> Callable[[], None]:
        def request() -> None:
            raise error

        return request

    gone, refused = FileNotFoundError(errno.ENOENT, "gone"), PermissionError(errno.EACCES, "no")
    with pytest.raises(BucketError, match="shelf shelf://a does not exist: shelf://a/1: gone"):
        shelf.retried(failing(gone), "shelf://a/1", "look")
    with pytest.raises(BucketError, match="permission look on shelf shelf://a is missing: no"):
        shelf.retried(failing(refused), "shelf://a/1", "look")
    for error, permission in ((gone, ""), (gone, "look"), (refused, "")):
        with pytest.raises(type(error)):
            shelf.retried(failing(error), "shelf://a/1", permission, missing=False)


LIBRARIES = {
    "s3": ("botocore.configprovider", "s3"),
    "az": ("obstore.store", "azure"),
    "gs": ("google.auth", "gcp"),
}


@pytest.mark.parametrize("scheme", LIBRARIES)
def test_a_library_that_is_not_installed(scheme: str) -> None:
    """The command that installs it is named."""
    module, extra = LIBRARIES[scheme]
    reason = f"import of {module} halted; None in sys.modules"
    code = (
        f"import sys; sys.modules[{module!r}] = None; from beam_pipeline.cli import main; "
        f"sys.exit(main(['verify', '{scheme}://bucket/out']))"
    )
    done = python("-c", code)
    assert done.returncode == 2
    assert done.stderr == (
        f"beam-tfrecord: error: {scheme}:// needs a library that is not installed ({reason}): "
        f"pip install '.[{extra}]' in the checkout of beam-tfrecord\n"
    )


def test_a_forked_process_is_told_to_be_spawned() -> None:
    """The library's threads are gone there, and a request would wait for them for ever."""
    code = (
        "import os\n"
        "from tests.buckets.test_obstore import Shelf\n"
        "Shelf().store('shelf://a')\n"
        "if os.fork():\n"
        "    os.wait()\n"
        "else:\n"
        "    try:\n"
        "        Shelf().store('shelf://a')\n"
        "    except Exception as error:\n"
        "        print(type(error).__name__, error, flush=True)\n"
        "    os._exit(0)\n"
    )
    done = python("-c", code, check=True, cwd=os.getcwd())
    assert done.stdout.startswith("UsageError Shelf was used before this process was forked")


def test_a_name_before_a_name() -> None:
    """Smaller, as near as can be, and one that the library takes as it is."""
    last = "\U0010ffff"
    names = {"photos/img_3": f"photos/img_2{last}", "photos/0": f"photos.{last}"}
    names |= {
        "photos/img_0": f"photos/img_/{last}",
        "photos/": f"photos.{last}",
        "photos/a\0": "photos/a",
    }
    names |= {"\ue000": f"\ud7ff{last}", "!": f" {last}"}
    assert {name: obstore_driver.before(name) for name in names} == names
    assert all(before < name for name, before in names.items())
    assert obstore_driver.before("") is None


@in_rows
def test_what_a_text_tells(text: str, status: int, code: str, line: str) -> None:
    """Status, the service's code, and one line for people."""
    answer = obstore_driver.answer_of(Exception(_text(text)))
    assert answer == obstore_driver.Answer(status, code, line)


@in_rows
def test_each_error_is_one_of_ours(kind: str, text: str, expected: str, number: str) -> None:
    """None where the same request may succeed later."""
    found = Shelf().permanent(getattr(exceptions, kind)(_text(text)), URI)
    assert (type(found).__name__ if found else "None") == expected
    assert not number or (found.errno, found.filename) == (getattr(errno, number), URI)  # type: ignore[union-attr]


def test_a_fault_of_the_program_is_not_repeated() -> None:
    """An error that is none of the library's is raised as it is."""
    error = TypeError("no such argument")
    assert Shelf().permanent(error, URI) is error
    name = Shelf().permanent(ValueError('Path "a//b" contained empty path segment'), URI)
    assert isinstance(name, OSError)
    assert name.errno == errno.EINVAL


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that pass in sleep only; the list holds those of each sleep."""
    slept: list[float] = []
    monkeypatch.setattr(buckets.time, "sleep", slept.append)
    monkeypatch.setattr(buckets.time, "monotonic", lambda: 1000 + sum(slept))
    monkeypatch.setattr(buckets.random, "uniform", lambda low, high: high)
    monkeypatch.setattr(buckets.Waiting, "warned", -math.inf)
    return slept


class Patient(Shelf):
    """Every error may pass, except the one that it is made with."""

    title = "S3"

    def __init__(self, lasting: Exception | None = None) -> None:
        super().__init__()
        self._lasting = lasting

    def permanent(self, error: Exception, uri: str) -> Exception | None:
        return self._lasting

    def text(self, error: Exception) -> str:
        return str(error)


def _failing(times: int) -> Callable[[], str]:
    """A request that fails so often, then gives an answer."""
    counter = itertools.count()

    def request() -> str:
        if next(counter) < times:
            raise ConnectionError("503 SlowDown")
        return "answer"

    return request


def test_delays_grow(clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    """Each twice the one before. Ten seconds are said, in one line with the reason; after five minutes, it is an error."""
    get = Patient().retried
    with caplog.at_level(logging.WARNING):
        assert get(_failing(5), URI) == "answer"
        assert clock == [0.2, 0.4, 0.8, 1.6, 3.2]
        assert caplog.messages == []
        clock.clear()
        assert get(_failing(7), URI) == "answer"
    told = "S3 has given no good answer for 13 s, the last: 503 SlowDown; retrying for up to 300 s"
    assert caplog.messages == [told]
    clock.clear()
    with pytest.raises(TimeoutError) as caught:
        get(_failing(10**9), URI)
    assert (caught.value.errno, caught.value.filename) == (errno.ETIMEDOUT, URI)
    assert re.fullmatch(
        r"S3 gave no good answer for 2\d\d s; the last: 503 SlowDown", caught.value.strerror
    )
    assert sum(clock) <= buckets.RETRY_SECONDS


def test_a_wait_begins_with_the_first_error(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    """An upload in many requests has one wait, and may have gone well for long."""
    waiting = buckets.Waiting("S3")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            buckets.time.sleep(60)
            waiting.add("503 SlowDown", 300)
    assert caplog.messages == [
        "S3 has given no good answer for 60 s, the last: 503 SlowDown; retrying for up to 300 s"
    ]


def test_a_permanent_error_is_raised_at_once(clock: list[float]) -> None:
    """As the caller has translated it."""
    error = PermissionError(errno.EACCES, "403", URI)
    with pytest.raises(PermissionError) as caught:
        Patient(error).retried(_failing(1), URI)
    assert caught.value is error
    assert clock == []


class Refused(Patient):
    """Every answer is that there are too many requests."""

    def is_refusal(self, error: Exception) -> bool:
        return True


def test_a_refused_request_waits_as_long_as_others_succeed(clock: list[float]) -> None:
    """Beyond five minutes, up to an hour; then, or five minutes after the last success, it fails."""
    own = pace.paces["s3://pets"]

    def others(request: Callable[[], str], until: float) -> Callable[[], str]:
        def also() -> str:
            if sum(clock) < until:
                own.answered = buckets.time.monotonic()
            return request()

        return also

    files = Refused()
    assert files.retried(others(_failing(40), math.inf), URI) == "answer"
    assert sum(clock) > 3 * buckets.RETRY_SECONDS
    for until, least, most in ((900, 1100, 1200), (math.inf, 3590, 3640)):
        clock.clear()
        with pytest.raises(TimeoutError):
            files.retried(others(_failing(10**9), until), URI)
        assert least < sum(clock) <= most
    pace.paces.clear()


def test_the_region_of_a_bucket() -> None:
    """Told to anyone, along with the refusal; an unknown bucket and no answer are no errors."""
    pytest.importorskip("botocore")
    from beam_pipeline.storage.s3 import region_of

    def answer(asked: Asked) -> Any:
        return 403, {"x-amz-bucket-region": "eu-west-3"} if asked.path == "/pets" else {}, b""

    with served(answer) as server:
        port = server.server_port
        assert region_of("pets", http.client.HTTPConnection("localhost", port)) == "eu-west-3"
        assert region_of("dogs", http.client.HTTPConnection("localhost", port)) is None
    assert region_of("pets", http.client.HTTPConnection("localhost", port, timeout=1)) is None


@pytest.mark.parametrize(
    "url",
    ["nonsense", "ftp://a", "http://", "http://a b", "http://a:b", "http://a:99999", "http://m\xfcnchen"],
)  # fmt: skip
def test_an_endpoint_that_is_no_url(
    url: str, environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is an error that says where it comes from; the library would end the process."""
    pytest.importorskip("botocore")
    pytest.importorskip("obstore")
    for name, value in (("ACCESS_KEY_ID", services.KEY), ("SECRET_ACCESS_KEY", services.SECRET), ("ENDPOINT_URL", url)):  # fmt: skip
        monkeypatch.setenv(f"AWS_{name}", value)
    with pytest.raises(UsageError) as caught:
        files.read_bytes("s3://pets/a")
    assert str(caught.value).startswith(
        f"s3://: the endpoint is {url!r}, expected a URL such as http"
    )


@pytest.mark.buckets
def test_a_profile_of_the_configuration(
    minio: tuple[int, proxy.Proxy],
    minio_store: services.MinioStore,
    environment: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Keys, region and endpoint come from the files of the AWS CLI."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    (environment / "config").write_text(
        f"[profile mine]\nregion = us-east-1\nendpoint_url = {minio[1].url}\n"
    )
    (environment / "credentials").write_text(
        f"[mine]\naws_access_key_id = {services.KEY}\naws_secret_access_key = {services.SECRET}\n"
    )
    monkeypatch.setenv("AWS_PROFILE", "mine")
    minio_store.put("a", b"1")
    assert files.read_bytes(f"{minio_store.uri}/a") == b"1"


@pytest.mark.buckets
@pytest.mark.promise("no_credentials")
@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ("", "s3://: no credentials found on this machine; set AWS_ACCESS_KEY_ID"),
        ("AWS_PROFILE=nobody", "s3://: credentials cannot be used: The config profile (nobody)"),
        (
            "AWS_ENDPOINT_URL=MINIO AWS_ACCESS_KEY_ID=nobody AWS_SECRET_ACCESS_KEY=xxxxxxxxxxxxxxxxxxxx",
            "credentials are refused or cannot be had: 403 InvalidAccessKeyId",  # no permission
        ),
    ],
)
def test_no_good_credentials(minio: tuple[int, proxy.Proxy], variables: str, said: str) -> None:
    """Are missed at once, with what to do about it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    kept |= dict.fromkeys(("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"), "/nonexistent")
    kept |= {"AWS_EC2_METADATA_DISABLED": "true"}
    kept |= dict(pair.split("=") for pair in variables.replace("MINIO", minio[1].url).split())
    done = program("verify", "s3://pets/out", env=kept, timeout=60)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_account_is_in_the_uri_or_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The URI counts first; without either, the error says how to name one."""
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "ours")
    for account in ("mine.dfs.core.windows.net", "mine.blob.core.windows.net", "mine"):
        assert obstore_driver.container_of(f"pets@{account}") == ("pets", "mine")
    assert obstore_driver.container_of("pets") == ("pets", "ours")
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT")
    message = "set AZURE_STORAGE_ACCOUNT_NAME, or write abfs://pets@ACC"
    with pytest.raises(UsageError, match=message):
        obstore_driver.container_of("pets")
