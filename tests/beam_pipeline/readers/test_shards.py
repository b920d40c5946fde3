"""Opening shards for readers: whatever the system says is an error that names the shard."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.readers.shards import open_shard


@pytest.mark.skipif(sys.platform != "linux", reason="the file is Linux's")
def test_an_error_while_reading_names_the_shard() -> None:
    """As a disk that fails in the middle of a file; this one opens, and gives no byte."""
    failing = "/proc/self/mem"
    with (
        pytest.raises(DamagedRecordError, match=f"^{failing} cannot be read: Input/output error$"),
        open_shard(failing) as file,
    ):
        file.read(1)


def test_what_cannot_be_opened_names_the_shard(tmp_path: Path) -> None:
    """A file that is not there, or is a folder."""
    with (
        pytest.raises(DamagedRecordError, match=r"gone cannot be read: No such file or directory$"),
        open_shard(f"{tmp_path}/gone"),
    ):
        pass
    with (
        pytest.raises(DamagedRecordError, match=f"{tmp_path} cannot be read"),
        open_shard(str(tmp_path)),
    ):
        pass
