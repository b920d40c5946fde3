"""Settings of S3, found as the AWS CLI finds them, and of Azure."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from beam_pipeline.core.errors import UsageError
from beam_pipeline.storage import files
from beam_pipeline.storage.obstore_driver import container_of
from tests.buckets.proxy import Proxy
from tests.buckets.services import KEY, SECRET, MinioStore


class _Regions(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.send_response(403)
        if self.path == "/pets":
            self.send_header("x-amz-bucket-region", "eu-west-3")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_the_region_of_a_bucket() -> None:
    """Told to anyone, along with the refusal; an unknown bucket and no answer are no errors."""
    pytest.importorskip("botocore")
    from beam_pipeline.storage.s3 import region_of

    with HTTPServer(("localhost", 0), _Regions) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        port = server.server_address[1]
        assert region_of("pets", http.client.HTTPConnection("localhost", port)) == "eu-west-3"
        assert region_of("dogs", http.client.HTTPConnection("localhost", port)) is None
        server.shutdown()
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
    for name, value in (("ACCESS_KEY_ID", KEY), ("SECRET_ACCESS_KEY", SECRET), ("ENDPOINT_URL", url)):  # fmt: skip
        monkeypatch.setenv(f"AWS_{name}", value)
    with pytest.raises(UsageError) as caught:
        files.read_bytes("s3://pets/a")
    assert str(caught.value).startswith(
        f"s3://: the endpoint is {url!r}, expected a URL such as http"
    )


@pytest.mark.buckets
def test_a_profile_of_the_configuration(
    minio: tuple[int, Proxy],
    minio_store: MinioStore,
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
        f"[mine]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n"
    )
    monkeypatch.setenv("AWS_PROFILE", "mine")
    minio_store.put("a", b"1")
    assert files.read_bytes(f"{minio_store.uri}/a") == b"1"


def _verify(**variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    nothing = {"AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent"}
    return subprocess.run(
        [sys.executable, "-m", "beam_pipeline", "verify", "s3://pets/out"],
        env={**kept, **nothing, "AWS_EC2_METADATA_DISABLED": "true", **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.buckets
@pytest.mark.promise("no_credentials")
def test_no_credentials() -> None:
    """Are missed at once, with what to do about it."""
    done = _verify()
    assert done.returncode == 2
    assert "s3://: no credentials found on this machine; set AWS_ACCESS_KEY_ID" in done.stderr
    assert "Traceback" not in done.stderr
    done = _verify(AWS_PROFILE="nobody")
    assert done.returncode == 2
    assert "s3://: credentials cannot be used: The config profile (nobody)" in done.stderr


@pytest.mark.buckets
def test_keys_that_are_refused(minio: tuple[int, Proxy]) -> None:
    """Are no missing permission."""
    done = _verify(
        AWS_ENDPOINT_URL=minio[1].url, AWS_ACCESS_KEY_ID="nobody", AWS_SECRET_ACCESS_KEY="x" * 20
    )
    assert done.returncode == 2
    assert "credentials are refused or cannot be had: 403 InvalidAccessKeyId" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("bucket", "expected"),
    [
        ("pets@mine.dfs.core.windows.net", ("pets", "mine")),
        ("pets@mine.blob.core.windows.net", ("pets", "mine")),
        ("pets@mine", ("pets", "mine")),
        ("pets", ("pets", "ours")),
    ],
)
def test_the_account_is_in_the_uri_or_in_the_environment(
    bucket: str, expected: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The URI counts first."""
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "ours")
    assert container_of(bucket) == expected


def test_no_account_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Says how to name one."""
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT", raising=False)
    with pytest.raises(
        UsageError, match="set AZURE_STORAGE_ACCOUNT_NAME, or write abfs://pets@ACC"
    ):
        container_of("pets")
