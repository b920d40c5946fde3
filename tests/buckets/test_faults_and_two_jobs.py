"""Requests that fail, whichever they are, and two jobs that write to one folder of a bucket."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from google_crc32c import value

from beam_pipeline.core.dataset.manifest import crc32c_text
from beam_pipeline.core.dataset.receipts import Receipt, ShardInputs
from beam_pipeline.core.errors import AnotherJobError
from beam_pipeline.engines.base import Engine
from beam_pipeline.storage import pace
from beam_pipeline.work import outcome, output_folder
from beam_pipeline.work.finishing import Reports
from beam_pipeline.work.receipts import write_receipt
from tests.buckets import proxy
from tests.buckets.services import Store
from tests.harness import NONE_BAD, PATIENCE_S, convert, job, wait_until
from tests.pictures import write_pictures
from tests.transforms.test_finishing import DEAD, PLAN, finisher_of
from tests.transforms.test_finishing import SHARDS as SHARDS_OF_PLAN

pytestmark = pytest.mark.buckets

OPTIONS = ("", "--overwrite", "--resume", "--reuse")
PAIRS = [
    *(("gs", *pair) for pair in combinations_with_replacement(OPTIONS, 2)),
    *((cloud, first, "--overwrite") for cloud in ("s3", "az") for first in ("", "--overwrite")),
]
SHARDS = 8
COMMON = ("--name", "d", "--num_shards", str(SHARDS))


class Side(NamedTuple):
    """Images in a bucket, and their whole data set there.

    Attributes:
      images: URI of their folder.
      whole: URI of the data set.
      content: name -> content of each of its files.
    """

    images: str
    whole: str
    content: dict[str, bytes]

    @property
    def shards(self) -> dict[str, bytes]:
        return {name: data for name, data in self.content.items() if ".tfrecord-" in name}


_sides: dict[str, tuple[Store, Sequence[Side]]] = {}


@pytest.fixture
def sides(cloud: Store, tmp_path: Path) -> Sequence[Side]:
    """Two, of other images; made once for each service, in the bucket of the test that comes first."""
    if cloud.scheme not in _sides:
        _sides[cloud.scheme] = cloud, [_side(cloud, tmp_path, name) for name in "ab"]
    return _sides[cloud.scheme][1]


def _side(cloud: Store, folder: Path, name: str) -> Side:
    write_pictures(f"{folder}/{name}", [f"x/{name}{i:03d}.jpg" for i in range(32)])
    cloud.put_folder(folder / name, name)
    images, whole = f"{cloud.uri}/{name}", f"{cloud.uri}/whole_{name}"
    assert convert("--images", images, *COMMON, "--output", whole) == 0
    return Side(images, whole, _content(cloud, f"whole_{name}/"))


@pytest.mark.promise("bucket_two_jobs")
@pytest.mark.parametrize(("cloud", "first", "second"), PAIRS, indirect=["cloud"])
def test_of_two_jobs_one_wins_or_none_and_nothing_is_mixed(
    cloud: Store, sides: Sequence[Side], first: str, second: str
) -> None:
    """A manifest lists what lies there, the winner's shards. Without a winner, --overwrite starts afresh.

    The jobs start together, so each pair of options is tried in one order.
    """
    common = [*COMMON, "--output", f"{cloud.uri}/out"]
    jobs = [
        [*common, "--images", side.images, *_with_value(option, side.whole)]
        for side, option in zip(sides, (first, second), strict=True)
    ]
    with job(*jobs[0], "--writers", "0") as one, job(*jobs[1], "--writers", "0") as two:
        errors = [process.communicate(timeout=PATIENCE_S)[1] for process in (one, two)]
    codes = [one.returncode, two.returncode]
    for code, error in zip(codes, errors, strict=True):
        assert "Traceback" not in error
        assert code == 0 or "beam-tfrecord: error: " in error.splitlines()[-1], error
    assert ("out/manifest.json" in cloud.names("out/")) == (0 in codes), (codes, errors)
    winners = [side.shards for side, code in zip(sides, codes, strict=True) if code == 0]
    if len(winners) == 2:  # the one was complete when the other replaced it
        assert "--overwrite" in (first, second)
    if not winners:
        assert convert(*common, "--images", sides[1].images, "--overwrite") == 0
        winners = [sides[1].shards]
    shards = _shards(cloud)
    assert shards in winners, (codes, errors)
    assert _listed(cloud) == {name: crc32c_text(value(data)) for name, data in shards.items()}
    earlier = _sides[cloud.scheme][0]
    for side in sides:  # also where its shards were reused
        assert _content(earlier, f"{side.whole.rpartition('/')[2]}/") == side.content


def _with_value(option: str, earlier: str) -> list[str]:
    """An option as it is typed; `--reuse` names a data set."""
    return [*filter(None, [option]), *([earlier] if option == "--reuse" else [])]


def _content(cloud: Store, prefix: str) -> dict[str, bytes]:
    return {name.removeprefix(prefix): cloud.get(name) for name in cloud.names(prefix)}


def _shards(cloud: Store) -> dict[str, bytes]:
    content = _content(cloud, "out/")
    return {name: data for name, data in content.items() if ".tfrecord-" in name}


def _listed(cloud: Store) -> dict[str, str]:
    """Shard -> checksum, as the manifest has it."""
    manifest = json.loads(cloud.get("out/manifest.json"))
    return {shard["path"]: shard["crc32c"] for shard in manifest["splits"]["train"]["shards"]}


CONTENT = b"shard"
WRITTEN = [shard._replace(bytes=len(CONTENT), crc32c=value(CONTENT)) for shard in SHARDS_OF_PLAN]
GONE = f"out/{WRITTEN[0].file_name}"


def _put_shards(cloud: Store) -> None:
    for shard in WRITTEN:
        cloud.put(f"out/{shard.file_name}", CONTENT)


def _finish(cloud: Store) -> None:
    finisher = finisher_of(f"{cloud.uri}/out")
    finisher.finish(PLAN, Reports(shards=WRITTEN, dead_letters=DEAD, refusals=[]))


def _refusal(cloud: Store) -> str:
    error = output_folder.noted_refusal(f"{cloud.uri}/out")
    assert isinstance(error, AnotherJobError)
    return str(error).partition(" any more")[0]


@contextmanager
def _before_the_manifest(cloud: Store) -> Iterator[None]:
    """A job ends after the block, in which its shards and the files beside them are there.

    Each file takes a second, so that the manifest is on its way when the others are there.
    """
    _put_shards(cloud)
    cloud.proxy.spoil(proxy.Fault(*cloud.kinds.write, delay=1))
    names = ("dataset_info.json", "features.json", "labels.txt", "README.md", "croissant.json")
    side_files = {f"out/{name}" for name in names}
    with ThreadPoolExecutor(1) as pool:
        finished = pool.submit(_finish, cloud)
        wait_until(lambda: side_files <= set(cloud.names("out/")))
        yield
        finished.result(PATIENCE_S)


@pytest.mark.promise("bucket_two_jobs")
@pytest.mark.parametrize("theirs", [b"other", None])
def test_a_job_whose_shard_was_replaced_writes_no_manifest(
    cloud: Store, theirs: bytes | None
) -> None:
    """Nor another file beside the shards: all of them may be the other job's."""
    _put_shards(cloud)
    cloud.delete(GONE)
    if theirs is not None:
        cloud.put(GONE, theirs)
    cloud.put("out/dead_letters.jsonl", b"theirs")
    before = cloud.names("out/")
    _finish(cloud)
    assert (
        _refusal(cloud) == f"another job is writing to this folder: {cloud.uri}/{GONE} is not there"
    )
    assert [n for n in cloud.names("out/") if "/.incomplete/" not in n] == before
    assert cloud.get("out/dead_letters.jsonl") == b"theirs"


