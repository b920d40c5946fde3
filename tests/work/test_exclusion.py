"""Keys to leave out, on their way to workers."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from beam_pipeline.core.errors import ChangedInputsError
from beam_pipeline.work import exclusion
from beam_pipeline.work.exclusion import read_exclusion

KEYS = "".join(f"class_{i % 100:03d}/img_{i:07d}.jpg\n" for i in range(100_000)).encode()


@pytest.mark.parametrize("workers_read_it", [False, True])
def test_many_keys_travel_in_few_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers_read_it: bool
) -> None:
    """By the name of a file that workers see, else deflated to a tenth; the keys arrive."""
    monkeypatch.setattr(exclusion, "is_remote", lambda _: workers_read_it)
    exclusion._arrived.cache_clear()
    path = tmp_path / "keys.txt"
    path.write_bytes(KEYS)
    pickled = pickle.dumps(replace(read_exclusion(KEYS, str(path)), files=(1, 3)))
    assert len(pickled) < (300 + len(str(path)) if workers_read_it else len(KEYS) / 8)
    arrived = pickle.loads(pickled)
    assert arrived == read_exclusion(KEYS, str(path), (1, 3))
    assert len(arrived.lines) == 100_000
    assert pickle.dumps(arrived) == pickled
    assert pickle.loads(pickled) is arrived


def test_a_file_that_changes_while_the_job_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is an error: workers would leave out different images."""
    monkeypatch.setattr(exclusion, "is_remote", lambda _: True)
    path = tmp_path / "keys.txt"
    path.write_bytes(b"a.jpg\n")
    pickled = pickle.dumps(read_exclusion(b"a.jpg\n", str(path)))
    path.write_bytes(b"b.jpg\n")
    with pytest.raises(
        ChangedInputsError, match=r"--exclude: .*keys.txt has changed since the job"
    ):
        pickle.loads(pickled)
