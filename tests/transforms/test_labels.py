"""Reading labels and containers, and joining rows with images, in a job."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import apache_beam as beam
import pytest

from beam_pipeline.core import packing
from beam_pipeline.core.dataset.splits import SplitAssigner
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import ContainerError, LabelTableError, Refusal
from beam_pipeline.core.labels.join import join_bucket
from beam_pipeline.core.labels.samples import AGREE
from beam_pipeline.core.labels.schema import ColumnKind, label_column
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.packing import ImageBatch, LabelBatch
from beam_pipeline.core.references import ImageRef, LabelRow, SampleRef
from beam_pipeline.layouts.layout import ContainerLabels, FileLabels, ListedLabels
from beam_pipeline.transforms import in_workers
from beam_pipeline.transforms.labels import JoinLabelBatches, ReadLabelFiles, read_containers
from beam_pipeline.work.labels import JoinRows, Labelling
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY
from tests.pictures import write_files
from tests.rows import in_rows
from tests.transforms.outputs import counted, in_order, outputs

KEYS = [f"{folder}/{number}.jpg" for folder in "abc" for number in range(20)]
IMAGES = [ImageRef(key, f"/photos/{key}", 5) for key in KEYS]
ROWS = [LabelRow(key, ("cat",), "", "/labels.csv", line) for line, key in enumerate(KEYS[:50], 2)]
ROWS += [LabelRow("7.jpg", ("cat",), "", "/labels.csv", 90)]  # could mean three
ROWS += [LabelRow("a/8.jpg", ("dog",), "", "/labels.csv", 91)]  # disagrees
ROWS += [LabelRow("a/9.jpg", ("cat",), "", "/labels.csv", 92)]  # says it again
ROWS += [LabelRow("gone.jpg", ("cat",), "", "/labels.csv", 93)]
SPLITS = SplitAssigner(None, 0)


@pytest.mark.parametrize(
    ("buckets", "held"), [(1, 10), (7, 1), (7, 1 << 16), (1024, 10), (1024, 1 << 16)]
)
def test_buckets_and_bundles_play_no_part(
    buckets: int, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples, dead letters and counts are those of all images and rows at once."""
    monkeypatch.setattr(in_workers, "MOST_HELD", held)
    expected = join_bucket(*(list(zip(*items, strict=True)) for items in (IMAGES, ROWS)))
    samples, letters = expected.all_samples(), expected.dead_letters
    tally = Tally(orphan_rows=expected.orphan_rows, repeated_rows=expected.repeated_rows)
    tally.add_samples(samples, 0)
    tally.add_dead_letters(letters)
    assert (len(samples), len(letters)) == (49, 13)
    labelling = Labelling(SPLITS, (label_column("label", ColumnKind.BYTES),))
    join = JoinLabelBatches(work=JoinRows(AGREE, labelling), buckets=buckets)

    def build(pipeline: beam.Pipeline) -> Any:
        images = [ImageBatch(IMAGES[i : i + 8]) for i in range(0, len(IMAGES), 8)]
        rows = [LabelBatch(ROWS[i : i + 8]) for i in range(0, len(ROWS), 8)]
        given = {"images": images, "rows": rows}
        return {name: pipeline | name >> beam.Create(items) for name, items in given.items()} | join

    found = outputs(build, "samples", DEAD_LETTERS, TALLY)
    assert found == [in_order(samples), in_order(letters), tally]


class Reader:
    """A line names an image; `?` is a bad row, `!` the end of what can be read."""

    def read(self, file: BinaryIO, uri: str) -> Iterator[LabelRow | DeadLetter]:
        for line, text in enumerate(file.read().decode().split(), 1):
            if text == "!":
                raise LabelTableError(f"{uri} has an exclamation mark")
            bad = DeadLetter("labels", "", "", "bad_row", "a question mark", uri, line)
            yield bad if text == "?" else LabelRow(text, ("cat",), "", uri, line)


class Masks:
    """A file is the mask of the image of its name."""

    def row(self, file: ImageRef) -> LabelRow:
        return LabelRow(file.key[:-4], ((file.uri, file.size, 0),), "", file.uri, 0)


TREE = {
    "a/1.txt": "1 2 ? 4",
    "a/deep/2.txt": "2",
    "a/3.csv": "5",
    "b/empty.txt": "",
    "c/bad": "1 !",
}


def of_kind(kind: str, paths: list[str]) -> FileLabels | ListedLabels:
    if kind == "files":
        return FileLabels(Reader(), files=tuple(paths))
    roots = tuple(ImageRoot(path, ("**/*.txt",)) for path in paths)
    return (
        FileLabels(Reader(), folders=roots) if kind == "folders" else ListedLabels(Masks(), roots)
    )


@pytest.mark.parametrize("batch_size", [1, 2, 4096])
@in_rows
def test_every_row_is_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    batch_size: int,
    kind: str,
    paths: list[str],
    rows: list[tuple[str, str, int]],
    letters: list[tuple[Any, ...]],
    refusals: list[tuple[str, str]],
) -> None:
    """Reasons to refuse travel with the counts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(packing, "BATCH_SIZE", batch_size)
    write_files(".", TREE)
    os.mkfifo("b/pipe.txt")
    reading = ReadLabelFiles(labels=of_kind(kind, paths), raises=False)
    found = outputs(lambda p: p | reading, "rows", DEAD_LETTERS, TALLY)
    expected = [
        LabelRow(name, ("cat",) if line else ((uri, len(TREE[uri]), 0),), "", uri, line)
        for name, uri, line in rows
    ]
    dead = [DeadLetter(*letter) for letter in letters]
    tally = Tally(label_rows=len(rows) + len(dead), orphan_rows=len(dead), **counted(*dead))
    tally.refusals = [Refusal(*refusal) for refusal in refusals]
    assert found == [in_order(expected), in_order(dead), tally]


def test_what_cannot_be_read_is_raised_where_nothing_collects_it(tmp_path: Path) -> None:
    """A pipeline that looks at rows alone does not take a broken file for an empty one."""
    write_files(str(tmp_path), {"a": b"1 !"})
    labels = FileLabels(Reader(), files=(f"{tmp_path}/a",))
    with pytest.raises(LabelTableError, match="a has an exclamation mark"):
        outputs(lambda p: p | ReadLabelFiles(labels=labels), "rows")


class ContainerReader:
    """A container that ends after one sample."""

    def read(self, uri: str, unpack_to: str) -> Iterator[SampleRef]:
        assert unpack_to == "/unpacked"
        yield SampleRef("a", uri, 10, "train", ("cat",), offset=0)
        raise ContainerError(f"{uri} is cut short")


def test_a_broken_container_refuses_the_run() -> None:
    """The reason travels with the counts; what came before the break is counted, too."""
    labels = ContainerLabels(ContainerReader(), ("/broken",))
    read = read_containers(labels, "/unpacked", Labelling(SPLITS, ()))
    found = outputs(lambda p: p | read, "samples", DEAD_LETTERS, TALLY)
    tally = Tally(
        listed=1,
        samples=Counter({"train": 1}),
        sample_bytes=Counter({"train": 10}),
        refusals=[Refusal("ContainerError", "/broken is cut short")],
    )
    assert found == [[SampleRef("a", "/broken", 10, "train", ("cat",), offset=0)], [], tally]
