"""Captions beside images, from the files to the examples."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.cli import main
from beam_pipeline.core.errors import UsageError
from beam_pipeline.layouts.caption_files import CaptionFiles
from beam_pipeline.layouts.layout import FileLabels, Source, SourceOptions
from beam_pipeline.layouts.opening import open_source
from tests.archives import make_tar
from tests.harness import (
    ALL_BAD,
    NONE_BAD,
    assert_the_same_bytes_everywhere,
    convert,
    convert_asking,
    digests,
    manifest_of,
    read_all,
    reasons_of,
    split_of_each,
)
from tests.layouts import bucket, make_coco, make_kitti, make_voc, make_yolo
from tests.layouts.make_caption_files import DOGS, LAION, fields_of, make, with_captions
from tests.pictures import write_files, write_pictures

KITTI = "Car 0.00 0 1.85 387.63 181.54 423.81 203.12 1.67 1.87 3.69 -16.53 2.39 58.49 1.57\n"


def layout_of(*images: str, **options: Any) -> str:
    """The layout that is chosen without --layout."""
    return open_source("auto", SourceOptions(images, **options))[0].layout


def opened(*images: str, **options: Any) -> Source:
    """The source of some folders."""
    return CaptionFiles().open(SourceOptions(images, **options))


def captions_in(folder: Any) -> dict[str, list[bytes]]:
    """Key -> caption of every example."""
    return {key: features.get("label/caption", []) for key, features in read_all(folder).items()}


def test_a_folder_as_trainers_keep_it(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Recognised; the captions are texts, and folders mean nothing."""
    make(".")
    write_files("dogs", {"README.txt": "My dogs.", "10_dog/note.jpg": "", "10_dog/note.txt": ""})
    Path("dogs/10_dog/note.jpg").unlink()
    assert convert("--images", "dogs", "--output", "out", "--max_bad_fraction=0.1") == 0
    out = capsys.readouterr().out
    assert (
        "Layout caption_files: a caption beside each image, such as dogs/10_dog/0000.txt\n"
        "  label: none; also caption (texts)\n" in out
    )
    assert "names of folders, such as 10_dog, are neither classes nor repeats" in out
    assert captions_in("out") == {key: [text.encode()] for key, text in DOGS.items()}
    assert reasons_of("out") == {f"{working_folder}/dogs/10_dog/note": "missing_image"}
    assert "classes" not in manifest_of("out") or manifest_of("out")["classes"] == []
    assert main(["verify", "out"]) == 0


@pytest.mark.slow
def test_the_output_of_img2dataset(working_folder: Path) -> None:
    """Fields of the objects become columns, typed by the data; statistics and tables are no rivals."""
    make(".")
    assert (
        convert("--images", "laion", "--output", "out", "--splits=train=0.8,test=0.2", NONE_BAD)
        == 0
    )
    examples = read_all("out")
    assert examples.keys() == LAION.keys()
    for key, features in examples.items():
        expected: dict[str, Any] = {
            f"label/{name}": [value.encode() if isinstance(value, str) else value]
            for name, value in fields_of(key).items()
            if value is not None
        }
        assert {name: features[name] for name in features if name.startswith("label/")} == expected
    assert set(split_of_each("out").values()) == {"train", "test"}


@pytest.mark.slow
def test_the_same_caption_as_from_an_archive(working_folder: Path) -> None:
    """A tar of the same files gives the same features."""
    captions = {"a.jpg": "a dog\r\n\r\nin two lines", "b.jpg": "ein Hündchen", "c.jpg": ""}
    files = with_captions(captions)
    write_files("photos", files)
    make_tar(Path("t.tar"), {k: v.encode() if isinstance(v, str) else v for k, v in files.items()})
    assert convert("--images", "photos", "--output", "folder", NONE_BAD) == 0
    assert convert("--images", "t.tar", "--output", "archive", NONE_BAD) == 0
    folder, archive = captions_in("folder"), captions_in("archive")
    assert folder == {key.removeprefix("t.tar/"): value for key, value in archive.items()}
    assert folder == {
        "a.jpg": [b"a dog\r\n\r\nin two lines"],
        "b.jpg": ["ein Hündchen".encode()],
        "c.jpg": [],
    }


