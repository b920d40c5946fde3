"""`RandomAccess`: any record by its number, from receipts, an index, or the shards alone."""

from __future__ import annotations

import gzip
import json
import logging
import multiprocessing
import os
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beam_pipeline
from beam_pipeline import RandomAccess, cli
from beam_pipeline.core.errors import ConversionError, DamagedRecordError, UsageError
from tests import harness, pictures
from tests.beam_pipeline.readers.by_hand import EVERY_KIND, feature, write_by_hand
from tests.rows import in_rows

NAMES = [f"{'ab'[i % 2]}/{i}.png" for i in range(23)]


@pytest.fixture(scope="module")
def pets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """23 images in three shards."""
    folder = tmp_path_factory.mktemp("pets")
    pictures.write_pictures(str(folder / "photos"), NAMES)
    argv = ("--images", f"{folder}/photos", "--num_shards", "3", "--output", f"{folder}/out")
    assert harness.convert(*argv) == 0
    return folder / "out"


@pytest.fixture
def copied(pets: Path, tmp_path: Path) -> Path:
    """A copy to change, without the folder of receipts, as `cp out/*` makes it."""
    shutil.copytree(pets, tmp_path / "out", ignore=shutil.ignore_patterns(".receipts"))
    return tmp_path / "out"


def stored(folder: Path) -> list[tuple[bytes, int, bytes]]:
    """(source_id, class, image) in the stored order, read with TensorFlow."""
    return [
        (found["image/source_id"][0], found["image/class/label"][0], found["image/encoded"][0])
        for name in harness.shard_names(folder)
        for found in harness.read_shard(folder, name)
    ]


def brief(example: dict[str, Any]) -> tuple[bytes, int, bytes]:
    return example["image/source_id"], example["image/class/label"], example["image/encoded"]


def test_every_index_gives_the_record_that_is_stored_there(pets: Path) -> None:
    """From the front, from the back, as a slice, as a list of numbers, as an array; all of it in order."""
    expected = stored(pets)
    source = RandomAccess(pets)
    assert len(source) == 23
    assert [brief(source[i]) for i in range(23)] == expected
    assert [brief(source[i]) for i in range(-23, 0)] == expected
    assert [brief(example) for example in source] == expected
    assert [brief(example) for example in source[20:2:-4]] == expected[20:2:-4]
    picked = [22, 0, 7, 7, -1]
    for indices in (picked, tuple(picked), np.array(picked), iter(picked)):
        assert [brief(example) for example in source[indices]] == [expected[i] for i in picked]
    assert [brief(example) for example in source.__getitems__(picked[:2])] == [
        expected[22],
        expected[0],
    ]
    assert brief(source[np.int64(5)]) == expected[5]
    assert source[30:] == source[[]] == []
    data = beam_pipeline.Dataset.open(pets).fingerprint("train")
    assert repr(source) == f"RandomAccess('{pets}', 'train', 23 examples, {data})"


def test_an_index_that_is_none_is_an_error(pets: Path) -> None:
    """One behind the last, one before the first, and what is no number."""
    source = RandomAccess(pets)
    for wrong in (23, -24, 10**30):
        with pytest.raises(IndexError, match=f"^sample {wrong} of 23$"):
            source[wrong]
    with pytest.raises(IndexError, match=r"^sample 23 of 23$"):
        source[[0, 23]]
    for other in (1.5, "1", None):
        with pytest.raises(TypeError, match=r"expected an int, a slice or several ints"):
            source[other]  # type: ignore[index]


def test_values_are_those_that_pytorch_and_jax_stack(tmp_path: Path) -> None:
    """One value as it is, several as an array; floats are of 32 bits, and what is missing is None."""
    full = {"one": [-1], "text": [b"x"], "number": [0.1], "list": [b"", b"y"], "two": [0.1, 2]}
    bare = {"one": [7], "list": [], "two": [3, 4], "any": [5]}
    source = RandomAccess(
        write_by_hand(tmp_path / "d", EVERY_KIND, [full], [], [bare, {"list": []}])
    )
    first, second = source[:2]
    assert (first["one"], first["text"], first["list"]) == (-1, b"x", [b"", b"y"])
    assert first["number"] == np.float32(0.1)
    assert first["number"].dtype == first["two"].dtype == np.float32
    assert first["two"].tolist() == [np.float32(0.1), 2]
    assert (second["text"], second["number"], second["list"]) == (None, None, [])
    assert first["any"].dtype == second["any"].dtype == np.int64
    assert (first["any"].tolist(), second["any"].tolist()) == ([], [5])
    with pytest.raises(DamagedRecordError, match="feature one has 0 values of kind int64"):
        source[2]


def test_pixels_are_decoded_if_asked(pets: Path) -> None:
    """`decode=True` puts the pixels in place of the file; a function gets the example as it is stored."""
    expected = beam_pipeline.load(pets, as_dict=True, shuffle=False)
    source = RandomAccess(pets, decode=True)
    for example, other in zip(source, expected.as_numpy_iterator(), strict=True):
        assert example.keys() == other.keys()
        assert example["image"].tolist() == other["image"].tolist()
    small = RandomAccess(pets, decode=True, image_size=(4, 5), channels=1)[0]["image"]
    assert (small.shape, small.dtype) == ((4, 5, 1), np.uint8)
    assert RandomAccess(pets, decode=brief)[3] == stored(pets)[3]
    with pytest.raises(
        UsageError, match="image_size, channels, exact and dtype are for decode=True"
    ):
        RandomAccess(pets, image_size=(4, 5))