@pytest.mark.promise("bucket_two_jobs")
def test_a_manifest_is_withdrawn_if_a_shard_goes_while_it_is_written(cloud: Store) -> None:
    """The other job looks for a manifest after its last deletion, and may have looked before."""
    with _before_the_manifest(cloud):
        cloud.delete(GONE)
    assert (
        _refusal(cloud) == f"another job is writing to this folder: {cloud.uri}/{GONE} is not there"
    )
    assert "out/manifest.json" in cloud.deleted(cloud.proxy.take_log())
    assert "out/manifest.json" not in cloud.names("out/")


@pytest.mark.promise("bucket_two_jobs")
def test_after_a_withdrawn_manifest_overwrite_starts_afresh(cloud: Store) -> None:
    """Though the other job deleted the note of the files beside the shards, with all shards."""
    with _before_the_manifest(cloud):
        for prefix in ("out/pets-", "out/.incomplete/"):
            cloud.delete(prefix)
    cloud.proxy.reset()
    assert _refusal(cloud).startswith("another job is writing to this folder: ")
    output_folder.clean_up_refused(f"{cloud.uri}/out")
    assert "out/labels.txt" in cloud.names("out/")
    output_folder.prepare_output(f"{cloud.uri}/out", overwrite=True)
    assert cloud.names("out/") == []


