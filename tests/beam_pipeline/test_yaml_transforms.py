"""The public transforms in Beam YAML."""

from __future__ import annotations

from pathlib import Path

import pytest

import beam_pipeline
from beam_pipeline.core.errors import ConversionError
from tests.harness import convert, documented, manifest_of, shard_names
from tests.pictures import picture, write_files

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


def run(spec: str) -> None:
    """Runs a pipeline as Beam's command does."""
    spec = spec.replace("include: providers.yaml", f"include: {PROVIDERS}")
    yaml_main.run(["--runner=FnApiRunner", f"--yaml_pipeline={spec}"])


def test_the_page_s_pipeline_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images and labels become the command's shards; a folder that contains them, or a bad row, fails it."""
    monkeypatch.chdir(tmp_path)
    write_files("photos", {f"{i}.jpg": picture(i) for i in range(4)})
    write_files(".", {"labels.csv": "image,species\n0.jpg,cat\n1.jpg,dog\n2.jpg,cat\n"})
    (spec,) = documented("docs/transforms.md", "yaml")
    run(spec)
    argv = ("--images", "photos", "--labels", "labels.csv", "--num_shards", "2", "--yes")
    assert convert(*argv, "--output", "command/from_yaml") == 0
    for name in shard_names("command/from_yaml"):
        assert (
            Path("out/from_yaml", name).read_bytes() == Path("command/from_yaml", name).read_bytes()
        )
    assert manifest_of("out/from_yaml")["dead_letters"] == {"unlabelled": 1}
    with pytest.raises(ConversionError, match="is not empty"):
        run(spec)
    write_files(".", {"labels.csv": "image,species\n0.jpg,cat\n1.jpg,dog\n2.jpg,\n"})
    with pytest.raises(ConversionError, match=r"labels\.csv, line 4: .* is empty"):
        run(
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
        run(ERRORS)
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
        run(LISTED)
    logged = "\n".join(record.getMessage() for record in caplog.records)
    assert "b/2.jpg" in logged
    assert "a/1.jpg" not in logged
