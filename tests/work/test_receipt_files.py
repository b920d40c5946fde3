from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from beam_pipeline.core.dataset.receipts import Receipt, ShardInputs
from beam_pipeline.core.errors import ConversionError
from beam_pipeline.core.records.sharding import ShardInfo, ShardSpec
from beam_pipeline.core.references import SampleRef
from beam_pipeline.work.receipts import (
    delete_receipts,
    read_receipt,
    read_record_sizes,
    receipts_there,
    write_receipt,
)

NAME = "d-train.tfrecord-00000-of-00002"
OTHER = "d-train.tfrecord-00001-of-00002"
RECEIPT = Receipt(
    ShardInputs(
        spec=ShardSpec("train", 0, 2, NAME),
        refs=[SampleRef("a.jpg", "/photos/a.jpg", 3, "train", ("cat", ("x", "y")))],
        class_ids={"cat": 0},
        options={"seed": 0},
    ),
    ShardInfo("train", 0, NAME, 1, 99, 7, ((0, 1),)),
    [],
    (99,),
)


def test_a_receipt_is_read_back(tmp_path: Path) -> None:
    """It lies in a folder of its own; a shard without one has none."""
    write_receipt(str(tmp_path), RECEIPT)
    assert read_receipt(str(tmp_path), NAME) == RECEIPT
    assert read_receipt(str(tmp_path), OTHER) is None
    assert read_record_sizes(str(tmp_path), NAME) == (99,)
    assert read_record_sizes(str(tmp_path), OTHER) == ()
    assert receipts_there(str(tmp_path)) == {".receipts/d-train-00000-of-00002.json.gz"}


def test_a_receipt_replaces_that_of_its_shard_only(tmp_path: Path) -> None:
    """Those of other shards stay as they are."""
    spec = RECEIPT.inputs.spec._replace(number=1, file_name=OTHER)
    info = RECEIPT.info._replace(number=1, file_name=OTHER)
    other = replace(RECEIPT, inputs=replace(RECEIPT.inputs, spec=spec), info=info)
    write_receipt(str(tmp_path), RECEIPT)
    write_receipt(str(tmp_path), other)
    newer = replace(RECEIPT, inputs=replace(RECEIPT.inputs, options={"seed": 1}))
    write_receipt(str(tmp_path), newer)
    assert read_receipt(str(tmp_path), NAME) == newer
    assert read_receipt(str(tmp_path), OTHER) == other


def test_deleting_receipts_leaves_other_files(tmp_path: Path) -> None:
    """Nor is it an error where there are none; the folder goes with its last file."""
    write_receipt(str(tmp_path), RECEIPT)
    receipts = receipts_there(str(tmp_path))
    mine = tmp_path / ".receipts" / "mine.txt"
    mine.write_text("mine")
    (tmp_path / NAME).write_bytes(b"shard")
    delete_receipts(str(tmp_path), receipts)
    assert receipts_there(str(tmp_path)) == {".receipts/mine.txt"}
    mine.unlink()
    delete_receipts(str(tmp_path), receipts)
    assert sorted(os.listdir(tmp_path)) == [".incomplete", NAME]


def test_a_receipt_of_another_shard_is_damaged(tmp_path: Path) -> None:
    """The name inside counts, whatever the name of the file: nothing outside is ever written."""
    write_receipt(str(tmp_path), RECEIPT)
    folder = tmp_path / ".receipts"
    (folder / "d-train-00000-of-00002.json.gz").rename(folder / "d-train-00001-of-00002.json.gz")
    with pytest.raises(ConversionError, match=f"it is of '{NAME}', not of {OTHER}; remove it"):
        read_receipt(str(tmp_path), OTHER)


@pytest.mark.timeout(20)
def test_a_pipe_is_no_receipt(tmp_path: Path) -> None:
    """Nobody waits for what may come through it."""
    (tmp_path / ".receipts").mkdir()
    os.mkfifo(tmp_path / ".receipts" / "d-train-00000-of-00002.json.gz")
    with pytest.raises(ConversionError, match="cannot be read: a pipe, socket or device, not a"):
        read_receipt(str(tmp_path), NAME)


def test_a_damaged_receipt_is_an_error_that_names_it(tmp_path: Path) -> None:
    """It is never taken for none, which would have its shard written again."""
    write_receipt(str(tmp_path), RECEIPT)
    path = tmp_path / ".receipts" / "d-train-00000-of-00002.json.gz"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ConversionError, match=f"{path} is damaged"):
        read_receipt(str(tmp_path), NAME)
