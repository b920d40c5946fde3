"""The samples that are measured are the same, however they come."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from beam_pipeline.core.packing import SampleBatch
from beam_pipeline.core.records.sharding import KeyHasher
from beam_pipeline.core.references import SampleRef
from beam_pipeline.transforms.planning import LowestSamples
from tests.harness import convert, manifest_of, shard_names
from tests.pictures import picture, write_files

REFS = [SampleRef(f"{i}.jpg", f"/{i}.jpg", i, "train", ("x",)) for i in range(1000)]


@pytest.mark.parametrize("parts", [1, 7, 1000])
def test_the_lowest_hashes_are_found_in_any_parts(parts: int) -> None:
    """One sample in twenty, whatever the order of batches and how they are combined."""
    shuffled = REFS.copy()
    random.Random(parts).shuffle(shuffled)
    lowest = [LowestSamples.of_batch(SampleBatch(shuffled[i::parts]), 5) for i in range(parts)]
    batches = LowestSamples.of_all([LowestSamples.of_all(lowest[:3]), *lowest[3:]]).batches()
    found = [ref for batch in batches for ref in batch]
    hasher = KeyHasher(5)
    assert found == sorted(REFS, key=lambda ref: hasher.order(ref.key))[:50]


def test_the_shard_size_is_that_of_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files of 60 times 120 kB become shards of about 20 kB, since images are scaled."""
    from beam_pipeline.cli import main

    monkeypatch.chdir(tmp_path)
    large = picture(size=(300, 300), file_format="BMP")
    write_files(".", {f"photos/{'ab'[i % 2]}/{i}.bmp": large for i in range(60)})
    arguments = ["--images", "photos", "--resize", "32", "--image_format", "jpeg"]
    arguments += ["--shard_size", "20KB", "--output", "out", "--name", "set"]
    assert main(["plan", *arguments]) == 0
    planned = capsys.readouterr().out
    assert convert(*arguments) == 0
    shards = shard_names("out")
    total = manifest_of("out")["splits"]["train"]["bytes"]
    assert len(shards) == -(-total // 20_000)
    assert f"train: 60 samples in {len(shards)} shards" in planned
    assert "images are re-encoded: 16.2 MB of files, by 16 samples" in planned
