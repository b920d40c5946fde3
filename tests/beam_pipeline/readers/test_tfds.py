"""TensorFlow Datasets reads what a conversion wrote: the real library, from the folder alone."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beam_pipeline.core.report.metadata import tfds_files
from beam_pipeline.dataset import read_manifest
from tests.beam_pipeline.readers.by_hand import feature, write_by_hand
from tests.harness import convert, documented, run_shell
from tests.layouts.make_segmentation import grey
from tests.pictures import picture, write_files, write_pictures

pytestmark = pytest.mark.tfds


@pytest.fixture(scope="module")
def tfds() -> Any:
    """TensorFlow Datasets, where it is installed."""
    return pytest.importorskip(
        "tensorflow_datasets",
        reason="needs TensorFlow Datasets: pip install tensorflow-datasets",
    )


def _convert(folder: Path, *argv: str) -> Path:
    return _convert_to(str(folder / "out"), *argv)


def _convert_to(out: str, *argv: str) -> Path:
    assert convert(*argv, "--output", out) == 0
    return Path(out)


def _read(tfds: Any, folder: Path, split: str, **options: Any) -> list[dict[str, Any]]:
    builder = tfds.builder_from_directory(str(folder))
    return list(builder.as_dataset(split=split, **options).as_numpy_iterator())


def _decoded(data: bytes) -> np.ndarray:
    import tensorflow as tf

    pixels: np.ndarray = tf.io.decode_image(data, channels=3, expand_animations=False).numpy()
    return pixels


def test_class_folders_with_splits(tfds: Any, tmp_path: Path) -> None:
    """Every example of every split is there with its pixels, its class and its name."""
    names = [f"{s}/{'ab'[i % 2]}/{i}.jpg" for s in ("train", "test") for i in range(9)]
    contents = write_pictures(str(tmp_path / "photos"), names)
    out = _convert(
        tmp_path, "--images", f"{tmp_path}/photos", "--num_shards", "3", "--name", "my.pets-2"
    )
    info = tfds.builder_from_directory(str(out)).info
    assert info.name == "my_pets_2"
    assert info.features["image/class/label"].names == ["a", "b"]
    assert info.supervised_keys == ("image/encoded", "image/class/label")
    for split in ("train", "test"):
        assert info.splits[split].num_examples == 9
        found = {e["image/source_id"].decode(): e for e in _read(tfds, out, split)}
        assert sorted(found) == [name for name in sorted(names) if name.startswith(split)]
        for name, example in found.items():
            assert example["image/class/label"] == "ab".index(name.split("/")[1])
            assert example["image/class/text"].decode() == name.split("/")[1]
            assert example["image/filename"].decode() == name
            np.testing.assert_array_equal(example["image/encoded"], _decoded(contents[name]))


def test_a_table_with_empty_cells(tfds: Any, tmp_path: Path) -> None:
    """What an example lacks is b"", the least int64 or the least float32."""
    write_pictures(str(tmp_path / "photos"), ["1.png", "2.png"])
    table = "filename,label,colour,size,weight,size/x\n1.png,cat,red,7,0.5,1\n2.png,dog,,,,2\n"
    write_files(str(tmp_path), {"labels.csv": table})
    out = _convert(tmp_path, "--images", f"{tmp_path}/photos", "--labels", f"{tmp_path}/labels.csv")
    found = {e["image/source_id"]: e for e in _read(tfds, out, "train")}
    keys = ("image/class/label", "label/colour", "label/size", "label/weight", "label/size/x")
    least = np.finfo(np.float32).min
    assert [found[b"1.png"][key] for key in keys] == [0, b"red", 7, 0.5, 1]
    assert [found[b"2.png"][key] for key in keys] == [1, b"", np.iinfo(np.int64).min, least, 2]


def test_a_pair_of_image_and_label(tfds: Any, tmp_path: Path) -> None:
    """`as_supervised` gives the image and the number to regress on."""
    write_pictures(str(tmp_path / "photos"), ["1.png"])
    write_files(str(tmp_path), {"labels.csv": "filename,label\n1.png,0.25\n"})
    out = _convert(tmp_path, "--images", f"{tmp_path}/photos", "--labels", f"{tmp_path}/labels.csv")
    ((image, label),) = _read(tfds, out, "train", as_supervised=True)
    assert image.shape == (7, 9, 3)
    assert label == 0.25


def _by_hand(folder: Path, features: Any, *shards: Any, split: str = "train") -> Path:
    """A data set of any features, with the files by which TensorFlow Datasets reads it."""
    classes = {0: "cat", 1: "a dog"}
    write_by_hand(folder, features, *shards, classes=classes, split=split)
    for name, content in tfds_files(read_manifest(str(folder))).items():
        (folder / name).write_bytes(content)
    return folder


def test_boxes_and_shards_without_examples(tfds: Any, tmp_path: Path) -> None:
    """Lists have as many values as an image has objects, or none; an empty shard does no harm."""
    sides = [f"image/object/bbox/{side}" for side in ("xmin", "ymin", "xmax", "ymax")]
    features = {
        "image/encoded": feature("bytes"),
        "image/object/class/label": feature("int64", None),
        "image/object/class/text": feature("bytes", None),
        **{side: feature("float", None) for side in sides},
    }
    two: dict[str, list[Any]] = {
        "image/encoded": [picture()],
        "image/object/class/label": [1, 0],
        "image/object/class/text": [b"a dog", b"cat"],
        **{side: [0.25, number / 8] for number, side in enumerate(sides)},
    }
    none: dict[str, list[Any]] = {**{key: [] for key in two}, "image/encoded": [picture(1)]}
    folder = _by_hand(tmp_path / "d", features, [two], [], [none])
    info = tfds.builder_from_directory(str(folder)).info
    assert info.features["image/object/class/label"].names == ["cat", "a dog"]
    with_two, with_none = _read(tfds, folder, "train")
    for key in [*sides, "image/object/class/label", "image/object/class/text"]:
        assert with_two[key].tolist() == two[key]
        assert with_none[key].tolist() == []


def test_what_may_be_missing_from_lists(tfds: Any, tmp_path: Path) -> None:
    """A list that is missing is empty; one of fixed length is full of the least number."""
    features = {
        "any": feature("int64", None, optional=True),
        "texts": feature("bytes", None, optional=True),
        "two": feature("float", 2, optional=True),
        "three": feature("int64", 3),
    }
    full: dict[str, list[Any]] = {
        "any": [5],
        "texts": [b"x", b""],
        "two": [0.5, 1],
        "three": [1, 2, 3],
    }
    folder = _by_hand(tmp_path / "d", features, [full, {"three": [4, 5, 6]}])
    first, second = _read(tfds, folder, "train")
    assert {key: value.tolist() for key, value in first.items()} == full
    least = float(np.finfo(np.float32).min)
    assert {key: value.tolist() for key, value in second.items()} == {
        "any": [],
        "texts": [],
        "two": [least, least],
        "three": [4, 5, 6],
    }


@pytest.mark.parametrize("split", ["1", "é", "train_2", "Test"])
def test_a_split_of_any_name_is_read(tfds: Any, tmp_path: Path, split: str) -> None:
    """What TFDS takes for a split's name it reads under that name."""
    folder = _by_hand(tmp_path / "d", {"x": feature("int64")}, [{"x": [3]}], split=split)
    assert _read(tfds, folder, split) == [{"x": 3}]


