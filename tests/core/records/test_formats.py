"""The registry of record formats, and what all formats promise."""

from __future__ import annotations

import io
import pickle
import sys
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from beam_pipeline.core.errors import DamagedRecordError, UsageError
from beam_pipeline.core.records import formats
from beam_pipeline.core.records.record_format import EncodedSample, RecordFormat
from beam_pipeline.core.records.tfrecord import TFRecordFormat
from tests.core.records.fixtures import Memory, record_of


def test_the_default_is_a_plain_tfrecord() -> None:
    """Nothing said gives what every reader reads."""
    assert formats.DEFAULT_FORMAT == "tfrecord"
    assert formats.COMPRESSIONS == ("none", "gzip")
    assert formats.record_format() == TFRecordFormat("none")
    assert formats.record_format("gzip") == TFRecordFormat("gzip")
    assert formats.recorded_format({"compression": "gzip", "seed": 3}) == TFRecordFormat("gzip")
    assert formats.format_options(TFRecordFormat("gzip")) == {"compression": "gzip"}
    assert formats.format_of("shard").name == formats.DEFAULT_FORMAT


def test_an_unknown_format_or_compression_is_refused() -> None:
    """The message has what was found and what is expected."""
    with pytest.raises(UsageError, match=r"'zip', expected none or gzip for tfrecord"):
        formats.record_format("zip")
    with pytest.raises(UsageError, match=r"--format is 'tar', expected one of tfrecord, "):
        formats.record_format("none", "tar")


@pytest.mark.parametrize(
    "chosen", [found(how) for found in formats.FORMATS.values() for how in found.compressions]
)
def test_a_recorded_format_is_read_back(chosen: TFRecordFormat) -> None:
    """Every format comes back from the options of a manifest."""
    assert formats.recorded_format(formats.format_options(chosen)) == chosen


SAMPLES = [
    EncodedSample(b"", record_of({"image/encoded": [bytes([number]) * 50]}), b"")
    for number in range(5)
]
RECORDS = [sample.record for sample in SAMPLES]


@pytest.fixture(
    params=[found(how) for found in formats.FORMATS.values() for how in found.compressions],
    ids=lambda found: f"{found.name} {found.compression}",
)
def record_format(request: pytest.FixtureRequest) -> RecordFormat:
    """Each format with each compression."""
    found: RecordFormat = request.param
    try:
        found.check_installed()
    except UsageError as error:
        pytest.skip(str(error))
    return found


@pytest.fixture
def shard(record_format: RecordFormat) -> bytes:
    """A shard of five records."""
    sink = Memory()
    writer = record_format.writer(sink)
    for number, sample in enumerate(SAMPLES):
        writer.write(sample, f"photos/{number}.jpg")
    writer.finish()
    assert (writer.bytes, writer.crc32c) == (len(sink.data), google_crc32c.value(sink.data))
    return sink.data


def test_a_format_is_a_value(record_format: RecordFormat) -> None:
    """A copy that another process gets is equal to it and has the same hash."""
    copy = pickle.loads(pickle.dumps(record_format))
    assert copy == record_format
    assert hash(copy) == hash(record_format)
    assert copy.compression in copy.compressions


def test_its_files_are_known_by_their_names(record_format: RecordFormat) -> None:
    """Shards and their indexes match the pattern; no receipt and no other file does."""
    name = record_format.shard_name("a.b", "train", 3, 16)
    index, receipt = record_format.index_name(name), f"{record_format.receipt_stem(name)}.json.gz"
    assert len({name, index, receipt}) == 3
    assert index or not record_format.indexable
    assert formats.format_of(name).name == record_format.name
    for matches in (record_format.file_names.fullmatch, formats.format_of_file):
        assert matches(name)
        assert matches(index) or not record_format.indexable
        for other in (receipt, "manifest.json", "labels.txt", "photo.jpg", f"{name}.bak"):
            assert not matches(other)


def test_a_shard_is_read_back_in_order(record_format: RecordFormat, shard: bytes) -> None:
    """Every record comes back whole."""
    assert list(record_format.records(io.BytesIO(shard), "x")) == RECORDS


