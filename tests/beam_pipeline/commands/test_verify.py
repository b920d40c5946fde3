"""`beam-tfrecord verify`, `repair` and `index`: what they find, what comes back, and what they leave alone."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from beam_pipeline.cli import main
from beam_pipeline.core.dataset.manifest import CHECKSUM_ENTRY, LINES_ENTRY
from beam_pipeline.core.dataset.receipts import receipt_name
from beam_pipeline.work.receipts import read_receipt
from tests.beam_pipeline.test_interrupted import modified
from tests.harness import ALL_BAD, change_json, convert, digests, made_once, run
from tests.pictures import write_files, write_pictures

# --- verify ----------------------------------------------------------------------------------------


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


def test_a_complete_data_set_is_well(dataset: Path) -> None:
    """Nothing is wrong with what a conversion wrote."""
    assert run("verify", str(dataset)).out == f"{dataset}: 2 shards, 12 examples, all well\n"


def _flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(bytes(data))


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


SHARD = "d-train.tfrecord-00000-of-00002"


def flipped(offset: int) -> Callable[[Path], None]:
    return lambda path: _flip(path, offset)


def cut(size: int) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, size)


def text(content: str) -> Callable[[Path], None]:
    return lambda path: (path.write_text(content), None)[1]


def without(line: str) -> Callable[[Path], None]:
    """Removes a line by its beginning; all others stay as they were written."""
    return lambda path: text(re.sub(f"{line}.*", "", path.read_text()))(path)


def another_shard(path: Path) -> None:
    os.replace(path.with_name(SHARD.replace("00000-", "00001-")), path)


RECEIPT = ".receipts/d-train-00000-of-00002.json.gz"
DAMAGED_FILES = [
    (SHARD, flipped(400), ": record 0 at byte 0: the checksum of the record's data is wrong"),
    (SHARD, flipped(0), ": record 0 at byte 0: the checksum of the record's length is wrong"),
    (SHARD, cut(700), ": record 0 at byte 0: the file ends inside the record"),
    (SHARD, Path.unlink, ": cannot be read: No such file or directory"),
    (SHARD, cut(0), ": examples is 0, the manifest lists"),
    (SHARD, another_shard, ": crc32c is"),
    ("labels.txt", text("a\nc\n"), " is not as in the manifest"),
    ("features.json", Path.unlink, " is missing"),
    ("dead_letters.jsonl", text(""), ": contains {}, the manifest lists"),
    (
        "dead_letters.jsonl",
        lambda path: _replace(path, "bad.jpg", "bed.jpg"),
        ": its lines do not have the checksum of the manifest",
    ),
    ("manifest.json", without(f',\n  "{CHECKSUM_ENTRY}": '), " does not have its checksum"),
    ("manifest.json", without(f'\n  "{LINES_ENTRY}": '), " does not have its checksum"),
    (RECEIPT, flipped(100), " is damaged"),
    (RECEIPT, Path.unlink, " is missing, and --resume and repair need it"),
    (
        "README.md",
        lambda path: _replace(path, "12 images", "13 images"),
        " is not as it was written: damaged or edited",
    ),
]
EDITED_MANIFESTS = [
    ("splits train examples", 13, "split train: its shards have 12 examples, it claims 13"),
    ("classes 0 examples", 7, "class 0 (a): 6 examples, the manifest lists 7"),
    ("classes 0 name", "c", f"/{RECEIPT}: class 0 is 'a', the manifest lists 'c'"),
    ("counts examples", 999_999, "counts.examples is 999999, the sum in splits is 12"),
    (
        "counts listed_images",
        14,
        "14 listed images + 0 label rows without an image are not 12 examples + 1 dead letters",
    ),
    ("counts dead_letters", 2, "counts.dead_letters is 2, the sum by reason is 1"),
    ("images formats png", 1, "images.formats adds up to 13 images of 12"),
    ("features x", {"kind": "int64", "optional": False}, f"/{SHARD}: feature x is missing in"),
]


@pytest.mark.promise("damaged_later")
@pytest.mark.parametrize(("file", "damage", "message"), DAMAGED_FILES)
def test_damage_is_found_and_placed(
    dataset: Path, file: str, damage: Callable[[Path], None], message: str
) -> None:
    """Exit code 1, and the place of the fault on standard error."""
    damage(dataset / file)
    assert f"{dataset}/{file}{message}" in run("verify", str(dataset), code=1).err


@pytest.mark.promise("damaged_later")
@pytest.mark.parametrize(("entry", "value", "message"), EDITED_MANIFESTS)
def test_an_edited_manifest_is_found(
    dataset: Path, entry: str, value: object, message: str
) -> None:
    """By its other entries, the files that it describes, and its own checksum."""
    keys = [int(key) if key.isdigit() else key for key in entry.split()]
    change_json(dataset / "manifest.json", *keys, value=value)
    assert message in run("verify", str(dataset), code=1).err


@pytest.mark.promise("damaged_later")
def test_a_flipped_bit_of_any_file_is_found(dataset: Path) -> None:
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
    assert main(["verify", str(dataset)]) == 0


def test_what_somebody_changed_or_added_on_purpose_is_well(dataset: Path) -> None:
    """A card without its seal is its owner's."""
    card = dataset / "README.md"
    card.write_text(card.read_text().replace("12 images", "My 12 images").rpartition("<!--")[0])
    os.unlink(dataset / "croissant.json")
    (dataset / "report.html").write_text("<p>Mine</p>")
    assert main(["verify", str(dataset)]) == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "the folder does not contain a complete data set"),
        ("{", "is not a manifest of beam-tfrecord"),
        ('{"format": "other"}', "is not a manifest of beam-tfrecord"),
    ],
)
def test_without_a_manifest_there_is_nothing_to_verify(
    dataset: Path, content: str | None, message: str
) -> None:
    """A folder without a manifest that can be read is an error."""
    if content is None:
        (dataset / "manifest.json").unlink()
    else:
        (dataset / "manifest.json").write_text(content)
    assert message in run("verify", str(dataset), code=1).err