FAULTS: Mapping[str, tuple[dict[str, bytes | str], dict[str, str]]] = {
    "no caption": ({"x.jpg": ""}, {"x.jpg": "unlabelled"}),
    "no image": ({"x.txt": "a"}, {"x": "missing_image"}),
    "an image elsewhere": (
        {"y/x.txt": "a", "z/x.jpg": ""},
        {"y/x": "missing_image", "z/x.jpg": "unlabelled"},
    ),
    "two images": (
        {"x.jpg": "", "x.png": "", "x.txt": "a"},
        {"x": "ambiguous_key", "x.jpg": "unlabelled", "x.png": "unlabelled"},
    ),
    "another encoding": ({"x.jpg": "", "x.txt": b"\xfc"}, {"x.jpg": "bad_label_value"}),
    "too long": ({"x.jpg": "", "x.txt": b"x" * (1 << 21)}, {"x.jpg": "bad_label_value"}),
    "broken JSON": (
        {"x.jpg": "", "x.txt": "a", "x.json": "{"},
        {"x.jpg": "bad_label_value"},
    ),
    "capitals": ({"X.JPG": "", "X.TXT": "a"}, {}),
    "dots": ({"x.1.jpg": "", "x.1.txt": "a", "x.2.jpg": "", "x.2.txt": "b"}, {}),
    "the image's whole name": ({"x.jpg": "", "x.jpg.txt": "a"}, {}),
    "empty": ({"x.jpg": "", "x.txt": ""}, {}),
    "notes": ({"README.txt": "a", "LICENSE.txt": "b", "labels.txt": "cat\ndog"}, {}),
}
"""Case -> files beside ten good images, and key -> reason of the dead letters."""


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_what_is_wrong_with_a_file(name: str, working_folder: Path) -> None:
    """It is left out with its reason, and all else is written."""
    files, reasons = FAULTS[name]
    write_files("d", with_captions({f"g{i}.jpg": f"good {i}" for i in range(10)}))
    write_files("d", {path: content for path, content in files.items() if content})
    images = [path for path in files if path.lower().endswith((".jpg", ".png"))]
    write_pictures("d", images)
    if not files.get("x.txt", "a"):
        write_files("d", {"x.txt": ""})
    argv = ["--images", "d", "--layout", "caption_files", "--output", "out", ALL_BAD]
    assert convert(*argv) == 0
    found = {key.removeprefix(f"{working_folder}/d/"): r for key, r in reasons_of("out").items()}
    assert found == reasons
    assert len(read_all("out")) == 10 + len([image for image in images if image not in reasons])


@pytest.mark.slow
def test_images_without_captions_may_be_kept(working_folder: Path) -> None:
    """Without the feature, and marked."""
    write_files("d", with_captions({f"{i}.jpg": f"caption {i}" for i in range(10)}))
    Path("d/3.txt").unlink()
    assert convert("--images", "d", "--output", "out", "--unlabelled", "keep", NONE_BAD) == 0
    marks = {key: features["image/labelled"] for key, features in read_all("out").items()}
    assert marks == {f"{i}.jpg": [int(i != 3)] for i in range(10)}
    assert captions_in("out")["3.jpg"] == []


def _captions_and(others: Mapping[str, str]) -> Callable[[], None]:
    """Makes images with captions, and other files beside their folder."""

    def write() -> None:
        write_files("d", with_captions({f"{i}.jpg": f"caption {i}" for i in range(4)}))
        write_files(".", others)

    return write


def _texts(*contents: str) -> Callable[[], None]:
    def write() -> None:
        write_pictures("d", [f"{i}.jpg" for i in range(len(contents))])
        write_files("d", {f"{i}.txt": text for i, text in enumerate(contents)})

    return write


@pytest.mark.parametrize(
    ("write", "layout"),
    [
        (_texts("a cat", "", "two\nlines"), "caption_files"),
        (_texts("0 0.5 0.5 0.25 0.25\n", "1 0.5 0.5 0.25 0.25\n"), "yolo"),
        (_texts("0 0.5 0.5 0.25 0.25\n", "a cat", "", ""), "class_folders"),
        (_texts(KITTI, KITTI), "class_folders"),
        (_texts("3", "7", "1"), "class_folders"),
        (_texts("", ""), "class_folders"),
        (_captions_and({}), "caption_files"),
        (
            _captions_and({"d/LICENSE.txt": "x", "d/meta_lat.json": '{"0": {"tags": "a"}}'}),
            "caption_files",
        ),
        (
            _captions_and({"d/00000_stats.json": "{}", "train.csv": "file,label\nx.jpg,a\n"}),
            "caption_files",
        ),
        (_captions_and({"d/labels.csv": "file,label\n0.jpg,a\n"}), "class_folders"),
        (_captions_and({"labels.csv": "file,label\n0.jpg,a\n"}), "class_folders"),
        (_captions_and({"d/0.xml": "<annotation></annotation>"}), "voc"),
        (_captions_and({"d/x.json": '{"images": []}'}), "class_folders"),
        (_captions_and({"labels/0.txt": "x"}), "class_folders"),
        (_captions_and({"d/masks/0.txt": "x"}), "class_folders"),
        (_captions_and({f"d/more/{i}.gif": "" for i in range(9)}), "class_folders"),
        (_captions_and({"d/metadata.csv": "file_name,text\n0.jpg,a\n"}), "imagefolder"),
        (_captions_and({"d/data.yaml": "names: [cat]\ntrain: ."}), "yolo"),
    ],
)
def test_captions_are_recognised_where_that_is_safe(
    write: Callable[[], None], layout: str, working_folder: Path
) -> None:
    """Not if the texts are labels of objects, or if other files may be the labels."""
    write()
    assert layout_of("d") == layout