@pytest.mark.parametrize("wanted", [range(5), range(2), range(1, 3), range(4, 5), range(3, 9)])
def test_a_range_of_records_is_read_back(
    record_format: RecordFormat, shard: bytes, wanted: range
) -> None:
    """As many as the shard has of it; none beyond its end."""
    found = list(record_format.records_in(io.BytesIO(shard), "x", wanted))
    assert found == RECORDS[wanted.start : wanted.stop]
    assert list(record_format.records_in(io.BytesIO(shard), "x", range(7, 9))) == []


def test_sizes_lead_to_the_records(record_format: RecordFormat, shard: bytes) -> None:
    """They follow one another from the first byte to the last, where a format has them."""
    if not record_format.indexable:
        pytest.skip("no reader can jump into such a file")
    end = 0
    for record, size in zip(RECORDS, record_format.sizes(io.BytesIO(shard), "x"), strict=True):
        assert record in shard[end : end + size]
        end += size
    assert end == len(shard)


def test_a_shard_without_records_is_read_back(record_format: RecordFormat) -> None:
    """A split of few samples has such shards."""
    sink = Memory()
    writer = record_format.writer(sink)
    writer.finish()
    assert list(record_format.records(io.BytesIO(sink.data), "x")) == []


@pytest.mark.parametrize("end", [30, -30])
def test_a_shard_that_is_cut_short_is_damaged(
    record_format: RecordFormat, shard: bytes, end: int
) -> None:
    """The error names the file."""
    with pytest.raises(DamagedRecordError, match=r"^x"):
        list(record_format.records(io.BytesIO(shard[:end]), "x"))


# --- array record ----------------------------------------------------------------------------


FORMAT = formats.ArrayRecordFormat()
LARGE_RECORDS = [bytes([number]) * 3000 for number in range(40)]


@pytest.fixture(scope="module")
def library() -> Any:
    return pytest.importorskip("array_record.python.array_record_module")


@pytest.fixture(scope="module")
def array_record_shard(library: Any) -> bytes:
    """A shard of 40 records."""
    sink = Memory()
    writer = FORMAT.writer(sink)
    for record in LARGE_RECORDS:
        writer.write(EncodedSample(record[:5], record[5:9], record[9:]), "key")
    writer.finish()
    return sink.data


def test_names_are_those_of_tfds() -> None:
    """TFDS puts its name of the format where the extension is."""
    name = FORMAT.shard_name("pets", "train", 3, 16)
    assert name == "pets-train.array_record-00003-of-00016"
    assert FORMAT.receipt_stem(name) == "pets-train-00003-of-00016"
    assert f".{FORMAT.tfds_name}-" in name


def test_the_library_reads_any_record(
    library: Any, array_record_shard: bytes, tmp_path: Path
) -> None:
    """Each record is a group of its own, so that one read gets it."""
    path = tmp_path / "shard"
    path.write_bytes(array_record_shard)
    reader = library.ArrayRecordReader(str(path))
    assert reader.num_records() == len(LARGE_RECORDS)
    assert reader.read([39, 0, 17]) == [
        LARGE_RECORDS[39],
        LARGE_RECORDS[0],
        LARGE_RECORDS[17],
    ]
    assert "group_size:1," in reader.writer_options_string()


def test_a_local_file_is_read_where_it_lies(array_record_shard: bytes, tmp_path: Path) -> None:
    """Other files are copied first."""
    path = tmp_path / "shard"
    path.write_bytes(array_record_shard)
    with path.open("rb") as file:
        assert list(FORMAT.records(file, "x")) == LARGE_RECORDS
    with path.open("rb") as file:
        assert list(FORMAT.records_in(file, "x", range(30, 50))) == LARGE_RECORDS[30:]
    assert (
        list(FORMAT.records_in(io.BytesIO(array_record_shard), "x", range(3, 30)))
        == LARGE_RECORDS[3:30]
    )


def test_a_damaged_record_is_found(array_record_shard: bytes) -> None:
    """Its hash does not fit."""
    damaged = array_record_shard.replace(LARGE_RECORDS[20], LARGE_RECORDS[21])
    assert damaged != array_record_shard
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
