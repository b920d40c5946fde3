"""`beam-tfrecord repair`: damaged and missing shards come back, and only they are written."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from beam_pipeline.cli import main
from beam_pipeline.core.dataset.receipts import receipt_name
from beam_pipeline.work.receipts import read_receipt
from tests.beam_pipeline.test_resume import modified
from tests.harness import ALL_BAD, convert, digests
from tests.pictures import write_files, write_pictures

FIRST, SECOND, THIRD = (f"d-train.tfrecord-0000{i}-of-00003" for i in range(3))


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """A complete data set with a dead letter, labelled by a table, and a copy of it in `whole`."""
    names = [f"{i:02d}.jpg" for i in range(30)]
    write_pictures(f"{tmp_path}/photos", names)
    rows = [f"{name},{'ab'[i % 2]},{i / 3},{'' if i % 5 else i}" for i, name in enumerate(names)]
    write_files(str(tmp_path), {"labels.csv": "\n".join(["image,label,score,count", *rows]) + "\n"})
    write_files(f"{tmp_path}/photos", {"00.jpg": "no image"})
    argv = ["--images", f"{tmp_path}/photos", "--labels", f"{tmp_path}/labels.csv", "--name", "d"]
    assert convert(*argv, "--num_shards", "3", ALL_BAD, "--output", f"{tmp_path}/out") == 0
    shutil.copytree(tmp_path / "out", tmp_path / "whole")
    return tmp_path / "out"


@pytest.mark.promise("damaged_later")
def test_damaged_and_missing_shards_are_written_again(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same bytes as before; the sound shard is not touched, and it says what it did."""
    before = modified(dataset)
    content = bytearray((dataset / FIRST).read_bytes())
    content[400] ^= 1
    (dataset / FIRST).write_bytes(content)
    os.unlink(dataset / THIRD)
    assert main(["verify", str(dataset)]) == 1
    capsys.readouterr()
    assert main(["repair", str(dataset)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{dataset}/{FIRST}: rewritten",
        f"{dataset}/{THIRD}: rewritten",
        f"{dataset}: 1 shard was sound, 2 rewritten",
    ]
    assert digests(dataset) == digests(tmp_path / "whole")
    assert modified(dataset)[SECOND] == before[SECOND]
    assert main(["verify", str(dataset)]) == 0


def test_what_a_manifest_determines_is_written_again(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A card is not, as it may be edited; a receipt cannot be, and both stay faults."""
    (dataset / "labels.txt").unlink()
    (dataset / "features.json").write_text("{}")
    (dataset / "image.class.label.labels.txt").write_text("a\nc\n")
    assert main(["repair", str(dataset)]) == 0
    assert digests(dataset) == digests(tmp_path / "whole")
    card = dataset / "README.md"
    card.write_text(card.read_text().replace("29 images", "92 images"))
    receipt = dataset / receipt_name(FIRST)
    receipt.write_bytes(receipt.read_bytes()[:-1])
    capsys.readouterr()
    assert main(["repair", str(dataset)]) == 1
    printed = capsys.readouterr()
    assert printed.out == f"{dataset}: 3 shards were sound, 0 rewritten\n"
    errors = printed.err.splitlines()
    assert [line.split(" is ")[0] for line in errors] == [str(receipt), str(card)]


@pytest.mark.promise("damaged_together")
def test_data_sets_that_share_a_damaged_shard_are_named(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--reuse` links unchanged shards: one damage is in all sets, and `repair` of each heals it."""
    argv = ["--images", f"{tmp_path}/photos", "--labels", f"{tmp_path}/labels.csv", "--name", "d"]
    argv += ["--num_shards", "3", ALL_BAD, "--output", f"{tmp_path}/new"]
    assert convert(*argv, "--reuse", str(dataset)) == 0
    content = bytearray((dataset / FIRST).read_bytes())
    content[400] ^= 1
    (dataset / FIRST).write_bytes(content)
    new = tmp_path / "new"
    shared = f"{dataset} shares the damaged file, a hard link of --reuse: `beam-tfrecord repair {dataset}`"
    for command in ("verify", "repair"):
        capsys.readouterr()
        assert main([command, str(new)]) == (command == "verify")
        assert capsys.readouterr().err.splitlines()[0].endswith(shared)
    assert main(["verify", str(new)]) == 0
    assert main(["verify", str(dataset)]) == 1
    assert main(["repair", str(dataset)]) == 0
    assert digests(dataset) == digests(tmp_path / "whole")


def test_a_sound_data_set_is_left_alone(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is written."""
    before = modified(dataset)
    capsys.readouterr()
    assert main(["repair", str(dataset)]) == 0
    assert capsys.readouterr().out == f"{dataset}: 3 shards were sound, 0 rewritten\n"
    assert modified(dataset) == before


@pytest.mark.slow
def test_a_shard_whose_images_have_changed_is_left_as_it_is(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What would not be the manifest's shard is not written; another one still is."""
    for name in (FIRST, SECOND):
        os.truncate(dataset / name, 100)
    (gone,) = _images_in(dataset, FIRST)[:1]
    os.unlink(tmp_path / "photos" / gone)
    capsys.readouterr()
    assert main(["repair", str(dataset)]) == 1
    printed = capsys.readouterr()
    assert f"{dataset}/{FIRST} cannot be rewritten: its images have changed" in (printed.err)
    assert f"({tmp_path}/photos/{gone}: No such file or directory)" in printed.err
    assert printed.out.splitlines()[-1] == f"{dataset}: 1 shard was sound, 1 rewritten"
    assert os.path.getsize(dataset / FIRST) == 100
    assert (dataset / SECOND).read_bytes() == (tmp_path / "whole" / SECOND).read_bytes()
    assert not (dataset / ".incomplete").exists()


def _images_in(dataset: Path, shard: str) -> list[str]:
    receipt = read_receipt(str(dataset), shard)
    assert receipt
    dead_letters = {dead_letter.key for dead_letter in receipt.dead_letters}
    return [ref.key for ref in receipt.inputs.refs if ref.key not in dead_letters]


def test_without_a_receipt_nothing_can_be_repaired(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message says so and what to do; a damaged receipt is reported, too."""
    os.unlink(dataset / FIRST)
    receipt = dataset / receipt_name(FIRST)
    receipt.write_bytes(b"damaged")
    assert main(["repair", str(dataset)]) == 1
    assert f"{receipt} is damaged" in capsys.readouterr().err
    os.unlink(receipt)
    assert main(["repair", str(dataset)]) == 1
    assert f"{receipt_name(FIRST)}, the list of its images, is missing" in capsys.readouterr().err


def test_a_folder_without_a_manifest_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is nothing to compare with."""
    assert main(["repair", str(tmp_path)]) == 1
    assert "the folder does not contain a complete data set" in capsys.readouterr().err
