"""Every engine writes the same bytes with any number of workers; only references cross the shuffle."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.testing import test_pipeline
from apache_beam.testing.util import assert_that

from beam_pipeline.core.dataset.plan import PlanRequest
from beam_pipeline.core.dataset.splits import SplitAssigner
from beam_pipeline.core.labels import classes, schema
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.packing import unpack
from beam_pipeline.core.records import example_source, sharding, tfrecord
from beam_pipeline.core.references import SampleRef
from beam_pipeline.transforms import listing
from beam_pipeline.transforms.labels import label_by_folder
from beam_pipeline.transforms.planning import AssignShards, plan_shards
from beam_pipeline.work import job, writing
from beam_pipeline.work.job import unspill
from beam_pipeline.work.labels import LabelImages, Labelling
from beam_pipeline.work.outcome import TALLY
from beam_pipeline.work.planning import Planning
from tests import harness
from tests.conformance.groups import GROUPS
from tests.conformance.outcome import Row
from tests.pictures import picture, write_files, write_pictures

FN_API = "--runner=FnApiRunner"
TWO_THREADS = (FN_API, "--direct_running_mode=multi_threading", "--direct_num_workers=2")
ENGINES = {
    "one thread": (FN_API, "--direct_num_workers=1"),
    "two threads": TWO_THREADS,
    "DirectRunner": ("--runner=DirectRunner",),
    "default": (),
    "three writers": ("--writers=3",),
    "two threads, one writer": (*TWO_THREADS, "--writers=1"),
}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A folder with images and labels of every fate, and what one thread makes of it."""
    folder = tmp_path_factory.mktemp("input")
    names = [f"{split}/{i:03d}.jpg" for i in range(60) for split in ("train", "test")]
    write_pictures(str(folder / "photos"), names)
    write_files(str(folder / "photos"), {"train/bad.jpg": "no image", "train/bare.jpg": picture()})
    rows = "".join(f"{name},{'abc'[i % 3]},{i / 4}\n" for i, name in enumerate(names))
    table = f"filename,label,score\n{rows}train/bad.jpg,a,1\nnowhere.jpg,b,2\n"
    write_files(str(folder), {"labels.csv": table})
    assert harness.convert(*_argv(folder), "--output", f"{folder}/out", *ENGINES["one thread"]) == 0
    return folder, dict(harness.digests(folder / "out"))


def _argv(folder: Path) -> tuple[str, ...]:
    inputs = ("--images", f"{folder}/photos", "--labels", f"{folder}/labels.csv")
    return (*inputs, "--name", "d", "--num_shards", "train=3,test=2", "--max_bad_fraction", "0.1")


@pytest.mark.promise("same_bytes")
@pytest.mark.parametrize(
    "engine",
    ["default", *(pytest.param(n, marks=pytest.mark.slow) for n in ENGINES if n != "default")],
)
def test_every_engine_gives_the_same_bytes(
    expected: tuple[Path, dict[str, str]], tmp_path: Path, engine: str
) -> None:
    """Shards, manifest, labels and dead letters are those of one thread, byte for byte."""
    folder, wanted = expected
    done = harness.convert_in_process_of_its_own(
        *_argv(folder), "--output", f"{tmp_path}/out", *ENGINES[engine]
    )
    assert done.returncode == 0, done.stderr
    assert dict(harness.digests(tmp_path / "out")) == wanted
    of_one_thread = (folder / "out/report.html").read_bytes()
    assert (tmp_path / "out/report.html").read_bytes() == of_one_thread