def test_it_can_be_pickled_forked_and_shared_by_threads(pets: Path) -> None:
    """Before its first access and after; all see the same."""
    expected = stored(pets)
    source = RandomAccess(pets)
    copy = pickle.loads(pickle.dumps(source))
    assert brief(source[22]) == brief(copy[22]) == expected[22]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda i: brief(copy[i % 23]), range(230)))
    assert found == expected * 10
    copy = pickle.loads(pickle.dumps(source))
    for method in ("fork", "spawn"):
        code = (
            "import multiprocessing, sys, pickle; from beam_pipeline import RandomAccess\n"
            "def name(i): return source[i]['image/source_id']\n"
            "source = RandomAccess(sys.argv[1])\n"
            "if __name__ == '__main__':\n"
            "    source[0]\n"
            "    with multiprocessing.get_context(sys.argv[2]).Pool(2) as pool:\n"
            "        print(pool.map(name, range(23)))\n"
        )
        script = pets.parent / "pool.py"
        script.write_text(code)
        done = harness.python(str(script), str(pets), method)
        assert done.stdout == f"{[key for key, _, _ in expected]}\n", done.stderr
    assert multiprocessing.active_children() == []


def test_without_receipts_the_shards_are_searched_and_it_says_so(
    copied: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One line for all shards; an index file, as `beam-tfrecord index` writes it, saves that."""
    with caplog.at_level(logging.WARNING):
        source = RandomAccess(copied)
        assert [brief(example) for example in source] == stored(copied)
    assert [record.getMessage() for record in caplog.records] == [
        f"{copied} lacks receipts, which list where records begin, so whole shards are searched for "
        f"them; once only, after: beam-tfrecord index {copied}"
    ]
    caplog.clear()
    assert cli.main(["index", str(copied)]) == 0
    with caplog.at_level(logging.WARNING):
        assert [brief(example) for example in RandomAccess(copied)] == stored(copied)
    assert not caplog.records


def test_a_flipped_bit_is_found_and_only_there(copied: Path) -> None:
    """Either checksum tells; the other records are as they were."""
    shard = copied / harness.shard_names(copied)[1]
    first = next(iter(harness.manifest_of(copied)["splits"]["train"]["shards"]))["examples"]
    source, expected = RandomAccess(copied), stored(copied)
    assert brief(source[first]) == expected[first]
    data = bytearray(shard.read_bytes())
    for position, what in ((3, "length"), (40, "data")):
        damaged = bytearray(data)
        damaged[position] ^= 1
        shard.write_bytes(damaged)
        where = f"^{shard}: record 0 at byte 0.*the checksum of the record's {what} is wrong"
        with pytest.raises(DamagedRecordError, match=where):
            source[first]
        assert brief(source[first + 1]) == expected[first + 1]


def test_a_shard_that_was_cut_or_is_gone_is_an_error(copied: Path) -> None:
    """Before anything is read and, where it happens later, when it is read."""
    shard = copied / harness.shard_names(copied)[0]
    source = RandomAccess(copied)
    source[0]
    os.truncate(shard, 50)
    with pytest.raises(DamagedRecordError, match=r"cannot be read: the file ends before byte"):
        source[0]
    with pytest.raises(DamagedRecordError, match=f"^{shard} has 50 bytes, the manifest lists"):
        RandomAccess(copied)
    shard.unlink()
    with pytest.raises(DamagedRecordError, match=r"cannot be read: No such file"):
        source[0]
    os.mkfifo(shard)
    with pytest.raises(DamagedRecordError, match="is missing or not a file, the manifest lists"):
        RandomAccess(copied)


def test_compressed_shards_are_refused(tmp_path: Path) -> None:
    """With the reason, and what to do."""
    pictures.write_pictures(f"{tmp_path}/photos", NAMES[:4])
    argv = ("--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out", "--compression=gzip")
    assert harness.convert(*argv) == 0
    with pytest.raises(
        UsageError,
        match=r"with compression gzip; RandomAccess needs .*: convert with --format tfrecord --compression none",
    ):
        RandomAccess(tmp_path / "out")


def receipt_with(folder: Path, **changes: Any) -> Path:
    """Changes the receipt of a data set of one shard."""
    (path,) = (folder / ".receipts").iterdir()
    content = json.loads(gzip.decompress(path.read_bytes()))
    path.write_bytes(gzip.compress(json.dumps({**content, **changes}).encode()))
    return path


@in_rows
def test_a_receipt_that_lies_is_an_error(tmp_path: Path, sizes: Any, error: str) -> None:
    """Sizes that do not fit the shard take neither memory nor another record."""
    pictures.write_pictures(f"{tmp_path}/photos", ["a/1.png", "b/2.png"])
    assert harness.convert("--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out") == 0
    receipt_with(tmp_path / "out", record_sizes=sizes)
    with pytest.raises(ConversionError, match=error):
        RandomAccess(tmp_path / "out")[0]


def test_two_records_are_not_taken_for_one(tmp_path: Path) -> None:
    """An index that runs them together is found out, though both are sound."""
    one = {"image/encoded": [pictures.picture()]}
    folder = Path(write_by_hand(tmp_path / "d", {"image/encoded": feature("bytes")}, [one, one]))
    (shard,) = folder.glob("*.tfrecord-*")
    size = shard.stat().st_size
    index = shard.with_name(shard.name.replace("tfrecord", "tfindex"))
    index.write_text(f"0 {size}\n{size} 0\n")
    with pytest.raises(DamagedRecordError, match="record 0 at byte 0: 2 records where one is"):
        RandomAccess(folder)[0]
