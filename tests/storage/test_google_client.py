"""Retries, and many threads with one client."""

from __future__ import annotations

import errno
import math
import types
from concurrent.futures import ThreadPoolExecutor

import pytest

from beam_pipeline.storage import (
    files,
    google_client,
    retries,
)
from tests.gcs.cloud import Cloud
from tests.gcs.content import random_bytes
from tests.gcs.proxy import Fault

pytestmark = pytest.mark.gcs


def test_the_bytes_of_each_of_many_threads(cloud: Cloud) -> None:
    """64 threads read at once with the one client."""
    for i in range(64):
        cloud.put(str(i), bytes([i]) * 1000)
    with ThreadPoolExecutor(64) as pool:
        found = list(pool.map(lambda i: files.read_image(f"{cloud.uri}/{i}", 1000), range(64)))
    assert found == [bytes([i]) * 1000 for i in range(64)]


READ_FAULTS = {
    "503": Fault("GET", status=503, times=2),
    "429": Fault("GET", status=429, times=2),
    "cut": Fault("GET", cut=True, times=2),
    "late": Fault("GET", delay=0.2, times=1),
}


@pytest.mark.parametrize("fault", READ_FAULTS.values(), ids=READ_FAULTS)
def test_reads_and_listings_are_tried_again(cloud: Cloud, fault: Fault) -> None:
    """Until they give the whole."""
    cloud.put("a", random_bytes(50_000))
    for action in (
        lambda: files.read_bytes(f"{cloud.uri}/a") == random_bytes(50_000),
        lambda: files.list_folder(cloud.uri) == ["a"],
        lambda: files.open_input(f"{cloud.uri}/a").read() == random_bytes(50_000),
    ):
        cloud.proxy.spoil(Fault(**vars(fault)))
        assert action()
        assert any(request.spoilt for request in cloud.proxy.take_log())


@pytest.mark.promise("bucket_trouble")
def test_trouble_that_does_not_end_fails_the_bundle(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an error that is the machine's, with the last answer in its message."""
    monkeypatch.setattr(google_client, "RETRY_SECONDS", 1.0)
    cloud.put("a", b"")
    for fault, text in (
        (Fault(status=503, message="come back later"), "503 come back later"),
        (Fault(status=429), "429 injected"),
        (Fault(cut=True), "RemoteDisconnected"),
    ):
        cloud.proxy.spoil(fault)
        with pytest.raises(OSError, match=text) as caught:
            files.read_image(f"{cloud.uri}/a", 0)
        assert caught.value.errno == errno.ETIMEDOUT


def test_long_retries_are_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After 10 seconds, and then every minute in a process, however many requests wait."""
    exceptions = pytest.importorskip("google.api_core.exceptions")
    clock: list[float] = []
    time = types.SimpleNamespace(monotonic=lambda: clock[-1])
    monkeypatch.setattr(retries.Waiting, "said", -math.inf)
    monkeypatch.setattr(retries, "time", time)
    several = [google_client.retry_policy(google_client.answer_is_transient) for _ in range(3)]
    for second in (1.0, 5.0, 10.0, 11.0, 30.0, 70.0, 72.0):
        clock.append(second)
        for policy in several:
            policy._on_error(exceptions.ServiceUnavailable("busy"))
    assert [record.getMessage() for record in caplog.records] == [
        f"Google Cloud Storage has given no good answer for {seconds} s, the last: 503 Service "
        "Unavailable; retrying for 300 s in all"
        for seconds in (10, 71)
    ]
