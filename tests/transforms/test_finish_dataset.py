"""Finishing a data set in a job: the same files as in one process."""

from __future__ import annotations

import json
from pathlib import Path

import apache_beam as beam
import pytest

from beam_pipeline.core.dataset.manifest import Manifest
from beam_pipeline.core.dataset.names import part_of
from beam_pipeline.core.errors import FailurePolicy
from beam_pipeline.transforms.finishing import FinishDataset
from beam_pipeline.work.dead_letter_files import read_dead_letters
from beam_pipeline.work.incomplete_folder import write_note
from beam_pipeline.work.output_folder import prepare_output
from tests.transforms.test_dataset_finisher import (
    DEAD,
    EMPTY,
    PARTS,
    PLAN,
    SHARDS,
    UNLABELLED,
    UNREADABLE,
    files_of,
    finish,
    finisher_of,
)


def test_the_transform_waits_for_all_outputs(tmp_path: Path) -> None:
    """It writes the files that the finisher does."""
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        finishing = FinishDataset(
            shards=pipeline | "Shards" >> beam.Create(SHARDS),
            dead_letters=pipeline | "DeadLetters" >> beam.Create(DEAD),
            refusals=pipeline | "Refusals" >> beam.Create([], reshuffle=False),
            finisher=finisher_of(tmp_path / "job"),
        )
        _ = pipeline | "Plan" >> beam.Create([PLAN]) | finishing
    finish(tmp_path / "here")
    assert files_of(tmp_path / "job") == files_of(tmp_path / "here")


@pytest.mark.parametrize("retries", [False, True])
def test_many_dead_letters_are_written_in_parts(tmp_path: Path, retries: bool) -> None:
    """One worker or several write the same parts, each sorted; readers see one list."""
    finisher = finisher_of(
        tmp_path,
        most_dead_letters=2,
        card=False,
        failures=FailurePolicy(retries, raises_refusals=False),
    )
    write_note(str(tmp_path), PLAN, {})
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        finishing = FinishDataset(
            shards=pipeline | "Shards" >> beam.Create(SHARDS),
            dead_letters=pipeline | "DeadLetters" >> beam.Create(DEAD),
            refusals=pipeline | "Refusals" >> beam.Create([], reshuffle=False),
            finisher=finisher,
        )
        _ = pipeline | "Plan" >> beam.Create([PLAN]) | finishing
    found = files_of(tmp_path)
    assert sorted(found) == [
        "dataset_info.json",
        *PARTS,
        "features.json",
        "labels.txt",
        "manifest.json",
        "schema.pbtxt",
    ]
    lines = {name: found[name].decode().splitlines() for name in PARTS}
    of_part = {
        name: [one.to_json() for one in (UNLABELLED, UNREADABLE, EMPTY) if part_of(one, 2) == part]
        for part, name in enumerate(PARTS)
    }
    assert lines == of_part
    manifest = json.loads(found["manifest.json"])
    assert manifest["dead_letter_parts"] == 2
    assert manifest["counts"]["dead_letters"] == 3
    assert list(read_dead_letters(str(tmp_path), Manifest.of(manifest))) == [
        json.loads(line) for name in PARTS for line in of_part[name]
    ]
    prepare_output(str(tmp_path), overwrite=True)
    assert files_of(tmp_path) == {}
