"""`beam-tfrecord verify` finds each kind of damage and says where."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from beam_pipeline.cli import main
from beam_pipeline.core.dataset.manifest import CHECKSUM_ENTRY, LINES_ENTRY
from tests.harness import convert, made_once
from tests.pictures import write_files, write_pictures


def _make(folder: Path) -> None:
    write_pictures(str(folder / "photos"), [f"{'ab'[i % 2]}/{i}.jpg" for i in range(12)])
    write_files(str(folder / "photos"), {"a/bad.jpg": "x"})
    argv = ("--images", f"{folder}/photos", "--num_shards", "2", "--name", "d")
    assert convert(*argv, "--max_bad_fraction=0.2", "--output", f"{folder}/out") == 0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Images, one of them broken, and their complete data set."""
    return made_once(tmp_path_factory.mktemp("verified"), _make)


@pytest.fixture
def dataset(made: Callable[[], Path]) -> Path:
    """A small complete data set with one dead letter."""
    return made() / "out"


def test_a_complete_data_set_is_well(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is wrong with what a conversion wrote."""
    capsys.readouterr()
    assert main(["verify", str(dataset)]) == 0
    assert capsys.readouterr().out == f"{dataset}: 2 shards, 12 examples, all well\n"


def _flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(bytes(data))


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


CHECKSUMS = (CHECKSUM_ENTRY, LINES_ENTRY)
SHARD = "d-train.tfrecord-00000-of-00002"


def _edit_manifest(edit: Callable[[dict], None]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        manifest = json.loads((folder / "manifest.json").read_text())
        edit(manifest)
        (folder / "manifest.json").write_text(json.dumps(manifest))

    return damage


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a bit of an image": (
        lambda folder: _flip(folder / SHARD, 400),
        "{folder}/" + SHARD + ": record 0 at byte 0: the checksum of the record's data is wrong",
    ),
    "a bit of a length": (
        lambda folder: _flip(folder / SHARD, 0),
        "{folder}/" + SHARD + ": record 0 at byte 0: the checksum of the record's length is wrong",
    ),
    "a cut shard": (
        lambda folder: os.truncate(folder / SHARD, 700),
        "{folder}/" + SHARD + ": record 0 at byte 0: the file ends inside the record",
    ),
    "a missing shard": (
        lambda folder: os.unlink(folder / SHARD),
        "{folder}/" + SHARD + ": cannot be read: No such file or directory",
    ),
    "a shard emptied": (
        lambda folder: os.truncate(folder / SHARD, 0),
        "{folder}/" + SHARD + ": examples is 0, the manifest lists",
    ),
    "a shard swapped for another": (
        lambda folder: os.replace(folder / SHARD.replace("00000-", "00001-"), folder / SHARD),
        "{folder}/" + SHARD + ": crc32c is",
    ),
    "a class renamed": (
        lambda folder: (folder / "labels.txt").write_text("a\nc\n"),
        "{folder}/labels.txt is not as in the manifest",
    ),
    "dead letters lost": (
        lambda folder: (folder / "dead_letters.jsonl").write_text(""),
        "{folder}/dead_letters.jsonl: contains {{}}, the manifest lists",
    ),
    "a count of the manifest": (
        _edit_manifest(lambda manifest: manifest["splits"]["train"].update(examples=13)),
        "split train: its shards have 12 examples, it claims 13",
    ),
    "a class count of the manifest": (
        _edit_manifest(lambda manifest: manifest["classes"][0].update(examples=7)),
        "class 0 (a): 6 examples, the manifest lists 7",
    ),
    "a false number of examples": (
        _edit_manifest(lambda manifest: manifest["counts"].update(examples=999_999)),
        "counts.examples is 999999, the sum in splits is 12",
    ),
    "an equation that does not add up": (
        _edit_manifest(lambda manifest: manifest["counts"].update(listed_images=14)),
        "14 listed images + 0 label rows without an image are not 12 examples + 1 dead letters",
    ),
    "dead letters miscounted": (
        _edit_manifest(lambda manifest: manifest["counts"].update(dead_letters=2)),
        "counts.dead_letters is 2, the sum by reason is 1",
    ),
    "images miscounted": (
        _edit_manifest(lambda manifest: manifest["images"]["formats"].update(png=1)),
        "images.formats adds up to 13 images of 12",
    ),
    "names of classes swapped": (
        _edit_manifest(
            lambda manifest: [entry.update(name="ba"[entry["id"]]) for entry in manifest["classes"]]
        ),
        "{folder}/.receipts/d-train-00000-of-00002.json.gz: class 0 is 'a', the manifest lists 'b'",
    ),
    "a line of dead letters": (
        lambda folder: _replace(folder / "dead_letters.jsonl", "bad.jpg", "bed.jpg"),
        "{folder}/dead_letters.jsonl: its lines do not have the checksum of the manifest",
    ),
    "a receipt": (
        lambda folder: _flip(folder / ".receipts" / "d-train-00000-of-00002.json.gz", 100),
        "{folder}/.receipts/d-train-00000-of-00002.json.gz is damaged",
    ),
    "a missing receipt": (
        lambda folder: os.unlink(folder / ".receipts" / "d-train-00000-of-00002.json.gz"),
        "{folder}/.receipts/d-train-00000-of-00002.json.gz is missing, and --resume and repair need it",
    ),
    "a missing file of TFDS": (
        lambda folder: os.unlink(folder / "features.json"),
        "{folder}/features.json is missing",
    ),
    "a card": (
        lambda folder: _replace(folder / "README.md", "12 images", "13 images"),
        "{folder}/README.md is not as it was written: damaged or edited",
    ),
    "a feature of the manifest": (
        _edit_manifest(
            lambda manifest: manifest["features"].update(
                {"x": {"kind": "int64", "optional": False}}
            )
        ),
        "{folder}/" + SHARD + ": feature x is missing in",
    ),
}


@pytest.mark.promise("damaged_later")
@pytest.mark.parametrize("what", list(DAMAGES))
def test_damage_is_found_and_placed(
    dataset: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    """Exit code 1, and the place of the fault on standard error."""
    damage, message = DAMAGES[what]
    damage(dataset)
    capsys.readouterr()
    assert main(["verify", str(dataset)]) == 1
    assert message.format(folder=dataset) in capsys.readouterr().err


@pytest.mark.promise("damaged_later")
def test_a_flipped_bit_of_any_file_is_found(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whichever file it is in; a gzip header's time and system, which nobody reads, are left out."""
    names = sorted(path for path in dataset.rglob("*") if path.is_file())
    assert len(names) == 14
    for path in names:
        data = path.read_bytes()
        offsets = range(10 if path.suffix == ".gz" else 0, len(data), max(1, len(data) // 15))
        for offset in offsets:
            _flip(path, offset)
            try:
                assert main(["verify", str(dataset)]) == 1, (path, offset)
            finally:
                path.write_bytes(data)
    capsys.readouterr()
    assert main(["verify", str(dataset)]) == 0


def test_what_somebody_changed_or_added_on_purpose_is_well(dataset: Path) -> None:
    """A card without its seal is its owner's."""
    card = dataset / "README.md"
    card.write_text(card.read_text().replace("12 images", "My 12 images").rpartition("<!--")[0])
    os.unlink(dataset / "croissant.json")
    (dataset / "report.html").write_text("<p>Mine</p>")
    assert main(["verify", str(dataset)]) == 0


@pytest.mark.parametrize(
    "edit",
    [
        lambda manifest: [manifest.pop(name) for name in CHECKSUMS],
        lambda manifest: manifest.update(crc32c="AAAAAA=="),
    ],
)
def test_a_manifest_without_its_checksum_was_edited(
    dataset: Path, edit: Callable[[dict], None]
) -> None:
    """Whether it is gone or another."""
    _edit_manifest(edit)(dataset)
    assert main(["verify", str(dataset)]) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "the folder does not contain a complete data set"),
        ("{", "is not a manifest of beam-tfrecord"),
        ('{"format": "other"}', "is not a manifest of beam-tfrecord"),
    ],
)
def test_without_a_manifest_there_is_nothing_to_verify(
    dataset: Path, capsys: pytest.CaptureFixture[str], content: str | None, message: str
) -> None:
    """A folder without a manifest that can be read is an error."""
    if content is None:
        (dataset / "manifest.json").unlink()
    else:
        (dataset / "manifest.json").write_text(content)
    assert main(["verify", str(dataset)]) == 1
    assert message in capsys.readouterr().err