@pytest.mark.promise("bucket_two_jobs")
def test_overwrite_starts_afresh_where_it_deleted_the_note_of_a_job_that_then_lost(
    cloud: Store,
) -> None:
    """That job still wrote shards and receipts, which nothing lists any more but the receipts."""
    output_folder.write_note(f"{cloud.uri}/out", PLAN, {})
    cloud.put(GONE, CONTENT)
    cloud.proxy.spoil(cloud.late_deletion(GONE, 2, manifest=False))
    with ThreadPoolExecutor(1) as pool:
        prepared = pool.submit(output_folder.prepare_output, f"{cloud.uri}/out", True)
        wait_until(lambda: "out/.incomplete/deleting.json" in cloud.names("out/"))
        _put_shards(cloud)
        for info, spec in zip(sorted(WRITTEN), PLAN.shard_plan.specs, strict=True):
            receipt = Receipt(ShardInputs(spec, [], {}, {}), info, [])
            write_receipt(f"{cloud.uri}/out", receipt, new=True)
        prepared.result(PATIENCE_S)
    cloud.proxy.reset()
    assert "out/.incomplete/plan.json" not in cloud.names("out/")
    _finish(cloud)
    assert _refusal(cloud).startswith("another job is writing to this folder: ")
    output_folder.clean_up_refused(f"{cloud.uri}/out")
    output_folder.prepare_output(f"{cloud.uri}/out", overwrite=True)
    assert cloud.names("out/") == []


@pytest.mark.promise("bucket_two_jobs")
def test_a_manifest_that_appeared_meanwhile_is_not_replaced(cloud: Store) -> None:
    """It is another job's, which won."""
    with _before_the_manifest(cloud):
        cloud.put("out/manifest.json", b"theirs")
    assert _refusal(cloud).startswith("another job is writing to this folder: ")
    assert cloud.get("out/manifest.json") == b"theirs"


@pytest.mark.promise("bucket_two_jobs")
@pytest.mark.parametrize("is_whole", [False, True])
def test_a_manifest_that_appears_while_overwrite_deletes(cloud: Store, is_whole: bool) -> None:
    """It goes with its shards and the files beside them; if they are all there, another job has won."""
    _put_shards(cloud)
    _finish(cloud)
    manifest = json.loads(cloud.get("out/manifest.json"))
    if is_whole:
        for entry in manifest["splits"]["train"]["shards"]:
            entry["path"] = entry["path"].replace("pets", "dogs")
    cloud.proxy.spoil(cloud.late_deletion(GONE, 2))
    with ThreadPoolExecutor(1) as pool:
        prepared = pool.submit(output_folder.prepare_output, f"{cloud.uri}/out", True)
        wait_until(lambda: "out/manifest.json" not in cloud.names("out/"))
        if is_whole:
            for entry in manifest["splits"]["train"]["shards"]:
                cloud.put(f"out/{entry['path']}", CONTENT)
        cloud.put("out/dataset_info.json", b"{SHARD_X_OF_Y}")
        cloud.put("out/manifest.json", json.dumps(manifest).encode())
        error = prepared.exception(PATIENCE_S)
    assert (type(error) is AnotherJobError) == is_whole, error
    assert ("out/manifest.json" in cloud.names("out/")) == is_whole
    assert is_whole or "out/dataset_info.json" not in cloud.names("out/")


# --- faults ---------------------------------------------------------------------------------------


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
    cloud.proxy.spoil(proxy.Fault(skip=n, times=1, status=status, cut=fault == "cut"))


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


IMAGES = 160


def _digests(cloud: Store, folder: str) -> Mapping[str, str]:
    names = [name for name in cloud.names(f"{folder}/") if ".tfrecord-" in name]
    return {name.partition("/")[2]: hashlib.sha256(cloud.get(name)).hexdigest() for name in names}


@pytest.mark.parametrize("cloud", ["gs", "s3"], indirect=True)
def test_a_bucket_that_refuses_most_reads(
    cloud: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bytes, no dead letter, and Dataflow's counter of throttled seconds beside the distributions."""
    write_pictures(f"{tmp_path}/photos", [f"{'ab'[i % 2]}/{i}.jpg" for i in range(IMAGES)])
    cloud.put_folder(tmp_path / "photos", "photos")
    argv = ["--images", f"{cloud.uri}/photos", "--name", "d", "--num_shards", "4", "--writers=0"]
    assert convert(*argv, "--output", f"{cloud.uri}/usual", NONE_BAD) == 0
    cloud.proxy.take_log()
    results: list[Any] = []
    monkeypatch.setattr(Engine, "wait_for", lambda _, result: results.append(result))
    pace.meter.take()
    path, status = ("/.*alt=media", 429) if cloud.scheme == "gs" else (r"/[^?]*\Z", 503)
    cloud.proxy.spoil(proxy.Fault("GET", f"photos{path}", status=status, per_second=40))
    assert convert(*argv, "--output", f"{cloud.uri}/refused", NONE_BAD) == 0
    assert _digests(cloud, "refused") == _digests(cloud, "usual")
    refused = sum(request.spoilt for request in cloud.proxy.take_log())
    assert refused > 0
    metrics = results[0].metrics().query()
    counters = {c.key.metric.name: c.committed for c in metrics["counters"]}
    spread = {d.key.metric.name: d.committed for d in metrics["distributions"]}
    assert counters[outcome.THROTTLED] >= 1
    assert spread[outcome.READ_MS].count == IMAGES
    assert spread[outcome.RETRIES].sum == refused
    assert spread[outcome.SHARD_MS].count == spread[outcome.SHARD_BYTES].count == 4
