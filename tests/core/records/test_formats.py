from __future__ import annotations

import pytest

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.records.formats import (
    COMPRESSIONS,
    DEFAULT_FORMAT,
    FORMATS,
    format_of,
    format_options,
    record_format,
    recorded_format,
)
from beam_pipeline.core.records.tfrecord_format import TFRecordFormat


def test_the_default_is_a_plain_tfrecord() -> None:
    """Nothing said gives what every reader reads."""
    assert DEFAULT_FORMAT == "tfrecord"
    assert COMPRESSIONS == ("none", "gzip")
    assert record_format() == TFRecordFormat("none")
    assert record_format("gzip") == TFRecordFormat("gzip")


def test_an_unknown_format_or_compression_is_refused() -> None:
    """The message has what was found and what is expected."""
    with pytest.raises(UsageError, match=r"'zip', expected one of \('none', 'gzip'\) for tfrecord"):
        record_format("zip")
    with pytest.raises(UsageError, match=r"--format is 'tar', expected one of \('tfrecord', "):
        record_format("none", "tar")


@pytest.mark.parametrize(
    "chosen", [found(how) for found in FORMATS.values() for how in found.compressions]
)
def test_a_recorded_format_is_read_back(chosen: TFRecordFormat) -> None:
    """Every format comes back from the options of a manifest."""
    assert recorded_format(format_options(chosen)) == chosen


def test_older_manifests_name_no_format() -> None:
    """They are TFRecords, and a TFRecord is recorded as it was then."""
    assert recorded_format({"compression": "gzip", "seed": 3}) == TFRecordFormat("gzip")
    assert format_options(TFRecordFormat("gzip")) == {"compression": "gzip"}


def test_a_format_is_known_by_the_name_of_a_shard() -> None:
    """A name of no format is taken for one of the default's."""
    assert format_of("x-train.tfrecord-00000-of-00001.gz").name == "tfrecord"
    assert format_of("shard").name == DEFAULT_FORMAT
