"""Files from anybody: none makes a command open, change or print what is not theirs."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.cli import main
from beam_pipeline.core.errors import ConversionError
from beam_pipeline.dataset import Dataset, class_names
from beam_pipeline.readers import random_access
from tests.faults import watched
from tests.harness import ALL_BAD, convert, manifest_of
from tests.pictures import write_files, write_pictures

ELSEWHERE = [
    "../secret/x.jpg",
    "{secret}/x.jpg",
    "file://{secret}/x.jpg",
    "photos/../../secret/x.jpg",
]


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A folder beside the images, with an image in it."""
    write_pictures(f"{tmp_path}/secret", ["x.jpg", "y.jpg"])
    return tmp_path / "secret"


def _coco(name: str) -> str:
    images = [{"id": 1, "file_name": "a.jpg"}, {"id": 2, "file_name": name}]
    boxes = [{"id": i, "image_id": i, "category_id": 1, "bbox": [1, 1, 3, 3]} for i in (1, 2)]
    return json.dumps(
        {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "cat"}]}
    )


LABELS = {
    "l.csv": lambda name: f"filename,label\na.jpg,x\n{name},y\n",
    "l.jsonl": lambda name: "".join(
        json.dumps({"file_name": n, "label": n[:1]}) + "\n" for n in ("a.jpg", name)
    ),
    "photos/metadata.csv": lambda name: f"file_name,label\na.jpg,x\n{name},y\n",
    "automl.csv": lambda name: f"TRAIN,a.jpg,x\nTEST,{name},y\n",
    "coco.json": _coco,
}
"""Label file -> its text, with a row for a.jpg and one for another name."""


@pytest.mark.promise("hostile_labels")
@pytest.mark.parametrize(
    ("file", "name"),
    [(file, ELSEWHERE[i % len(ELSEWHERE)]) for i, file in enumerate(LABELS)]
    + [pytest.param("l.csv", name, marks=pytest.mark.slow) for name in ELSEWHERE[1:]],
)
def test_no_label_row_names_a_file_elsewhere(
    tmp_path: Path, secret: Path, file: str, name: str
) -> None:
    """The row becomes a dead letter, and the image beside the folder is never opened."""
    write_pictures(f"{tmp_path}/photos", ["a.jpg"])
    write_files(str(tmp_path), {file: LABELS[file](name.format(secret=secret))})
    argv = ["--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out", ALL_BAD]
    if not file.startswith("photos/"):
        argv += ["--labels", f"{tmp_path}/{file}"]
    with watched(secret) as watch:
        assert convert(*argv) == 0
    assert [call for call in watch.calls if "open" in call.function] == []
    assert manifest_of(tmp_path / "out")["counts"]["examples"] == 1
    assert manifest_of(tmp_path / "out")["dead_letters"] == {"missing_image": 1}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A complete data set."""
    write_pictures(f"{tmp_path}/photos", [f"{'ab'[i % 2]}/{i}.jpg" for i in range(4)])
    argv = ["--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out", "--name", "d"]
    assert convert(*argv, "--num_shards", "2") == 0
    return tmp_path / "out"


COMMANDS = ("verify", "index", "repair")


@pytest.mark.promise("hostile_manifest")
@pytest.mark.parametrize(
    "name", ["../secret/x.jpg", "{secret}/x.jpg", "a/../../secret/x.jpg", "file://{secret}/x.jpg"]
)
def test_no_manifest_names_a_file_elsewhere(
    out: Path, secret: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands and readers refuse the manifest, and open nothing of it."""
    manifest = manifest_of(out)
    manifest["splits"]["train"]["shards"][0]["path"] = name.format(secret=secret)
    (out / "manifest.json").write_text(json.dumps(manifest))
    photos, copy = ["--images", f"{out.parent}/photos"], f"{out.parent}/copy"
    reuse = ["convert", *photos, "--output", copy, "--yes", "--reuse", str(out)]
    for argv in (
        *([command, str(out)] for command in COMMANDS),
        ["inspect", str(out)],
        ["inspect", str(out), "--key", "a/0.jpg"],
        ["diff", str(out), str(out)],
        reuse,
    ):
        with watched(secret) as watch:
            assert main(argv) == (2 if argv is reuse else 1)
        assert watch.calls == []
        assert "expected the name of a file in its own folder" in capsys.readouterr().err
    readers: Sequence[Callable[[Path], object]] = (random_access.RandomAccess, class_names)
    for read in (Dataset.open, *readers):
        with watched(secret) as watch, pytest.raises(ConversionError, match="its own folder"):
            read(out)
        assert watch.calls == []


