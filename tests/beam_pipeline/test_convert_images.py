"""The conversion as one step of a pipeline, in Python and in YAML."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

import beam_pipeline
from beam_pipeline.core.errors import (
    ConversionError,
    OutputNotEmptyError,
    QuestionError,
    UsageError,
)
from beam_pipeline.transforms import ConvertImages
from tests.conformance.pages import make_data
from tests.harness import convert, digests, documented, manifest_of, shard_names
from tests.pictures import picture, write_files

# --- convert images --------------------------------------------------------------------------------


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


# --- yaml transforms -------------------------------------------------------------------------------

yaml_main = pytest.importorskip(
    "apache_beam.yaml.main", reason="needs apache-beam[yaml]", exc_type=ImportError
)
(PACKAGE,) = beam_pipeline.__path__
PROVIDERS = f"{PACKAGE}/providers.yaml"

ERRORS = """
pipeline:
  transforms:
    - type: Create
      name: Rows
      config: {elements: [{id: a, x: 1}, {id: a, x: 2}, {id: b, x: 3}]}
    - type: WriteToShuffledTFRecord
      name: Write
      input: Rows
      config: {path: out/rows, key: id, num_shards: 2, error_handling: {output: bad}}
    - type: LogForTesting
      input: Write.bad
    - type: ConvertImages
      name: Convert
      config: {images: photos, output: out/images, num_shards: 1, error_handling: {output: bad}}
    - type: LogForTesting
      name: LogImages
      input: Convert.bad
providers:
  - include: providers.yaml
"""

LISTED = """
pipeline:
  type: chain
  transforms:
    - type: ReadImages
      config: {images: photos}
    - type: Filter
      config: {language: python, keep: size > 3}
    - type: MapToFields
      config: {fields: {key: key}}
    - type: LogForTesting
providers:
  - include: providers.yaml
"""


def run_yaml(spec: str) -> None:
    """Runs a pipeline as Beam's command does."""
    spec = spec.replace("include: providers.yaml", f"include: {PROVIDERS}")
    yaml_main.run(["--runner=FnApiRunner", f"--yaml_pipeline={spec}"])


def test_the_page_s_pipeline_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images and labels become the command's shards; a folder that contains them, or a bad row, fails it."""
    monkeypatch.chdir(tmp_path)
    write_files("photos", {f"{i}.jpg": picture(i) for i in range(4)})
    write_files(".", {"labels.csv": "image,species\n0.jpg,cat\n1.jpg,dog\n2.jpg,cat\n"})
    (spec,) = documented("docs/transforms.md", "yaml")
    run_yaml(spec)
    argv = ("--images", "photos", "--labels", "labels.csv", "--num_shards", "2", "--yes")
    assert convert(*argv, "--output", "command/from_yaml") == 0
    for name in shard_names("command/from_yaml"):
        assert (
            Path("out/from_yaml", name).read_bytes() == Path("command/from_yaml", name).read_bytes()
        )
    assert manifest_of("out/from_yaml")["dead_letters"] == {"unlabelled": 1}
    with pytest.raises(ConversionError, match="is not empty"):
        run_yaml(spec)
    write_files(".", {"labels.csv": "image,species\n0.jpg,cat\n1.jpg,dog\n2.jpg,\n"})
    with pytest.raises(ConversionError, match=r"labels\.csv, line 4: .* is empty"):
        run_yaml(
            spec.replace(", error_handling: {output: bad}", "")
            .replace(", bad: JoinLabels.bad", "")
            .replace("out/from_yaml", "out/bad")
        )


def test_bad_samples_have_an_output_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of records and of images; a conversion stands at the beginning of a pipeline."""
    monkeypatch.chdir(tmp_path)
    write_files("photos", {"a/1.jpg": picture(), "b/2.jpg": picture(), "b/3.jpg": "no"})
    with caplog.at_level("INFO"):
        run_yaml(ERRORS)
    assert manifest_of("out/rows")["dead_letters"] == {"duplicate_key": 2}
    assert manifest_of("out/images")["dead_letters"] == {"not_an_image": 1}
    logged = "\n".join(record.getMessage() for record in caplog.records)
    assert "'duplicate_key'" in logged or '"duplicate_key"' in logged
    assert "not_an_image" in logged


def test_images_are_rows_for_sql(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Their fields have names and types that other transforms of YAML know."""
    monkeypatch.chdir(tmp_path)
    write_files("photos", {"a/1.jpg": "one", "b/2.jpg": "second"})
    with caplog.at_level("INFO"):
        run_yaml(LISTED)
    logged = "\n".join(record.getMessage() for record in caplog.records)
    assert "b/2.jpg" in logged
    assert "a/1.jpg" not in logged
