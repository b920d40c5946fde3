"""Reading labels and containers, and joining rows with images, in a job."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_pipeline.core import packing
from beam_pipeline.core.dataset.splits import SplitAssigner
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import ContainerError, LabelTableError, Refusal
from beam_pipeline.core.labels import join
from beam_pipeline.core.labels.samples import AGREE
from beam_pipeline.core.labels.schema import CLASS_FOLDER_COLUMNS, Column, ColumnKind, label_column
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.references import ImageRef, LabelRow, SampleRef
from beam_pipeline.layouts.layout import ContainerLabels, FileLabels, ListedLabels
from beam_pipeline.transforms import in_workers
from beam_pipeline.transforms.labels import JoinLabelBatches, ReadLabelFiles, read_containers
from beam_pipeline.work import labels as label_work
from beam_pipeline.work.labels import JoinRows, Labelling
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY
from tests.pictures import write_files
from tests.transforms.outputs import assert_items, assert_total, counted

KEYS = [f"{folder}/{number}.jpg" for folder in "abc" for number in range(20)]
IMAGES = [ImageRef(key, f"/photos/{key}", 5) for key in KEYS]
ROWS = [LabelRow(key, ("cat",), "", "/labels.csv", line) for line, key in enumerate(KEYS[:50], 2)]
ROWS += [LabelRow("7.jpg", ("cat",), "", "/labels.csv", 90)]  # could mean three
ROWS += [LabelRow("a/8.jpg", ("dog",), "", "/labels.csv", 91)]  # disagrees
ROWS += [LabelRow("a/9.jpg", ("cat",), "", "/labels.csv", 92)]  # says it again
ROWS += [LabelRow("gone.jpg", ("cat",), "", "/labels.csv", 93)]


@pytest.mark.parametrize(
    ("buckets", "held"), [(1, 10), (7, 1), (7, 1 << 16), (1024, 10), (1024, 1 << 16)]
)
def test_buckets_and_bundles_play_no_part(
    buckets: int, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples, dead letters and counts are those of all images and rows at once."""
    monkeypatch.setattr(in_workers, "MOST_HELD", held)
    images, rows = (list(zip(*items, strict=True)) for items in (IMAGES, ROWS))
    expected = join.join_bucket(images, rows)
    tally = Tally(orphan_rows=expected.orphan_rows, repeated_rows=expected.repeated_rows)
    tally.add_samples(expected.all_samples(), 0)
    tally.add_dead_letters(expected.dead_letters)
    assert (len(expected.all_samples()), len(expected.dead_letters)) == (49, 13)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        image_batches = [packing.ImageBatch(IMAGES[i : i + 8]) for i in range(0, len(IMAGES), 8)]
        row_batches = [packing.LabelBatch(ROWS[i : i + 8]) for i in range(0, len(ROWS), 8)]
        inputs = {
            "images": pipeline | "Images" >> beam.Create(image_batches),
            "rows": pipeline | "Rows" >> beam.Create(row_batches),
        }
        columns = (label_column("label", ColumnKind.BYTES),)
        work = JoinRows(AGREE, Labelling(SplitAssigner(None, 0), columns))
        joined = inputs | JoinLabelBatches(work=work, buckets=buckets)
        samples = joined["samples"] | "EachSample" >> beam.FlatMap(list)
        dead_letters = joined[DEAD_LETTERS] | "EachLetter" >> beam.FlatMap(list)
        total = joined[TALLY] | beam.CombineGlobally(in_workers.Sum(Tally, Tally.add))
        assert_that(samples, equal_to(expected.all_samples()), label="samples")
        assert_that(dead_letters, equal_to(expected.dead_letters), label="dead letters")
        assert_that(total, equal_to([tally]), label="tally")


def row(uri: str, line: int, name: str) -> LabelRow:
    return LabelRow(name, ("cat",), "", uri, line)


def bad(uri: str, line: int) -> DeadLetter:
    return DeadLetter("labels", "", "", "bad_row", "a question mark", uri, line)


