"""What all layouts share: sources, options, the registry, recognition, buckets, and the same bytes everywhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.references import LabelRow
from beam_pipeline.layouts.layout import (
    FileLabels,
    SourceOptions,
)
from beam_pipeline.layouts.registry import LAYOUTS, all_layouts, layout_named
from tests.conformance.trees import texts
from tests.harness import ALL_BAD, assert_the_same_bytes_everywhere, convert, digests, manifest_of
from tests.layouts import bucket, proofs
from tests.pictures import write_files


class Reader:
    """Reads a file as one row that names an image as the file does."""

    def read(self, file: BinaryIO, uri: str) -> Iterator[LabelRow | DeadLetter]:
        yield LabelRow(file.read().decode(), (), "", uri, 1)


ROOTS = (ImageRoot("/photos"), ImageRoot("gs://pets"))


@pytest.mark.parametrize("named", [{}, {"files": ("/a",), "folders": ROOTS}])
def test_label_files_come_by_name_or_by_folder(named: dict[str, tuple[str, ...]]) -> None:
    """Neither or both is a mistake of the layout."""
    with pytest.raises(AssertionError, match="label files come by name or by folder"):
        FileLabels(Reader(), **named)


def test_the_registry_names_layouts_as_they_name_themselves() -> None:
    """Each entry leads to a layout of that name."""
    assert [layout.name for layout in all_layouts()] == list(LAYOUTS)


def test_the_names_of_layouts_import_none() -> None:
    """As `--help` needs them."""
    code = "import sys, beam_pipeline.options; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = {entry.partition(":")[0] for entry in LAYOUTS.values()}
    assert not modules & set(run.stdout.split())


# --- recognition ---------------------------------------------------------------------------------

BATCHES = "{data_batch_1,data_batch_2,data_batch_3,data_batch_4,data_batch_5,test_batch}"
TREE = {
    **texts("", f"cifar/cifar-10-batches-py/{BATCHES}", "cifar/cifar-100-python/{train,test}"),
    **texts("", "cifar/{cifar-10-python,cifar-100-binary}.tar.gz", "one/train", "x.tar.gz"),
}

RECOGNISED = {
    "cifar": "cifar10: data_batch_1 and data_batch_2 in cifar/cifar-10-batches-py",
    "cifar/cifar-10-batches-py": "cifar10: data_batch_1 and data_batch_2 in cifar/cifar-10-batches-py",
    "cifar/cifar-100-python": "cifar100: train and test in cifar/cifar-100-python",
    "cifar/cifar-10-python.tar.gz": "cifar10: named cifar-10-python.tar.gz",
    "cifar/cifar-100-binary.tar.gz": "cifar100: named cifar-100-binary.tar.gz",
    "gs://no-bucket/cifar-10-batches-py": "cifar10: named cifar-10-batches-py",
    "gs://no-bucket/cifar-100-python.tar.gz": "cifar100: named cifar-100-python.tar.gz",
    "one": "",
    "gs://b/val2017 --labels gs://b/annotations/instances_val2017.json": "coco: COCO's JSON in gs://b/annotations/instances_val2017.json",
    "gs://b/val2017 --labels s3://b/train/_annotations.coco.json": "coco: COCO's JSON in s3://b/train/_annotations.coco.json",
}
"""Value of --images, perhaps with --labels -> the layout and its reason; "" if only class_folders is left."""


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The names of CIFAR's files."""
    folder = tmp_path_factory.mktemp("sets")
    write_files(str(folder), TREE)
    return folder


def recognised(images: str, labels: str) -> str:
    """The first layout that takes some paths, and why."""
    options = SourceOptions(tuple(images.split()), tuple(labels.split()))
    for name in LAYOUTS:
        why = layout_named(name).recognise(options)
        if why and name != "class_folders":
            return f"{name}: {why}".replace(f"{os.getcwd()}/", "")
    return ""


@pytest.mark.parametrize("typed", RECOGNISED)
def test_layouts_are_recognised_by_names_and_beginnings_of_files(
    sets: Path, monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    """With the reason that is printed; paths in a bucket that is not there are told by their names."""
    monkeypatch.chdir(sets)
    images, _, labels = typed.partition(" --labels ")
    assert recognised(images, labels) == RECOGNISED[typed]


ODD_PATHS = ("nowhere", "*", "photos/1.jpg", "photos/1.csv")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_recognising_never_fails(working_folder: Path, layout: str) -> None:
    """Missing paths, files and buckets are for others to tell."""
    write_files("photos", {"1.jpg": b"x", "1.csv": b"\xff\0"})
    given = [SourceOptions((path,)) for path in ODD_PATHS]
    given += [SourceOptions(("photos",), (path,)) for path in ODD_PATHS]
    given.append(SourceOptions(("photos", "elsewhere")))
    taken = {bool(layout_named(layout).recognise(options)) for options in given}
    assert taken == {False} or layout in ("class_folders", "table")


NAMED_IN_BUCKETS = ("parquet",)
"""Those whose folder is not looked into there."""


@pytest.mark.slow
# its rows name a bucket
@pytest.mark.parametrize("layout", sorted(LAYOUTS.keys() - {"automl"}))
def test_a_data_set_in_a_bucket_is_that_of_a_folder(working_folder: Path, layout: str) -> None:
    """It is recognised there, and its shards have the same bytes."""
    argv = [*proofs.prepared(layout), "--name", "d", ALL_BAD]
    there = f"{bucket.Bucket.scheme()}://{working_folder}"
    remote = [f"{there}/{word}" if os.path.exists(word) else word for word in argv]
    given = ("--layout", layout) if layout in NAMED_IN_BUCKETS else ()
    assert convert(*argv, "--output", "local") == 0
    assert convert(*remote, *given, "--output", "remote") == 0
    assert manifest_of("remote")["options"]["layout"] == layout
    local, remote_digests = digests("local"), digests("remote")
    shards = [name for name in local if ".tfrecord-" in name]
    assert {name: remote_digests[name] for name in shards} == {name: local[name] for name in shards}


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["yolo", "parquet"])
def test_the_same_bytes_everywhere(working_folder: Path, layout: str) -> None:
    """In one thread, in three processes and in Beam's threads."""
    assert_the_same_bytes_everywhere(*proofs.prepared(layout), "--num_shards", "2", "--name", "d")