@pytest.mark.parametrize(
    ("make_set", "images", "layout"),
    [
        (make_yolo.make, "coco6", "yolo"),
        (make_yolo.make, "coco6/images", "yolo"),
        (make_kitti.make, "kitti", "kitti"),
        (make_voc.make, "labelled", "voc"),
        (make_coco.make, "export", "coco"),
    ],
)
def test_other_data_sets_are_what_they_were(
    make_set: Callable[[str], None], images: str, layout: str, working_folder: Path
) -> None:
    """Their label files are no captions."""
    make_set(".")
    assert layout_of(images) == layout
    assert CaptionFiles().recognise(SourceOptions((images,))) == ""


def test_captions_in_a_folder_of_their_own(working_folder: Path) -> None:
    """Named with --labels; images are found by the path below it, or by name."""
    write_pictures("images", ["a/0.jpg", "1.jpg"])
    write_files("texts", {"a/0.txt": "zero", "1.txt": "one"})
    assert layout_of("images", labels=("texts",)) == "caption_files"
    labels = opened("images", labels=("texts",)).labels
    assert isinstance(labels, FileLabels)
    assert [folder.uri for folder in labels.folders] == [f"{working_folder}/texts"]
    assert pickle.loads(pickle.dumps(labels)) == labels
    assert convert("--images=images", "--labels=texts", "--output", "out", NONE_BAD) == 0
    assert captions_in("out") == {"a/0.jpg": [b"zero"], "1.jpg": [b"one"]}


def test_two_captions_of_an_image_are_a_question(working_folder: Path) -> None:
    """The pattern in it takes the others."""
    captions = {f"{i}.jpg": f"caption {i}" for i in range(3)}
    write_files("d", with_captions(captions, ".caption"))
    assert captions_in_rows(opened("d")) == ["**/*.[cC][aA][pP][tT][iI][oO][nN]"]
    write_files("d", with_captions(dict.fromkeys(captions, "1girl, solo")))
    (question,) = opened("d").questions
    pattern = f"{working_folder}/d/**/*.caption"
    assert question.answer == {"labels": (pattern,), "layout": "caption_files"}
    source = opened("d", labels=(pattern,))
    assert (captions_in_rows(source), source.questions) == (["**/*.caption"], ())
    assert convert_asking("--images", "d", "--output", "out") == 2


def captions_in_rows(source: Source) -> list[str]:
    """The patterns of the caption files."""
    assert isinstance(source.labels, FileLabels)
    return [pattern for folder in source.labels.folders for pattern in folder.patterns]


@pytest.mark.slow
def test_captions_in_a_bucket(working_folder: Path) -> None:
    """They are recognised as in a folder on this machine, and the shards are the same."""
    assert bucket.Bucket.scheme() == "bucket"
    make(".")
    uri = f"bucket://{working_folder}/laion"
    argv = ["--name", "d", "--writers=0", NONE_BAD]
    assert convert("--images", uri, "--output", "remote", *argv) == 0
    assert convert("--images", "laion", "--output", "local", *argv) == 0
    shards = {name: digest for name, digest in digests("local").items() if "tfrecord" in name}
    assert shards.items() <= digests("remote").items()


@pytest.mark.parametrize(
    ("images", "options", "message"),
    [
        ("plain", {}, "no captions in /"),
        ("a.tar", {}, "captions in archives are read with --layout webdataset"),
        ("nowhere", {}, "--images nowhere: no such file or folder"),
        ("d", {"labels": ("nowhere",)}, "--labels nowhere: no such file or folder"),
        ("d", {"label_column": "breed"}, "no column 'breed' (--label_column)"),
    ],
)
def test_what_cannot_be_used_is_an_error(
    images: str, options: dict[str, Any], message: str, working_folder: Path
) -> None:
    """Before the job starts."""
    write_pictures("plain", ["0.jpg"])
    make_tar(Path("a.tar"), {"0.txt": b"x"})
    write_files("d", with_captions({"0.jpg": "x"}))
    with pytest.raises(UsageError) as caught:
        opened(images, **options)
    assert message in str(caught.value)


@pytest.mark.slow
def test_a_changed_caption_writes_its_shard_anew(working_folder: Path) -> None:
    """With --reuse into another folder; --resume refuses, as the samples have changed."""
    make(".")
    argv = ["--images", "dogs", "--name", "d", "--num_shards", "2", NONE_BAD]
    assert convert(*argv, "--output", "out") == 0
    before = digests("out")
    assert convert(*argv, "--output", "out", "--resume") == 0
    assert digests("out") == before
    write_files("dogs", {"10_dog/0003.txt": "another dog"})
    assert convert(*argv, "--output", "out", "--resume") == 1
    assert convert(*argv, "--output", "again", "--reuse", "out") == 0
    shards = [name for name in before if "tfrecord" in name]
    assert sum(digests("again")[name] != before[name] for name in shards) == 1
    assert captions_in("again")["10_dog/0003.png"] == [b"another dog"]


@pytest.mark.slow
def test_the_same_bytes_everywhere(working_folder: Path) -> None:
    """However many threads and processes read and write."""
    make(".")
    assert_the_same_bytes_everywhere("--images", "laion", "--name=x", "--num_shards=3")
