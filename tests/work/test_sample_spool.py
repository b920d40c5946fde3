from __future__ import annotations

from pathlib import Path

import pytest

from beam_pipeline.core.references import SampleRef
from beam_pipeline.storage.files import read_image
from beam_pipeline.work.records import SampleSpool, SpoolReader


@pytest.mark.parametrize("count", [0, 1, 4096, 5000])  # references are written in chunks of 4096
def test_samples_are_found_by_their_references(tmp_path: Path, count: int) -> None:
    """Each reference leads to the bytes of its example, and has its key, split and classes."""
    spool = SampleSpool(str(tmp_path / "spool"))
    with spool:
        for number in range(count):
            spool.add(f"k{number}", "train", (f"c{number % 3}",), b"x" * (number % 7) + b"!")
    refs = list(SpoolReader().read(spool.index_path, ""))
    assert len(refs) == count
    for number in {0, 1, 4095, 4096, 4999} & set(range(count)):
        ref = refs[number]
        assert isinstance(ref, SampleRef)
        assert ref.key == f"k{number}"
        assert (ref.split, ref.labels) == ("train", ((f"c{number % 3}",),))
        assert read_image(ref.uri, ref.size, ref.offset) == b"x" * (number % 7) + b"!"


def test_a_spool_is_never_written_over(tmp_path: Path) -> None:
    """Two jobs that were given one folder would mix their samples."""
    with SampleSpool(str(tmp_path)):
        pass
    with pytest.raises(FileExistsError), SampleSpool(str(tmp_path)):
        pass
