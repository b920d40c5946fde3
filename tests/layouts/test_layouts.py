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
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.images.preparation import PixelFormat
from beam_pipeline.core.labels import classes, schema
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.references import LabelRow, SampleRef
from beam_pipeline.layouts.layout import (
    ContainerLabels,
    FileLabels,
    FolderLabels,
    Labels,
    Source,
    SourceOptions,
)
from beam_pipeline.layouts.registry import LAYOUTS, all_layouts, layout_named
from tests.conformance.pages import MAKERS
from tests.conformance.trees import images, texts
from tests.harness import ALL_BAD, assert_the_same_bytes_everywhere, convert, digests, manifest_of
from tests.layouts import bucket, make_boxes, make_voc, proofs
from tests.pictures import write_files


class Reader:
    """Reads a file as one row that names an image as the file does."""

    def read(self, file: BinaryIO, uri: str) -> Iterator[LabelRow | DeadLetter]:
        yield LabelRow(file.read().decode(), (), "", uri, 1)


class Unpacker:
    """Reads a container as one sample."""

    def read(self, uri: str, unpack_to: str) -> Iterator[SampleRef | DeadLetter]:
        yield SampleRef("1", unpack_to, 1, "train", (), origin=uri)


ROOTS = (ImageRoot("/photos"), ImageRoot("gs://pets"))


@pytest.mark.parametrize(
    ("labels", "uris"),
    [
        (FolderLabels(), ()),
        (FileLabels(Reader(), files=("/a.csv", "/b.csv")), ("/a.csv", "/b.csv")),
        (FileLabels(Reader(), folders=(ImageRoot("/labels", ("*.txt",)),)), ("/labels",)),
        (ContainerLabels(Unpacker(), ("/batch_1",)), ("/batch_1",)),
    ],
)
def test_a_source_names_all_that_is_read(labels: Labels, uris: tuple[str, ...]) -> None:
    """Roots of images, and files or folders of labels or containers."""
    source = Source("x", ROOTS, labels, LabelledImages(schema.CLASS_FOLDER_COLUMNS))
    assert source.uris == ("/photos", "gs://pets", *uris)


def test_a_source_has_the_columns_and_pixels_of_its_examples() -> None:
    """They are told to the rest of the job by the source alone."""
    source = Source(
        "x", (), FolderLabels(), LabelledImages(schema.CLASS_FOLDER_COLUMNS, PixelFormat(8, 9))
    )
    assert (source.columns, source.pixels) == (schema.CLASS_FOLDER_COLUMNS, PixelFormat(8, 9))
    assert Source("x", (), FolderLabels(), LabelledImages(())).pixels is None
    assert (source.notes, source.questions, source.numbering) == ((), (), classes.ClassNumbering())


@pytest.mark.parametrize("named", [{}, {"files": ("/a",), "folders": ROOTS}])
def test_label_files_come_by_name_or_by_folder(named: dict[str, tuple[str, ...]]) -> None:
    """Neither or both is a mistake of the layout."""
    with pytest.raises(AssertionError, match="label files come by name or by folder"):
        FileLabels(Reader(), **named)


def test_classes_are_numbered_as_asked_for_or_as_the_layout_has_it() -> None:
    """The layout's own first id counts where the person said none."""
    for order in ("code_point", "numeric"):
        options = SourceOptions((), label_order=order)
        assert options.numbering() == classes.ClassNumbering(0, order)
        assert options.numbering(base=1) == classes.ClassNumbering(1, order)
    asked = SourceOptions((), label_base=0, label_order="numeric")
    assert asked.numbering(base=1) == classes.ClassNumbering(0, "numeric")
    assert SourceOptions((), class_ids="keep").numbering().from_name


def test_ids_from_names_have_no_first_one() -> None:
    """Both options together are an error."""
    options = SourceOptions((), class_ids="keep", label_base=0)
    with pytest.raises(UsageError, match=r"^--label_base means nothing with --class_ids keep"):
        options.numbering()


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