class Reader:
    """A line names an image; `?` is a bad row, `!` the end of what can be read."""

    def read(self, file: BinaryIO, uri: str) -> Iterator[LabelRow | DeadLetter]:
        for line, text in enumerate(file.read().decode().split(), 1):
            if text == "!":
                raise LabelTableError(f"{uri} has an exclamation mark")
            yield bad(uri, line) if text == "?" else row(uri, line, text)


def assert_read(
    labels: FileLabels, rows: list[LabelRow], dead_letters: list[DeadLetter], tally: Tally
) -> None:
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        found: Any = pipeline | ReadLabelFiles(labels=labels, raises=False)
        assert_items(found["rows"], rows, "rows")
        assert_items(found[DEAD_LETTERS], dead_letters, "dead letters")
        assert_total(found[TALLY], tally)


def test_what_cannot_be_read_is_raised_where_nothing_collects_it(tmp_path: Path) -> None:
    """A pipeline that looks at rows alone does not take a broken file for an empty one."""
    write_files(str(tmp_path), {"a": b"1 !"})
    with (
        pytest.raises(LabelTableError, match="a has an exclamation mark"),
        beam.Pipeline(runner="FnApiRunner") as pipeline,
    ):
        _ = pipeline | ReadLabelFiles(labels=FileLabels(Reader(), files=(f"{tmp_path}/a",)))


@pytest.mark.parametrize("batch_size", [1, 2, 4096])
def test_every_row_of_named_files_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_size: int
) -> None:
    """A bad row is a dead letter, and a row that has no image."""
    monkeypatch.setattr(label_work, "BATCH_SIZE", batch_size)
    write_files(str(tmp_path), {"a": "1 2 ? 4", "b": "", "c": "5"})
    a, b, c = (f"{tmp_path}/{name}" for name in "abc")
    assert_read(
        FileLabels(Reader(), files=(a, b, c)),
        [row(a, 1, "1"), row(a, 2, "2"), row(a, 4, "4"), row(c, 1, "5")],
        [bad(a, 3)],
        Tally(label_rows=5, orphan_rows=1, **counted(bad(a, 3))),
    )


def test_a_broken_file_refuses_the_run(tmp_path: Path) -> None:
    """The reason travels with the counts; the other files are read."""
    write_files(str(tmp_path), {"a": "1 !", "b": "2"})
    a, b = (f"{tmp_path}/{name}" for name in "ab")
    assert_read(
        FileLabels(Reader(), files=(a, b)),
        [row(a, 1, "1"), row(b, 1, "2")],
        [],
        Tally(label_rows=2, refusals=[Refusal("LabelTableError", f"{a} has an exclamation mark")]),
    )


def test_a_file_that_is_gone_is_a_dead_letter(tmp_path: Path) -> None:
    """It names the file; its images are reported without labels."""
    gone = f"{tmp_path}/gone"
    dead_letter = DeadLetter(
        "labels", gone, "", "bad_row", "cannot be read: No such file or directory", gone
    )
    assert_read(
        FileLabels(Reader(), files=(gone,)),
        [],
        [dead_letter],
        Tally(label_rows=1, orphan_rows=1, **counted(dead_letter)),
    )


def test_folders_are_listed_in_the_job(tmp_path: Path) -> None:
    """Files of the pattern are read; what is no file is a dead letter; other files do not count."""
    write_files(
        str(tmp_path), {"a/1.txt": "1", "a/deep/2.txt": "2 ?", "b/3.csv": "3", "c/4.txt": ""}
    )
    os.mkfifo(tmp_path / "c" / "pipe.txt")
    folders = tuple(ImageRoot(f"{tmp_path}/{name}", ("**/*.txt",)) for name in "abc")
    one, two = f"{tmp_path}/a/1.txt", f"{tmp_path}/a/deep/2.txt"
    where, fault = f"{tmp_path}/c/pipe.txt", "a socket, pipe or device, not a file"
    pipe = DeadLetter("list", "pipe.txt", where, "not_a_file", fault)
    assert_read(
        FileLabels(Reader(), folders=folders),
        [row(one, 1, "1"), row(two, 1, "2")],
        [bad(two, 2), pipe],
        Tally(label_rows=4, orphan_rows=2, **counted(bad(two, 2), pipe)),
    )


