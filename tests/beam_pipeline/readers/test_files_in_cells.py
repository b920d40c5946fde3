"""Readers of files that cells name: pictures as pixels, other files as bytes."""

from __future__ import annotations

import io
import json
import re
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import beam_pipeline
from beam_pipeline import RandomAccess
from beam_pipeline.core.errors import UsageError
from tests.harness import NONE_BAD, convert, manifest_of, read_all, run_shell
from tests.pictures import write_files

RIGHT, DEPTH = "right", "depth"
TALK = '[{"from":"human","value":"é"}]'


def png(array: Any) -> bytes:
    out = io.BytesIO()
    Image.fromarray(array).save(out, "PNG")
    return out.getvalue()


def pixels(number: int) -> Any:
    return np.random.default_rng(number).integers(0, 256, (8, 12, 3), np.uint8)


def depths(number: int) -> Any:
    return np.random.default_rng(number).integers(0, 1 << 16, (8, 12), np.uint16)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three images with files; the last row lacks them."""
    folder = tmp_path_factory.mktemp("source")
    rows = [
        {
            "image": f"{i}.png",
            "right": f"r{i}.png" if i < 2 else None,
            "depth": f"d{i}.png" if i < 2 else None,
            "views": [f"r{j}.png" for j in range(i)],
            "raw": "raw.npy",
            "talk": json.loads(TALK),
        }
        for i in range(3)
    ]
    write_files(
        str(folder),
        {
            **{f"d/{i}.png": png(pixels(i)) for i in range(3)},
            **{f"d/r{i}.png": png(pixels(9 + i)) for i in range(2)},
            **{f"d/d{i}.png": png(depths(i)) for i in range(2)},
            "d/raw.npy": b"\x93NUMPY\0\xff",
            "t.jsonl": "".join(json.dumps(row) + "\n" for row in rows),
        },
    )
    return folder


def converted(source: Path, out: str, *options: str) -> Path:
    given = (
        "--images",
        f"{source}/d",
        "--labels",
        f"{source}/t.jsonl",
        "--output",
        f"{source}/{out}",
    )
    columns = ("--file_columns", "right,depth,views,raw", "--columns", "talk:json")
    assert convert(*given, *columns, "--label_column", "none", NONE_BAD, *options) == 0
    return source / out


@pytest.fixture(scope="module")
def out(source: Path) -> Path:
    return converted(source, "out")


def by_name(samples: Any) -> dict[str, dict[str, Any]]:
    return {bytes(sample["image/source_id"]).decode(): sample for sample in samples}


@pytest.mark.parametrize("size", [None, (4, 6)])
def test_pictures_are_pixels_for_tensorflow_and_for_numpy(out: Path, size: Any) -> None:
    """As "right" instead of right/encoded; uint16 exact, missing ones black; lists stay encoded."""
    loaded = beam_pipeline.load(str(out), as_dict=True, shuffle=False, image_size=size)
    tf_samples = by_name(loaded.as_numpy_iterator())
    samples = by_name(RandomAccess(str(out), decode=True, image_size=size, exact=True))
    assert samples.keys() == tf_samples.keys() == {"0.png", "1.png", "2.png"}
    for key, sample in samples.items():
        number, tensors = int(key[0]), tf_samples[key]
        assert sample.keys() == tensors.keys()
        assert not {"right/encoded", "depth/encoded", "image/encoded"} & sample.keys()
        assert sample["views/encoded"] == list(tensors["views/encoded"])
        assert sample["raw/encoded"] == tensors["raw/encoded"] == b"\x93NUMPY\0\xff"
        assert sample["label/talk"] == TALK.encode()
        deep, right = (depths(number), pixels(9 + number)) if number < 2 else (None, None)
        shape = size or (8, 12)
        expected = (
            np.zeros(shape, np.uint16) if deep is None else deep[1::2, 1::2] if size else deep
        )
        for depth in (sample["depth"], tensors["depth"]):
            assert (depth.dtype, depth.shape) == (np.uint16, (*shape, 1))
            assert np.array_equal(depth[..., 0], expected)
        assert sample["right"].shape == tensors["right"].shape == (*shape, 3)
        if right is None:
            assert not sample["right"].any()
            assert not tensors["right"].any()
        elif not size:
            assert np.array_equal(sample["right"], right)
            assert np.array_equal(tensors["right"], right)


def test_features_are_chosen_by_their_names(out: Path) -> None:
    """Of a picture, the pixels' or the encoded one's; random crops would not fit it."""
    loaded = beam_pipeline.load(str(out), as_dict=True, features=["image", "right"], batch_size=3)
    (batch,) = loaded.as_numpy_iterator()
    assert {name: values.shape for name, values in batch.items()} == {
        "image": (3, 8, 12, 3),
        "right": (3, 8, 12, 3),
    }
    some = RandomAccess(str(out), features=["depth/encoded"], decode=True)[0]
    assert list(some) == ["depth"]
    assert set(RandomAccess(str(out), features=["depth/encoded"])[0]) == {"depth/encoded"}
    with pytest.raises(UsageError, match="further pictures"):
        beam_pipeline.load(str(out), as_dict=True, image_size=4, random_crop=(0.1, 1))


def test_webdataset_has_a_file_for_each(source: Path, out: Path) -> None:
    """Their names are key.right.png, key.views.0.png and key.talk.json; nothing of the example is lost."""
    tar = converted(source, "tar", "--format", "webdataset")
    (shard,) = tar.glob("*.tar")
    with tarfile.open(shard) as archive:
        files = {member.name: archive.extractfile(member) for member in archive}
        contents = {name: file.read() for name, file in files.items() if file}
    assert {name for name in contents if name.startswith("1.")} == {
        *("1.png", "1.right.png", "1.depth.png", "1.views.0.png", "1.raw.bin", "1.talk.json"),
        "1.json",
    }
    assert contents["1.right.png"] == png(pixels(10))
    assert contents["2.views.1.png"] == png(pixels(10))
    assert contents["0.talk.json"] == TALK.encode()
    assert json.loads(contents["2.json"])["views/encoded"] == [
        {"file": "views.0.png"},
        {"file": "views.1.png"},
    ]
    records = by_name(beam_pipeline.load(str(tar), as_dict=True).as_numpy_iterator())
    for key, sample in by_name(
        beam_pipeline.load(str(out), as_dict=True).as_numpy_iterator()
    ).items():
        for name, value in sample.items():
            assert np.array_equal(records[key][name], value), (key, name)


def test_the_files_beside_the_shards_describe_them(out: Path) -> None:
    """The manifest, TFX's schema, TensorFlow Datasets' features, Croissant, the report and `inspect`."""
    described = {key: value.get("content") for key, value in manifest_of(out)["features"].items()}
    assert {key: content for key, content in described.items() if content} == {
        "right/encoded": "picture",
        "depth/encoded": "picture16",
        "views/encoded": "picture",
        "label/talk": "json",
    }
    schema = (out / "schema.pbtxt").read_text()
    images = re.findall(r'name: "([^"]+)"(?:(?!feature \{)[\s\S])*?image_domain', schema)
    assert images == ["depth/encoded", "image/encoded", "right/encoded", "views/encoded"]
    (rows,) = (
        r
        for r in json.loads((out / "croissant.json").read_bytes())["recordSet"]
        if r["@id"] == "features"
    )
    contents = {row["features/key"]: row["features/content"] for row in rows["data"]}
    assert contents["right/encoded"] == "column right"
    assert (out / "report.html").read_text().count('alt="Image beside ') == 7
    said = run_shell("beam-tfrecord inspect out", out.parent).stdout
    assert re.search(r"right/encoded +\d+ bytes \(png\)", said)


@pytest.mark.tfds
def test_tensorflow_datasets_reads_them(out: Path) -> None:
    """Optional pictures as bytes, none for a missing one."""
    tfds = pytest.importorskip("tensorflow_datasets", reason="needs TensorFlow Datasets")
    builder = tfds.builder_from_directory(str(out))
    examples = by_name(builder.as_dataset(split="train").as_numpy_iterator())
    stored = read_all(out)
    for key, example in examples.items():
        assert example["views/encoded"].tolist() == stored[key]["views/encoded"]
        assert [example["right/encoded"]] == stored[key].get("right/encoded", [b""])