# --- repair ----------------------------------------------------------------------------------------

FIRST, SECOND, THIRD = (f"d-train.tfrecord-0000{i}-of-00003" for i in range(3))


@pytest.fixture
def repairable(tmp_path: Path) -> Path:
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
def test_damaged_and_missing_shards_are_written_again(repairable: Path, tmp_path: Path) -> None:
    """The same bytes as before; the sound shard is not touched, and it says what it did."""
    before = modified(repairable)
    content = bytearray((repairable / FIRST).read_bytes())
    content[400] ^= 1
    (repairable / FIRST).write_bytes(content)
    os.unlink(repairable / THIRD)
    assert main(["verify", str(repairable)]) == 1
    assert run("repair", str(repairable)).out.splitlines() == [
        f"{repairable}/{FIRST}: rewritten",
        f"{repairable}/{THIRD}: rewritten",
        f"{repairable}: 1 shard was sound, 2 rewritten",
    ]
    assert digests(repairable) == digests(tmp_path / "whole")
    assert modified(repairable)[SECOND] == before[SECOND]
    assert main(["verify", str(repairable)]) == 0


def test_what_a_manifest_determines_is_written_again(repairable: Path, tmp_path: Path) -> None:
    """A card is not, as it may be edited; a receipt cannot be, and both stay faults."""
    (repairable / "labels.txt").unlink()
    (repairable / "features.json").write_text("{}")
    (repairable / "image.class.label.labels.txt").write_text("a\nc\n")
    assert main(["repair", str(repairable)]) == 0
    assert digests(repairable) == digests(tmp_path / "whole")
    card = repairable / "README.md"
    card.write_text(card.read_text().replace("29 images", "92 images"))
    receipt = repairable / receipt_name(FIRST)
    receipt.write_bytes(receipt.read_bytes()[:-1])
    printed = run("repair", str(repairable), code=1)
    assert printed.out == f"{repairable}: 3 shards were sound, 0 rewritten\n"
    errors = printed.err.splitlines()
    assert [line.split(" is ")[0] for line in errors] == [str(receipt), str(card)]


@pytest.mark.promise("damaged_together")
def test_data_sets_that_share_a_damaged_shard_are_named(repairable: Path, tmp_path: Path) -> None:
    """`--reuse` links unchanged shards: one damage is in all sets, and `repair` of each heals it."""
    argv = ["--images", f"{tmp_path}/photos", "--labels", f"{tmp_path}/labels.csv", "--name", "d"]
    argv += ["--num_shards", "3", ALL_BAD, "--output", f"{tmp_path}/new"]
    assert convert(*argv, "--reuse", str(repairable)) == 0
    content = bytearray((repairable / FIRST).read_bytes())
    content[400] ^= 1
    (repairable / FIRST).write_bytes(content)
    new = tmp_path / "new"
    shared = f"{repairable} shares the damaged file, a hard link of --reuse: `beam-tfrecord repair {repairable}`"
    for command in ("verify", "repair"):
        assert run(command, str(new), code=command == "verify").err.splitlines()[0].endswith(shared)
    assert main(["verify", str(new)]) == 0
    assert main(["verify", str(repairable)]) == 1
    assert main(["repair", str(repairable)]) == 0
    assert digests(repairable) == digests(tmp_path / "whole")


def test_a_sound_data_set_is_left_alone(repairable: Path) -> None:
    """Nothing is written."""
    before = modified(repairable)
    assert run("repair", str(repairable)).out == f"{repairable}: 3 shards were sound, 0 rewritten\n"
    assert modified(repairable) == before


@pytest.mark.slow
def test_a_shard_whose_images_have_changed_is_left_as_it_is(
    repairable: Path, tmp_path: Path
) -> None:
    """What would not be the manifest's shard is not written; another one still is."""
    for name in (FIRST, SECOND):
        os.truncate(repairable / name, 100)
    (gone,) = _images_in(repairable, FIRST)[:1]
    os.unlink(tmp_path / "photos" / gone)
    printed = run("repair", str(repairable), code=1)
    assert f"{repairable}/{FIRST} cannot be rewritten: its images have changed" in (printed.err)
    assert f"({tmp_path}/photos/{gone}: No such file or directory)" in printed.err
    assert printed.out.splitlines()[-1] == f"{repairable}: 1 shard was sound, 1 rewritten"
    assert os.path.getsize(repairable / FIRST) == 100
    assert (repairable / SECOND).read_bytes() == (tmp_path / "whole" / SECOND).read_bytes()
    assert not (repairable / ".incomplete").exists()


def _images_in(repairable: Path, shard: str) -> list[str]:
    receipt = read_receipt(str(repairable), shard)
    assert receipt
    dead_letters = {dead_letter.key for dead_letter in receipt.dead_letters}
    return [ref.key for ref in receipt.inputs.refs if ref.key not in dead_letters]


def test_without_a_receipt_nothing_can_be_repaired(repairable: Path) -> None:
    """The message says so and what to do; a damaged receipt is reported, too."""
    os.unlink(repairable / FIRST)
    receipt = repairable / receipt_name(FIRST)
    receipt.write_bytes(b"damaged")
    assert f"{receipt} is damaged" in run("repair", str(repairable), code=1).err
    os.unlink(receipt)
    error = run("repair", str(repairable), code=1).err
    assert f"{receipt_name(FIRST)}, the list of its images, is missing" in error