@pytest.mark.promise("same_bytes")
def test_references_in_a_temporary_file_give_the_same_bytes(
    expected: tuple[Path, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large job's references lie in a file while they are moved; here, those of a small one."""
    folder, wanted = expected
    lengths: list[int] = []

    def unspilled(data: bytes) -> bytes:
        lengths.append(len(data))
        return unspill(data)

    monkeypatch.setattr(job, "HELD_BYTES", 0)
    monkeypatch.setattr(job, "LEAST_FREE_BYTES", 0)
    monkeypatch.setattr(job, "unspill", unspilled)
    assert harness.convert(*_argv(folder), "--output", f"{tmp_path}/out") == 0
    assert dict(harness.digests(tmp_path / "out")) == wanted
    assert 16 in lengths  # places
    assert max(lengths) < 64  # and what is not worth one


def test_which_sample_lies_where_is_pinned(tmp_path: Path) -> None:
    """One literal assignment: a change here moves every sample of every data set out there."""
    write_pictures(str(tmp_path / "p"), [f"{c}/{i}.jpg" for c in ("cat", "dog") for i in range(6)])
    argv = ("--images", f"{tmp_path}/p", "--num_shards", "3", "--splits", "train=0.75,test=0.25")
    assert harness.convert(*argv, "--output", f"{tmp_path}/out", "--name", "d") == 0
    found = {
        name: [
            features["image/source_id"][0].decode()
            for features in harness.read_shard(tmp_path / "out", name)
        ]
        for name in harness.shard_names(tmp_path / "out")
    }
    assert found == PINNED


PINNED = {
    "d-test.tfrecord-00000-of-00003": ["cat/1.jpg"],
    "d-test.tfrecord-00001-of-00003": [],
    "d-test.tfrecord-00002-of-00003": ["dog/4.jpg", "cat/0.jpg", "dog/5.jpg"],
    "d-train.tfrecord-00000-of-00003": ["dog/2.jpg", "cat/4.jpg", "cat/2.jpg"],
    "d-train.tfrecord-00001-of-00003": ["dog/3.jpg", "cat/3.jpg"],
    "d-train.tfrecord-00002-of-00003": ["dog/1.jpg", "dog/0.jpg", "cat/5.jpg"],
}


def test_only_references_cross_the_shuffle(tmp_path: Path) -> None:
    """Images of 100 kB are a few hundred bytes each where shards are grouped."""
    contents = {f"cat/{i:03d}.bmp": os.urandom(100_000) for i in range(20)}
    write_files(str(tmp_path / "photos"), contents)

    def check(groups: list[tuple[int, list[bytes]]]) -> None:
        packed = [batch for _, batches in groups for batch in batches]
        keys = sorted(ref.key for batch in packed for ref in unpack(SampleRef, batch))
        assert keys == sorted(contents)
        assert sum(map(len, packed)) < 20 * 300

    encoding = writing.EncodingOptions(example_source.LabelledImages(schema.CLASS_FOLDER_COLUMNS))
    request = writing.WriteRequest(folder=str(tmp_path / "out"), encoding=encoding)
    with test_pipeline.TestPipeline(runner="FnApiRunner") as pipeline:
        listed = pipeline | listing.ListImages(roots=(ImageRoot(f"{tmp_path}/photos"),))
        labelled = listed["images"] | label_by_folder(
            LabelImages(None, Labelling(SplitAssigner(None, 0)))
        )
        plan = (
            (listed[TALLY], labelled[TALLY])
            | beam.Flatten()
            | plan_shards(
                Planning(
                    request=request,
                    plan_request=PlanRequest(
                        name="d",
                        shards=sharding.ShardConfig(2),
                        splits=(),
                        record_format=tfrecord.TFRecordFormat(),
                        max_bad_fraction=0.0,
                        numbering=classes.ClassNumbering(),
                    ),
                    run={"options": {}},
                    writes=False,
                )
            )
        )
        assert_that(labelled["samples"] | AssignShards(plan=plan, encoding=encoding), check)


_OPENED: Counter[str] | None = None


def _record_opened(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and _OPENED is not None and isinstance(arguments[0], str):
        _OPENED[arguments[0]] += 1


def test_each_image_is_opened_once(tmp_path: Path) -> None:
    """From listing to manifest, the job opens every image exactly once."""
    global _OPENED
    names = [f"{'ab'[i % 2]}/{i}.jpg" for i in range(50)]
    write_pictures(str(tmp_path / "photos"), names)
    sys.addaudithook(_record_opened)
    _OPENED = Counter()
    try:
        argv = ("--images", f"{tmp_path}/photos", "--writers", "0")  # all of it in this process
        assert harness.convert(*argv, "--output", f"{tmp_path}/out") == 0
        opened = {path: n for path, n in _OPENED.items() if path.endswith(".jpg")}
    finally:
        _OPENED = None
    assert opened == {f"{tmp_path}/photos/{name}": 1 for name in names}


EVERYWHERE = {
    "samples": ("captions", "neighbours", "conversations", "crops", "files_resized"),
    "options": ("split_by_column", "stratified", "classes_of_a_list", "copies", "crops_of_coco"),
    "golden": ("class_folders", "lists"),
}
"""Group of tests/conformance -> rows whose stages differ from each other's."""


@pytest.mark.slow
@pytest.mark.promise("same_bytes")
@pytest.mark.parametrize(
    ("group", "name", "more"),
    [
        *((group, name, ()) for group, names in EVERYWHERE.items() for name in names),
        ("samples", "kept_without_rows", ("--resize=8", "--image_format=jpeg")),
        *(
            ("golden", "class_folders", ("--format", name))
            for name in ("webdataset", "array_record")
        ),
    ],
)
def test_a_conversion_has_the_same_bytes_in_threads_and_processes(
    group: str, name: str, more: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one thread, three writer processes and two threads of Beam."""
    if "array_record" in more:
        pytest.importorskip("array_record")
    monkeypatch.chdir(tmp_path)
    row = GROUPS[group][name]
    assert isinstance(row, Row)
    row.prepared()
    argv = (*shlex.split(row.argv), *more, "--name", "d")
    assert harness.convert(*argv, "--writers=0", "--output", "one") == 0
    assert harness.convert(*argv, "--writers=3", "--output", "two") == 0
    done = harness.convert_in_process_of_its_own(*argv, *TWO_THREADS, "--output", "three")
    assert done.returncode == 0, done.stderr
    assert harness.digests("one") == harness.digests("two") == harness.digests("three")