def test_a_folder_that_cannot_be_listed_refuses_the_run(tmp_path: Path) -> None:
    """Its images would be unlabelled, and nobody would know why."""
    folder = f"{tmp_path}/gone"
    said = (
        f"{folder} cannot be listed (No such file or directory), so its images would be missed; "
        "make it readable or move it out of the images' folder"
    )
    assert_read(
        FileLabels(Reader(), folders=(ImageRoot(folder),)),
        [],
        [],
        Tally(refusals=[Refusal("ListingError", said)]),
    )


class Masks:
    """A file is the mask of the image of its name."""

    def row(self, file: ImageRef) -> LabelRow:
        return LabelRow(file.key[:-4], ((file.uri, file.size, 0),), "", file.uri, 0)


def test_listed_files_are_rows(tmp_path: Path) -> None:
    """None is opened; a pipe is a row without an image, and other files do not count."""
    write_files(str(tmp_path), {"a.png": "xx", "b/c.png": "", "notes.txt": ""})
    os.mkfifo(tmp_path / "d.png")
    pipe = DeadLetter(
        stage="list",
        key="d.png",
        uri=f"{tmp_path}/d.png",
        reason="not_a_file",
        message="a socket, pipe or device, not a file",
    )
    rows = [
        LabelRow(key[:-4], ((f"{tmp_path}/{key}", size, 0),), "", f"{tmp_path}/{key}", 0)
        for key, size in (("a.png", 2), ("b/c.png", 0))
    ]
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        labels = ListedLabels(Masks(), (ImageRoot(str(tmp_path)),))
        found: Any = pipeline | ReadLabelFiles(labels=labels)
        assert_items(found["rows"], rows, "rows")
        assert_items(found[DEAD_LETTERS], [pipe], "dead letters")
        assert_total(found[TALLY], Tally(label_rows=3, orphan_rows=1, **counted(pipe)))


SPLITS = SplitAssigner(None, 0)


def sample(uri: str, number: int) -> SampleRef:
    return SampleRef(
        key=f"{uri}/{number}",
        uri=uri,
        size=10,
        split="test" if uri == "/b" else "train",
        labels=("cat" if number % 2 else "dog",),
        offset=10 * number,
    )


def bad_sample(uri: str) -> DeadLetter:
    return DeadLetter("labels", f"{uri}/bad_sample", uri, "bad_label_value", "label 11", uri)


class ContainerReader:
    """Containers of three samples, the second of which has no good label; `/broken` ends after one."""

    def read(self, uri: str, unpack_to: str) -> Iterator[SampleRef | DeadLetter]:
        assert unpack_to == "/unpacked"
        yield sample(uri, 0)
        if uri == "/broken":
            raise ContainerError(f"{uri} is cut short")
        yield bad_sample(uri)
        yield sample(uri, 1)


def read(
    *uris: str, splits: SplitAssigner = SPLITS, columns: Sequence[Column] = CLASS_FOLDER_COLUMNS
) -> beam.PTransform:
    labels = ContainerLabels(ContainerReader(), uris)
    return read_containers(labels, "/unpacked", Labelling(splits, columns))


def test_a_broken_container_refuses_the_run() -> None:
    """The reason travels with the counts; what came before the break is counted, too."""
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        found = pipeline | read("/broken", columns=())
        assert_items(found["samples"], [sample("/broken", 0)], "samples")
        assert_items(found[DEAD_LETTERS], [], "dead letters")
        expected = Tally(
            listed=1,
            samples=Counter({"train": 1}),
            sample_bytes=Counter({"train": 10}),
            refusals=[Refusal("ContainerError", "/broken is cut short")],
        )
        assert_total(found[TALLY], expected)