OWN_SETS = ("automl", "coco", "imagefolder", "kitti", "parquet", "voc", "yolo")
BATCHES = "{data_batch_1,data_batch_2,data_batch_3,data_batch_4,data_batch_5,test_batch}"
TREE = {
    **texts(
        "", f"cifar/cifar-10-batches-py/{BATCHES}", f"cifar/cifar-10-batches-bin/{BATCHES}.bin"
    ),
    **texts("", "cifar/cifar-100-python/{train,test}", "cifar/cifar-100-binary/{train,test}.bin"),
    **texts("", "cifar/{cifar-10-python,cifar-100-binary}.tar.gz", "one/train", "x.tar.gz"),
    **images("splits/{train,test}/cat/1.jpg", "lonely/{JPEGImages,image_2}/a.jpg"),
    **images("{cvat/images,beside,classes/cat,empty/images,words/images,cars/images}/a.jpg"),
    "cvat/annotations/annotations.xml": '<?xml version="1.0"?>\n<annotations></annotations>',
    "beside/a.xml": "<album/>",
    "classes/cat/a.xml": make_voc.CAT,
    "good/a.xml": make_voc.CAT,
    "tables/labels.csv": "filename,label\na.jpg,cat\n",
    "numbers/a.txt": "0 0.5 0.5 0.1 0.1\n",
    "scores/a.txt": f"{make_boxes.CAR} 0.9\n",
    "blank/a.txt": "",
    "named/label_2/a.txt": "Car",
    "empty/labels/a.txt": "",
    "words/labels/a.txt": "a cat on a mat, 2 years old",
    "cars/labels/a.txt": make_boxes.CAR,
    "splits/data.yaml": "train: x",
}