Receipt = dict[str, Any]


def _of_another_shard(receipt: Receipt, secret: Path) -> None:
    receipt["spec"][3] = receipt["info"][2] = f"{secret}/x.jpg"


def _of_a_shard_elsewhere(receipt: Receipt, secret: Path) -> None:
    receipt["spec"][3] = receipt["info"][2] = f"../secret/{receipt['spec'][3]}"


def _without_bytes(receipt: Receipt, _: Path) -> None:
    """As long as a pipe."""
    receipt["info"][4:6] = [0, 0]
    receipt["record_sizes"] = []


def _of_records_elsewhere(receipt: Receipt, _: Path) -> None:
    sizes = receipt["record_sizes"]
    receipt["record_sizes"] = [sizes[0] + (1 << 40), sizes[1] - (1 << 40), *sizes[2:]]


def _of_endless_records(receipt: Receipt, _: Path) -> None:
    receipt["record_sizes"] = [1 << 63] * len(receipt["record_sizes"])


HOSTILE_RECEIPTS: Sequence[Callable[[Receipt, Path], None]] = (
    _of_another_shard,
    _of_a_shard_elsewhere,
    _without_bytes,
    _of_records_elsewhere,
    _of_endless_records,
)


def _spoil(out: Path, secret: Path, spoil: Callable[[Receipt, Path], None]) -> None:
    """Changes the last shard's receipt, of several samples; it is the newest file, as one that was just written."""
    receipts = out / ".receipts"
    name = max(os.listdir(receipts))
    receipt = json.loads(gzip.decompress((receipts / name).read_bytes()))
    spoil(receipt, secret)
    (receipts / name).write_bytes(gzip.compress(json.dumps(receipt).encode()))


@pytest.mark.promise("hostile_manifest")
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "kind", ["pipe", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("file", "link"))]
)
@pytest.mark.parametrize("spoil", HOSTILE_RECEIPTS)
def test_no_receipt_brings_a_file_elsewhere_into_a_data_set(
    out: Path, tmp_path: Path, secret: Path, spoil: Callable[[Receipt, Path], None], kind: str
) -> None:
    """With --reuse: the shard is written again, or taken as it was, with the same bytes; nothing hangs."""
    whole = digests_below(out)
    shard = out / max(path.name for path in out.glob("*.tfrecord-*"))
    _spoil(out, secret, spoil)
    if kind != "file":
        shard.unlink()
        if kind == "pipe":
            os.mkfifo(shard)
        else:
            shard.symlink_to(secret / "x.jpg")
        os.utime(shard, ns=(0, 0), follow_symlinks=False)
    argv = ["--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/copy", "--name", "d"]
    if kind == "link":
        assert convert(*argv, "--num_shards", "2", "--reuse", str(out)) == 0
    else:
        with watched(secret) as watch:
            assert convert(*argv, "--num_shards", "2", "--reuse", str(out)) == 0
        assert watch.calls == []
    copy = {path.name: path for path in (tmp_path / "copy").glob("*.tfrecord-*")}
    assert all(path.is_file() and not path.is_symlink() for path in copy.values())
    assert {name: path.read_bytes() for name, path in copy.items()} == {
        name: content for path, content in whole.items() if (name := Path(path).name) in copy
    }


@pytest.mark.promise("hostile_manifest")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("spoil", HOSTILE_RECEIPTS)
def test_readers_and_commands_open_nothing_that_a_receipt_names(
    out: Path,
    secret: Path,
    spoil: Callable[[Receipt, Path], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A reader gives the right examples, or a named error."""
    before = [random_access.RandomAccess(out).record(i) for i in range(4)]
    _spoil(out, secret, spoil)
    with watched(secret) as watch:
        with contextlib.suppress(ConversionError):
            assert [random_access.RandomAccess(out).record(i) for i in range(4)] == before
        for argv in (["inspect", str(out), "--key", "b/1.jpg"], ["diff", str(out), str(out)]):
            capsys.readouterr()
            main(argv)
            assert "Traceback" not in capsys.readouterr().err
    assert watch.calls == []


def digests_below(folder: Path) -> dict[str, bytes]:
    """Path -> content of all files below a folder."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): path.read_bytes() for path in paths}