def test_the_documented_code_runs(
    tfds: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What docs/readers.md shows reads PNGs, and its way around reads a GIF and a WebP beside them."""
    first, _, second = documented("docs/readers.md", "python", "TensorFlow Datasets")
    monkeypatch.chdir(tmp_path)
    images = {"photos": ["a/1.png", "b/2.png", "c/3.png"], "others": ["a/1.gif", "b/2.webp"]}
    for folder, names in images.items():
        write_pictures(folder, names)
    _convert_to("out/shapes", "--images", "photos")
    capsys.readouterr()
    exec(first, {})
    head, *shapes = capsys.readouterr().out.splitlines()
    assert head == "3 ['a', 'b', 'c']"
    assert [shape[:9] for shape in shapes] == ["(7, 9, 3)", "(7, 9, 3)"]
    _convert_to("out/shapes", "--images", "others", "--overwrite")
    found: dict[str, Any] = {}
    exec(second, found)
    decoded = {int(label): image for image, label in found["train"].as_numpy_iterator()}
    for label, name in enumerate(images["others"]):
        np.testing.assert_array_equal(decoded[label], _decoded(Path("others", name).read_bytes()))


@pytest.mark.parametrize("bits", [8, 16])
def test_masks(tfds: Any, tmp_path: Path, bits: int) -> None:
    """Decoded to their ids, of the type that they have."""
    rows = [[0, 1, 255], [2, 2, 300 if bits == 16 else 3]]
    write_files(f"{tmp_path}/masks", {"a.png": grey(rows, bits)})
    write_files(f"{tmp_path}/images", {"a.png": picture(1, file_format="PNG", size=(3, 2))})
    out = _convert(tmp_path, "--images", f"{tmp_path}/images", "--masks", f"{tmp_path}/masks")
    (example,) = _read(tfds, out, "train")
    mask = example["image/segmentation/class/encoded"]
    assert (mask.dtype, mask[..., 0].tolist()) == (f"uint{bits}", rows)


def test_the_documented_random_access(tmp_path: Path) -> None:
    """The command and the code of docs/grain.md give an example of an ArrayRecord by its number."""
    pytest.importorskip("array_record")
    pytest.importorskip("tensorflow_datasets")
    (command,) = documented("docs/grain.md", "bash", "ArrayRecord")
    _, code = documented("docs/grain.md", "python", "ArrayRecord")
    run_shell("beam-tfrecord demo", tmp_path)
    run_shell(command, tmp_path)
    printed = run_shell(f"{sys.executable} - <<'END'\n{code}\nEND\n", tmp_path).stdout
    assert re.fullmatch(r"300 \(\d+, \d+, 3\) b?'?(circle|square|triangle)'?\n", printed)