RECOGNISED = {
    "cifar": "cifar10: data_batch_1 and data_batch_2 in cifar/cifar-10-batches-py",
    "cifar/cifar-10-batches-py": "cifar10: data_batch_1 and data_batch_2 in cifar/cifar-10-batches-py",
    "cifar/cifar-10-batches-bin": "cifar10: data_batch_1.bin and data_batch_2.bin in cifar/cifar-10-batches-bin",
    "cifar/cifar-100-python": "cifar100: train and test in cifar/cifar-100-python",
    "cifar/cifar-100-binary/": "cifar100: train.bin and test.bin in cifar/cifar-100-binary",
    "cifar/cifar-10-python.tar.gz": "cifar10: named cifar-10-python.tar.gz",
    "cifar/cifar-100-binary.tar.gz": "cifar100: named cifar-100-binary.tar.gz",
    "gs://no-bucket/cifar-10-batches-py": "cifar10: named cifar-10-batches-py",
    "gs://no-bucket/cifar-100-python.tar.gz": "cifar100: named cifar-100-python.tar.gz",
    "splits": "",
    "one": "",
    "VOCdevkit/VOC2007": "voc: JPEGImages/ beside Annotations/ in VOCdevkit/VOC2007",
    "VOCdevkit/VOC2012/JPEGImages/": "voc: JPEGImages/ beside Annotations/ in VOCdevkit/VOC2012",
    "VOCdevkit": "voc: JPEGImages/ beside Annotations/ in VOCdevkit/VOC2007, VOCdevkit/VOC2012",
    "VOCdevkit/VOC2007 VOCdevkit/VOC2012": "voc: JPEGImages/ beside Annotations/ in VOCdevkit/VOC2007; JPEGImages/ beside Annotations/ in VOCdevkit/VOC2012",
    "VOCdevkit/VOC2007 --labels VOCdevkit/VOC2007/Annotations": "voc: .xml files of Pascal VOC in VOCdevkit/VOC2007/Annotations",
    "labelled": "voc: images/ beside annotations/ in labelled",
    "labelled/images": "voc: images/ beside annotations/ in labelled",
    "labelled/images/*.jpg --labels labelled/annotations": "voc: .xml files of Pascal VOC in labelled/annotations",
    "cvat": "",
    "cvat/images": "",
    "beside": "",
    "lonely": "",
    "classes": "",
    "classes --labels good": "voc: .xml files of Pascal VOC in good",
    "classes --labels tables/labels.csv": "table: label files are given",
    "classes --labels cvat/annotations": "table: label files are given",
    "classes --labels good tables/labels.csv": "table: label files are given",
    "kitti": "kitti: image_2/ beside label_2/ in kitti/training",
    "kitti/training/": "kitti: image_2/ beside label_2/ in kitti/training",
    "kitti/training/image_2": "kitti: image_2/ beside label_2/ in kitti/training",
    "kitti/training/image_2 --labels kitti/training/label_2": "kitti: .txt files of KITTI in kitti/training/label_2",
    "kitti --labels kitti": "kitti: .txt files of KITTI in kitti/training/label_2",
    "kitti/training/image_2/*.png --labels kitti/training": "kitti: .txt files of KITTI in kitti/training/label_2",
    "lonely --labels named": "kitti: .txt files of KITTI in named/label_2",
    "lonely --labels numbers": "yolo: label files of YOLO in numbers",
    "lonely --labels scores": "table: label files are given",
    "lonely --labels blank": "table: label files are given",
    "coco": "coco: annotations/instances_train2017.json, annotations/instances_val2017.json in coco",
    "export": "coco: test/_annotations.coco.json, train/_annotations.coco.json, valid/_annotations.coco.json in export",
    "export/valid": "coco: _annotations.coco.json in export/valid",
    "coco/train2017 coco/val2017 --labels coco/annotations/instances_train2017.json coco/annotations/instances_val2017.json": "coco: COCO's JSON in coco/annotations/instances_train2017.json, coco/annotations/instances_val2017.json",
    "coco/train2017 --labels coco/annotations/instances_*.json": "coco: COCO's JSON in coco/annotations/instances_*.json",
    "coco/train2017 --labels coco/annotations": "coco: COCO's JSON in coco/annotations/instances_train2017.json, coco/annotations/instances_val2017.json",
    "gs://b/val2017 --labels gs://b/annotations/instances_val2017.json": "coco: COCO's JSON in gs://b/annotations/instances_val2017.json",
    "gs://b/val2017 --labels s3://b/train/_annotations.coco.json": "coco: COCO's JSON in s3://b/train/_annotations.coco.json",
    "coco/train2017 coco/val2017": "",
    "coco --labels coco/annotations/instances_val2017.json tables/labels.csv": "table: label files are given",
    "panoptic/train2017 --labels panoptic/annotations/panoptic_train2017.json": "coco_panoptic: COCO's panoptic JSON in panoptic/annotations/panoptic_train2017.json",
    "inat --labels inat/val.json": "coco: COCO's JSON in inat/val.json",
    "coco6": "yolo: data.yaml in coco6",
    "coco6/data.yaml": "yolo: data.yaml describes a data set of YOLO",
    "coco6/images/train": "yolo: label files of YOLO in coco6/labels/train, for the images in coco6/images/train",
    "empty": "",
    "words": "",
    "cars": "",
    "cppe": "imagefolder: train/metadata.jsonl in cppe names images in its column file_name",
    "pets": "imagefolder: metadata.csv in pets names images in its column file_name",
    "captions": "imagefolder: train/metadata.jsonl in captions names images in its column file_name",
    "hf": "parquet: data/test-00000-of-00001.parquet contains images in its column image",
    "hf/data/*.parquet": "parquet: train-00001-of-00002.parquet contains images in its column image",
    "plain.parquet": "parquet: plain.parquet contains images in its column jpg",
    "my-project-vcm --labels flowers.csv": "automl: AutoML's CSV in flowers.csv",
    "my-project-vcm --labels tables/labels.csv": "table: label files are given",
}
"""Value of --images, perhaps with --labels -> the layout and its reason; "" if only class_folders is left."""


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data sets of some layouts, and folders that are like them."""
    folder = tmp_path_factory.mktemp("sets")
    for name in OWN_SETS:
        MAKERS[name](str(folder))
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


ODD_PATHS = ("", " ", "nowhere", "*", "photos/1.jpg", "photos/1.csv")


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
