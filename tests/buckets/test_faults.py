"""One request to a bucket fails, whichever it is: the data set is right, or there is none and an error."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.buckets.proxy import Fault
from tests.buckets.services import Store
from tests.harness import NONE_BAD, convert
from tests.pictures import write_pictures

pytestmark = pytest.mark.buckets

EVERY = bool(os.environ.get("BEAM_TFRECORD_EVERY_FAULT"))
"""Try each fault at each request; else one fault at every sixteenth request, in turns."""
PART = 16
FAULTS = (403, 404, 429, 500, 503, "cut")


def _contents(cloud: Store) -> dict[str, bytes]:
    """Name -> content of the output folder, without receipts, which name generations of images."""
    return {name: cloud.get(name) for name in cloud.names("out/") if "/." not in name}


def _faults(requests: int) -> Iterator[tuple[int, int | str]]:
    """(n, fault of the n-th request)."""
    for n in range(requests):
        if EVERY:
            yield from ((n, fault) for fault in FAULTS)
        elif n % PART == 0:
            yield n, FAULTS[n // PART % len(FAULTS)]


def _spoil(cloud: Store, n: int, fault: int | str) -> None:
    status = fault if isinstance(fault, int) else 0
    cloud.proxy.spoil(Fault(skip=n, times=1, status=status, cut=fault == "cut"))


@pytest.mark.promise("bucket_fault")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("cloud", "state"),
    [("gs", "new"), ("gs", "complete"), ("gs", "other"), ("s3", "other"), ("az", "other")],
    indirect=["cloud"],
)
def test_a_fault_at_any_request(
    cloud: Store, tmp_path: Path, state: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 0 means the right data set; else one line says why, and the next run makes the right one."""
    write_pictures(f"{tmp_path}/photos", ["a/0.jpg", "b/1.jpg", "a/2.jpg"])
    cloud.put_folder(tmp_path / "photos", "photos")
    argv = ["--images", f"{cloud.uri}/photos", "--output", f"{cloud.uri}/out", "--name", "d"]
    argv += ["--num_shards", "2", "--layout", "class_folders", NONE_BAD]
    option = {"new": [], "complete": ["--resume"], "other": ["--overwrite"]}[state]

    def put_back() -> None:
        cloud.proxy.spoil()
        cloud.delete("out/")
        if state == "complete":
            assert convert(*argv) == 0
        elif state == "other":
            assert convert(*argv, "--seed", "7") == 0
        cloud.proxy.take_log()

    assert convert(*argv) == 0
    wanted = _contents(cloud)
    put_back()
    before = _contents(cloud)
    assert convert(*argv, *option) == 0
    assert _contents(cloud) == wanted
    requests = len(cloud.proxy.take_log())
    found = []
    tried = 0
    for n, fault in _faults(requests):
        put_back()
        _spoil(cloud, n, fault)
        capsys.readouterr()
        try:
            code = convert(*argv, *option)
        except Exception as error:
            found.append(f"{fault} at {n}: a traceback: {type(error).__name__}: {str(error)[:200]}")
            continue
        error = capsys.readouterr().err
        spoilt = [r for r in cloud.proxy.take_log() if r.spoilt]
        cloud.proxy.spoil()
        at = f"{fault} at {n}, {spoilt[0][:3] if spoilt else 'no request'}"
        tried += len(spoilt)
        after = _contents(cloud)
        if code == 0:
            if after != wanted:
                found.append(f"{at}: exit code 0, and the data set is not the right one")
            continue
        if "Traceback" in error or not error.splitlines()[-1].startswith("beam-tfrecord: error: "):
            found.append(f"{at}: no error of one line: {error}")
        if "out/manifest.json" in after and after not in (before, wanted):
            found.append(f"{at}: a manifest over other files")
        if convert(*argv, *(option or ["--resume"])):
            found.append(f"{at}: afterwards: {capsys.readouterr().err}, after {error}")
        elif _contents(cloud) != wanted:
            found.append(f"{at}: afterwards another data set")
    assert not found, "\n".join(found)
    assert tried
