"""The claim of an output folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from beam_pipeline.core.errors import OutputError
from beam_pipeline.work.output_claim import claimed, held_claims

HOLD = """
import sys
from beam_pipeline.work.output_claim import claimed
with claimed(sys.argv[1]):
    print("claimed", flush=True)
    sys.stdin.read()
"""


def test_one_claim_at_a_time(tmp_path: Path) -> None:
    """The second is refused in one sentence, and granted when the first has ended."""
    with claimed(str(tmp_path)):
        assert len(held_claims()) == 1
        with (
            pytest.raises(
                OutputError, match=f"another job is writing to {tmp_path}. Nothing of it"
            ),
            claimed(str(tmp_path)),
        ):
            pass
    assert held_claims() == ()
    with claimed(str(tmp_path)):
        assert os.listdir(tmp_path) == []


def test_a_claim_ends_with_its_process(tmp_path: Path) -> None:
    """After SIGKILL nothing has to be removed by hand."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"claimed\n"
        with pytest.raises(OutputError, match="another job"), claimed(str(tmp_path)):
            pass
        process.kill()
        process.wait()
        with claimed(str(tmp_path)):
            pass


def test_a_claim_lasts_as_long_as_a_process_that_shares_it(tmp_path: Path) -> None:
    """A writer process that outlives its launcher for a moment keeps the folder."""
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with claimed(str(tmp_path)):
        writer = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=held_claims())
    with writer:
        with pytest.raises(OutputError, match="another job"), claimed(str(tmp_path)):
            pass
        writer.kill()
        writer.wait()
        with claimed(str(tmp_path)):
            pass


def test_a_folder_is_made(tmp_path: Path) -> None:
    """With its parents; without `make` it has to be there."""
    with claimed(f"{tmp_path}/a/b", make=True):
        assert os.path.isdir(tmp_path / "a" / "b")
    with (
        pytest.raises(OutputError, match="cannot be opened: No such file"),
        claimed(f"{tmp_path}/c"),
    ):
        pass


@pytest.mark.parametrize("path", ["file", "file/out", "link"])
def test_a_folder_that_cannot_be_made(tmp_path: Path, path: str) -> None:
    """A file or a dangling link is in the way."""
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("nowhere")
    message = f"the output folder {tmp_path}/{path} cannot be made"
    with pytest.raises(OutputError, match=message), claimed(f"{tmp_path}/{path}", make=True):
        pass


def test_a_bucket_is_not_claimed() -> None:
    """There is nothing to lock."""
    with claimed("gs://bucket/out", make=True):
        assert held_claims() == ()
