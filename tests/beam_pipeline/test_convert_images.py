"""`ConvertImages`: the conversion as a step of somebody's pipeline."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from beam_pipeline.core.errors import OutputNotEmptyError, QuestionError, UsageError
from beam_pipeline.transforms import ConvertImages
from tests.conformance.pages import make_data
from tests.harness import convert, digests, manifest_of, shard_names
from tests.pictures import picture, write_files


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: twelve images in class folders, and one that is none."""
    monkeypatch.chdir(tmp_path)
    images: dict[str, Any] = {f"{c}/{i}.jpg": picture() for c in "ab" for i in range(6)}
    write_files("photos", {**images, "a/bad.jpg": "no image"})
    return tmp_path


def run(*transforms: ConvertImages) -> None:
    """Runs a pipeline of conversions."""
    with beam.Pipeline(FnApiRunner()) as pipeline:
        for number, transform in enumerate(transforms):
            _ = pipeline | str(number) >> transform


OPTIONS: dict[str, Any] = {"num_shards": 2, "max_bad_fraction": 1.0, "splits": {"x": 0.5, "y": 0.5}}
ARGV = ("--num_shards", "2", "--max_bad_fraction", "1", "--splits", "x=0.5,y=0.5")


def test_it_gives_what_the_command_gives(photos: Path) -> None:
    """All files are the command's; results follow the commit."""
    assert convert("--images", "photos", "--output", "command/out", *ARGV) == 0
    with beam.Pipeline(FnApiRunner()) as pipeline:
        result = pipeline | ConvertImages("photos", "step/out", **OPTIONS)
        shards = result.shards | beam.Map(lambda shard: os.path.basename(shard.path))
        assert_that(shards, equal_to(shard_names("command/out")), label="Shards")
        bad = result.bad | beam.Map(lambda bad: (bad.key, bad.reason))
        assert_that(bad, equal_to([("a/bad.jpg", "not_an_image")]), label="Bad")
        committed = result.manifest | beam.Map(
            lambda c: (os.path.exists(c.manifest), c.examples, c.shards, c.bad)
        )
        assert_that(committed, equal_to([(True, 12, 4, 1)]), label="Committed")
    assert digests("step/out") == digests("command/out")


def test_records_are_shuffled_in_the_same_job(photos: Path) -> None:
    """Every image is listed once, and the shards are the same."""
    run(
        ConvertImages("photos", "records/out", shuffle="records", **OPTIONS),
        ConvertImages("photos", "references/out", **OPTIONS),
    )
    ours, theirs = digests("records/out"), digests("references/out")
    differ = {name for name in theirs if ours[name] != theirs[name]}
    assert differ == {"README.md", "manifest.json", "report.html"}


def test_labels_of_files_and_of_containers(photos: Path) -> None:
    """Rows are joined; files of many images are unpacked; two conversions share a pipeline."""
    Path("labels.csv").write_text("filename,label\n0.jpg,cat\n1.jpg,dog\n")
    make_data("cifar10", ".")
    run(
        ConvertImages("photos/b", "joined", labels="labels.csv", max_bad_fraction=1.0, yes=True),
        ConvertImages("cifar-10-python.tar.gz", "unpacked", yes=True),
    )
    assert [c["name"] for c in manifest_of("joined")["classes"]] == ["cat", "dog"]
    assert convert("--images", "cifar-10-python.tar.gz", "--output", "command/unpacked") == 0
    assert digests("unpacked") == digests("command/unpacked")
    assert not Path("unpacked/.incomplete").exists()


def test_a_folder_that_holds_a_data_set(photos: Path) -> None:
    """It stays, is gone on with, or is replaced; messages name arguments."""
    run(ConvertImages("photos", "out", **OPTIONS))
    before = digests("out")
    message = r"out is not empty.*or use overwrite=True to replace"
    with pytest.raises(OutputNotEmptyError, match=message):
        run(ConvertImages("photos", "out", **OPTIONS))
    (name, *_) = shard_names("out")
    os.unlink(f"out/{name}")
    run(ConvertImages("photos", "out", resume=True, **OPTIONS))
    assert digests("out") == before
    run(ConvertImages("photos", "out", overwrite=True, **{**OPTIONS, "num_shards": 1}))
    assert len(shard_names("out")) == 2


def test_nothing_is_read_or_written_before_it_is_applied(photos: Path) -> None:
    """And nothing is written before the pipeline runs."""
    ConvertImages("missing", "out", **OPTIONS)
    _ = beam.Pipeline(FnApiRunner()) | ConvertImages("photos", "out", **OPTIONS)
    assert os.listdir() == ["photos"]
    with pytest.raises(UsageError, match="missing"):
        _ = beam.Pipeline(FnApiRunner()) | ConvertImages("missing", "out", **OPTIONS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_shard": 2}, "has no argument 'num_shard'; did you mean num_shards?"),
        ({"writers": 2}, "ConvertImages has no argument 'writers': only the command has it"),
    ],
)
def test_arguments_are_checked_when_they_are_given(options: dict[str, Any], message: str) -> None:
    """As those of `convert`."""
    with pytest.raises(UsageError, match=message):
        ConvertImages("photos", "out", **options)


def test_a_question_is_raised_in_the_words_of_arguments(photos: Path) -> None:
    """A guess that is not safe has to be accepted, as by the command; no shard is written."""
    rows = "".join(f"{i}.jpg,cat\n" for i in range(6))
    Path("labels.csv").write_text(f"filename,label\n{rows}")
    with pytest.raises(QuestionError, match="yes=True"):
        run(ConvertImages("photos/b", "out", labels="labels.csv"))
    assert shard_names("out") == []
