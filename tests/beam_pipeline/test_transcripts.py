"""Sessions in a shell: each file of transcripts/ has commands, and all that they print.

`python -m tests.beam_pipeline.test_transcripts [NAME...]` records them anew. A line that begins with `$ ` is a command,
`> ` goes on with its text up to END, `! ` is standard error, `[1]` an exit code. `beam-tfrecord` runs in this process, `images` writes
an image for each path of its patterns, no two alike, and Bash runs the rest. The working folder is shown as /data.
Progress and times are left out.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_pipeline.cli import main
from tests.conformance.trees import image, paths
from tests.harness import IN_PROCESS, process
from tests.pictures import write_files

FOLDER = Path(__file__).with_name("transcripts")
NAMES = sorted(path.stem for path in FOLDER.glob("*.txt"))
SLOW = {
    "classes",
    "duplicates",
    "overwrite",
    "plan",
    "questions_and_same_files",
    "repair",
    "resume",
    "reuse",
    "rows_as_samples",
}
TYPED = re.compile(r"^\$ .*<<END\n(?:> .*\n)+|^[#$] .*\n", re.MULTILINE)
LEFT_OUT = re.compile(
    r"^\d+ images? listed\n|^\d+ samples?, .* to write\n|^.* samples/s, .*\n|(?<=  time: )[\d.]+ s.*| --writers[ =]0",
    re.MULTILINE,
)


@pytest.mark.promise("damaged_later", "damaged_together", "hostile_manifest", "no_file")
@pytest.mark.promise("changed_between", "files_of_others", "refused", "unreadable_manifest")
@pytest.mark.promise(
    "reused", "reused_damaged", "duplicates", "excluded", "bad_image", "too_many_bad", "zeros"
)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in NAMES]
)
def test_a_session_is_as_recorded(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command ends with its exit code and prints these lines."""
    monkeypatch.chdir(tmp_path)
    recorded = FOLDER.joinpath(f"{name}.txt").read_text(encoding="utf-8")
    assert played(recorded) == recorded


def played(session: str) -> str:
    """A session whose commands have run in the working folder."""
    return "\n".join(_lines(session)).lstrip("\n")


def _lines(session: str) -> Iterator[str]:
    numbers = itertools.count()
    for typed in TYPED.findall(session):
        yield from ("", *typed.splitlines()) if typed.startswith("#") else typed.splitlines()
        if typed.startswith("$ images "):
            names = paths(*shlex.split(typed)[2:])
            write_files(".", {name: image(next(numbers), name) for name in names})
        elif typed.startswith("$ "):
            yield from ran(re.sub(r"^[$>] ", "", typed, flags=re.MULTILINE).strip())
    yield ""


def ran(command: str) -> Iterator[str]:
    """What a command prints, and its exit code if that is not 0."""
    if command.startswith("beam-tfrecord"):
        ours, _, piped = command.partition(" | ")
        code, out, err = program(shlex.split(ours)[1:])
        out = process("bash", "-c", piped, input=out).stdout if piped else out
    else:
        path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
        done = process("bash", "-c", command, env={**os.environ, "PATH": path, "LC_ALL": "C.UTF-8"})
        code, out, err = done.returncode, done.stdout, done.stderr
    out, err = (LEFT_OUT.sub("", text).replace(os.getcwd(), "/data") for text in (out, err))
    yield from (line.rstrip() for line in out.splitlines())
    yield from (f"! {line}".rstrip() for line in err.splitlines())
    if code:
        yield f"[{code}]"


def program(argv: list[str]) -> tuple[int, str, str]:
    """Runs `beam-tfrecord` in this process: its exit code, and what it printed."""
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
    ):
        try:
            own = argv[:1] != ["convert"] or "--writers" in argv
            code = main(argv if own else [*argv, *IN_PROCESS])
        except SystemExit as end:
            code = int(end.code or 0)
    return code, out.getvalue(), err.getvalue()


if __name__ == "__main__":
    for name in sys.argv[1:] or NAMES:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            file = FOLDER / f"{name}.txt"
            file.write_text(played(file.read_text(encoding="utf-8")), encoding="utf-8")
