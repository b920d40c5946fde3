"""The command line: options, what is wrong with them, and exit codes."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from beam_pipeline import cli, launch
from beam_pipeline.commands import COMMANDS
from beam_pipeline.core.errors import UsageError
from tests.harness import (
    convert,
    convert_in_process_of_its_own,
    python,
    run_shell,
)
from tests.pictures import write_files, write_pictures


@pytest.fixture(autouse=True)
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The working folder has ten images in two class folders, photos/a and photos/b."""
    monkeypatch.chdir(tmp_path)
    write_pictures("photos", [f"{'ab'[i % 2]}/{i}.jpg" for i in range(10)])
    write_files(
        "tables", {"boxes.csv": "filename,class,xmin,ymin,xmax,ymax\na/0.jpg,cat,1,1,3,3\n"}
    )
    return f"{tmp_path}/photos"


PHOTOS = ("--images", "photos", "--output", "out")


@pytest.mark.slow
def test_a_job_in_a_terminal_less_process_prints_plain_lines() -> None:
    """No control characters, no tracebacks, no warnings of Beam's."""
    done = convert_in_process_of_its_own(*PHOTOS)
    assert done.returncode == 0
    assert done.stderr == "10 images listed\n10 samples, 6.3 kB to write\n"
    *understood, wrote = done.stdout.splitlines()[:4]
    assert understood == [
        "Layout class_folders: no --labels and no other layout's files",
        "  path segment 1  class   2 folders, such as 'a'",
        "  .jpg files      images  10 files, such as '0.jpg'",
    ]
    assert wrote.startswith("Wrote 10 examples, ")


@pytest.mark.slow
def test_verify_and_help_import_no_beam() -> None:
    """Commands that run no job, help, and wrong options do without Beam, and without the completion of shells."""
    assert convert(*PHOTOS) == 0
    calls = [
        *((argv.split(), 0) for argv in ("verify out", "--help", "convert --help", "plan --help")),
        (["convert", *PHOTOS, "--seed=a"], 2),
        (["plan", *PHOTOS, "--workers=0"], 2),
        (["convert", "--images", "nowhere", "--output", "x"], 2),
    ]
    code = (
        "import sys; from beam_pipeline.cli import main\n"
        f"for argv, expected in {calls!r}:\n"
        "    try: code = main(argv)\n"
        "    except SystemExit as end: code = end.code\n"
        "    assert code == expected, argv\n"
        "    assert not {'apache_beam', 'argcomplete'} & sys.modules.keys(), argv"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


def help_of(*command: str) -> str:
    """The help as a person with a terminal of 80 columns sees it."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), pytest.MonkeyPatch.context() as patched:
        patched.setenv("COLUMNS", "80")
        with pytest.raises(SystemExit, match="0"):
            cli.main([*command[:1], "--help", *command[1:]])
    return text.getvalue()


@pytest.mark.parametrize("command", [(), *((name, "all") for name in COMMANDS)])
def test_help_fits_80_columns(command: tuple[str, ...]) -> None:
    """No line is longer, none is cut, and every command says what it does."""
    lines = help_of(*command).splitlines()
    assert lines[0].startswith(" ".join(["usage: beam-tfrecord", *command[:1]]))
    assert [line for line in lines if len(line) > 80 or line != line.rstrip()] == []
    assert len(" ".join(lines[2 : lines.index("", 2)])) > 30  # the description


@pytest.mark.parametrize(
    ("command", "rest"), [("convert", ["examples"]), ("plan", ["estimate", "examples"])]
)
def test_help_shows_the_groups_in_order(command: str, rest: list[str]) -> None:
    """Headings, in the order in which a person thinks of them."""
    headings = re.findall(r"^(\w.*):$", help_of(command, "all"), re.MULTILINE)
    groups = ["options", "inputs", "labels", "samples", "splits and shards", "images", "output"]
    groups += ["engine"]
    assert headings[: len(groups) + len(rest)] == [*groups, *rest]


@pytest.mark.slow
def test_the_examples_of_the_help_run() -> None:
    """Each example for this machine ends well; that for Dataflow is read without a complaint."""
    rows = "".join(f"{i}.jpg,{'ab'[i % 2]}\n" for i in range(10))
    write_files(".", {"labels.csv": f"filename,label\n{rows}"})
    ran = 0
    for command in ("convert", "plan"):
        examples = help_of(command).partition("\nexamples:\n")[2].replace("\\\n", "")
        for line in re.findall(r"^  (beam-tfrecord .*)$", examples, re.MULTILINE):
            if "Dataflow" in line:
                _, unknown = cli._parser().parse_known_args(shlex.split(line)[1:])
                assert launch.beam_parser().parse_known_args(unknown)[1] == []
            else:
                run_shell(line, ".")
                ran += 1
    assert ran == 5
    assert sorted(os.listdir()) == ["labels.csv", "photos", "split", "tables", "tfrecords"]


def test_a_command_runs_in_any_thread() -> None:
    """A program may call it from a thread that cannot catch Ctrl-C."""
    with ThreadPoolExecutor() as threads:
        assert threads.submit(cli.main, ["convert", *PHOTOS]).result() == cli.EXIT_DONE


def test_no_command_gives_a_short_help(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, so that a script notices; commands to begin with."""
    with pytest.raises(SystemExit) as end:
        cli.main([])
    assert end.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("beam-tfrecord turns images")
    assert "  beam-tfrecord demo" in lines
    with pytest.raises(UsageError, match="required: COMMAND"):
        cli._parser().parse_args([])


def test_the_help_lists_each_command_once_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    """By what a person wants to do; a command of no group comes last."""
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    text = capsys.readouterr().out
    listed = re.findall(r"^  (\w+)  +\w", text.partition("\noptions:")[0], re.MULTILINE)
    assert sorted(listed) == sorted(COMMANDS)
    assert listed[:3] == ["convert", "plan", "demo"]
    headings = ["make a data set", "look at one", "other", "options", "examples"]
    assert re.findall(r"^(\w[\w ]*):$", text, re.MULTILINE)[:5] == headings
    assert "--num-shards is --num_shards" in text.replace("\n", " ")


def completions(line: str) -> list[str]:
    """What the shell is told at the end of a line."""
    code = (
        "import os, sys\nr, w = os.pipe()\nos.dup2(w, 8)\n"
        "from beam_pipeline.cli import main\n"
        "os._exit = lambda code: (os.close(8), os.close(w), print(os.read(r, 99999).decode()), "
        "sys.stdout.flush(), sys.exit(code))\nmain([])"
    )
    point = str(len(line.encode()))
    asked = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": point, "_ARGCOMPLETE_IFS": " "}
    done = python("-c", code, env={**os.environ, **asked})
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.slow
def test_shells_complete_commands_options_and_values() -> None:
    """As `register-python-argcomplete` asks for them; a command's options without the others'."""
    assert completions("beam-tfrecord ins") == ["inspect"]
    assert set(COMMANDS) <= set(completions("beam-tfrecord "))
    assert completions("beam-tfrecord convert --num_s") == ["--num_shards"]
    assert completions("beam-tfrecord inspect out --wh") == ["--where"]
    assert completions("beam-tfrecord convert --compression g") == ["gzip"]
