from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.core.errors import DamagedRecordError, UsageError
from beam_pipeline.core.records.array_record import ArrayRecordFormat
from beam_pipeline.core.records.record_format import EncodedSample
from tests.core.records.fixtures import Memory

FORMAT = ArrayRecordFormat()
RECORDS = [bytes([number]) * 3000 for number in range(40)]


@pytest.fixture(scope="module")
def library() -> Any:
    return pytest.importorskip("array_record.python.array_record_module")


@pytest.fixture(scope="module")
def shard(library: Any) -> bytes:
    """A shard of 40 records."""
    sink = Memory()
    writer = FORMAT.writer(sink)
    for record in RECORDS:
        writer.write(EncodedSample(record[:5], record[5:9], record[9:]), "key")
    writer.finish()
    return sink.data


def test_names_are_those_of_tfds() -> None:
    """TFDS puts its name of the format where the extension is."""
    name = FORMAT.shard_name("pets", "train", 3, 16)
    assert name == "pets-train.array_record-00003-of-00016"
    assert FORMAT.receipt_stem(name) == "pets-train-00003-of-00016"
    assert f".{FORMAT.tfds_name}-" in name


def test_the_library_reads_any_record(library: Any, shard: bytes, tmp_path: Path) -> None:
    """Each record is a group of its own, so that one read gets it."""
    path = tmp_path / "shard"
    path.write_bytes(shard)
    reader = library.ArrayRecordReader(str(path))
    assert reader.num_records() == len(RECORDS)
    assert reader.read([39, 0, 17]) == [RECORDS[39], RECORDS[0], RECORDS[17]]
    assert "group_size:1," in reader.writer_options_string()


def test_a_local_file_is_read_where_it_lies(shard: bytes, tmp_path: Path) -> None:
    """Other files are copied first."""
    path = tmp_path / "shard"
    path.write_bytes(shard)
    with path.open("rb") as file:
        assert list(FORMAT.records(file, "x")) == RECORDS
    with path.open("rb") as file:
        assert list(FORMAT.records_in(file, "x", range(30, 50))) == RECORDS[30:]
    assert list(FORMAT.records_in(io.BytesIO(shard), "x", range(3, 30))) == RECORDS[3:30]


def test_a_damaged_record_is_found(shard: bytes) -> None:
    """Its hash does not fit."""
    damaged = shard.replace(RECORDS[20], RECORDS[21])
    assert damaged != shard
    with pytest.raises(DamagedRecordError, match=r"x: among the records from 16 on: .*mismatch"):
        list(FORMAT.records(io.BytesIO(damaged), "x"))


@pytest.mark.parametrize("content", [b"", b"no records " * 100])
def test_another_file_is_no_shard(library: Any, content: bytes) -> None:
    """The message says so."""
    with pytest.raises(DamagedRecordError, match="x: not an ArrayRecord file"):
        list(FORMAT.records(io.BytesIO(content), "x"))


def test_without_the_package_there_is_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command that installs it, or another format."""
    monkeypatch.setitem(sys.modules, "array_record.python", None)
    with pytest.raises(UsageError, match=r"pip install 'beam-tfrecord\[array_record\]'.*--format"):
        FORMAT.check_installed()
