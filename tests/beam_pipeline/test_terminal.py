"""Text from data on its way to a terminal: whole commands with hostile names."""

from __future__ import annotations

import csv
import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from beam_pipeline.terminal import complain, say
from tests.harness import dead_letters_of, manifest_of
from tests.pictures import write_pictures

NOT_PLAIN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
SECRETS = ("5e3c7e", "hunter2")


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    """Runs `beam-tfrecord` as a person would."""
    command = [sys.executable, "-m", "beam_pipeline", *argv]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_lines_are_printed_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    """A line break within a line is none on the terminal."""
    say("a", "b\nc", "")
    complain("\x1bd")
    printed = capsys.readouterr()
    assert printed.out == "a\nb\\nc\n\n"
    assert printed.err == "\\x1bd\n"


@pytest.mark.promise("terminal")
@pytest.mark.parametrize("command", ["convert", "plan"])
def test_hostile_names_reach_no_terminal(tmp_path: Path, command: str) -> None:
    """Of class folders, files, extensions and the output folder; the files of the data set keep them."""
    photos = tmp_path / "pho\x1b[1mtos"
    names = ["\x1b[2Jcat\nError: no/\u202ea\x07.jpg", "d\x9bog/b\x1b]0;x.jpg"]
    write_pictures(str(photos), [*names, "top\x1b[5m.jpg"])
    (photos / "x.t\x1bxt").write_text("x")
    output = str(tmp_path / "ou\x1bt")
    done = run(command, "--images", str(photos), "--output", output)
    assert done.returncode == 0, done.stderr
    for text in (done.stdout, done.stderr):
        assert NOT_PLAIN.search(text) is None
        assert "\nError" not in text
    assert r"\x1b[2Jcat\nError: no" in done.stdout
    if command == "convert":
        assert {c["name"] for c in manifest_of(output)["classes"]} == {
            "\x1b[2Jcat\nError: no",
            "d\x9bog",
        }
        assert dead_letters_of(output)[0]["key"] == "top\x1b[5m.jpg"


@pytest.mark.slow
@pytest.mark.promise("terminal")
def test_hostile_columns_and_options_reach_no_terminal(tmp_path: Path) -> None:
    """In errors, whatever they are about."""
    write_pictures(str(tmp_path / "photos"), ["a.jpg"])
    with open(tmp_path / "l.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["filename", "\x1bx\ny", "\u202ez"], ["a.jpg", "1", "2"]])
    where = ["--images", str(tmp_path / "photos"), "--output", str(tmp_path / "out")]
    for more in (
        ["--labels", str(tmp_path / "l.csv")],
        ["--labels", f"{tmp_path}/\x1b[2J\n.csv"],
        ["--seed", "\x1b[2J"],
        ["--\x1b[2J"],
    ):
        done = run("convert", *where, *more, "--yes")
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1, done.stderr
        assert NOT_PLAIN.search(done.stderr) is None
    asked = run("convert", *where)  # about l.csv: what was found, a command, and how to go on
    assert asked.returncode == 2
    assert len(asked.stderr.splitlines()) == 4, asked.stderr
    assert r"\x1bx\ny, \u202ez" in asked.stderr
    assert NOT_PLAIN.search(asked.stderr) is None


@pytest.mark.slow
@pytest.mark.promise("secrets")
def test_signed_urls_and_passwords_are_in_no_output(tmp_path: Path) -> None:
    """Of rows that name no image: neither on the terminal nor in any file."""
    write_pictures(str(tmp_path / "photos"), ["a.jpg", "b.jpg"])
    signed = f"https://host/c.jpg?X-Goog-Expires=9&X-Goog-Signature={SECRETS[0]}"
    secret = f"https://me:{SECRETS[1]}@host/d.jpg"
    labels = tmp_path / "l.csv"
    labels.write_text(f"filename,label\na.jpg,x\nb.jpg,y\n{signed},x\n{secret},y\n{signed},x,y\n")
    found = []
    for command, fraction in (("plan", "1"), ("convert", "1"), ("convert", "0")):
        output = tmp_path / f"out{fraction}"
        done = run(
            *(command, "--images", str(tmp_path / "photos"), "--labels", str(labels)),
            *("--output", str(output), "--max_bad_fraction", fraction),
        )
        assert done.returncode == 1 - int(fraction), done.stderr
        found += [done.stdout, done.stderr]
        found += [_content(path) for path in output.rglob("*") if path.is_file()]
    assert [text for text in found if any(secret in text for secret in SECRETS)] == []
    dead_letters = dead_letters_of(tmp_path / "out1")
    assert sorted(dead_letter["key"] for dead_letter in dead_letters if dead_letter["key"]) == [
        "https://...@host/d.jpg",
        "https://host/c.jpg?...",
    ]


def _content(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("latin-1")


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "iso8859-1"])
def test_a_terminal_of_another_encoding_gets_escapes(tmp_path: Path, encoding: str) -> None:
    """No character that it lacks ends the program."""
    write_pictures(str(tmp_path / "photos"), ["猫/a.jpg", "dog/b.jpg"])
    command = [
        sys.executable,
        "-m",
        "beam_pipeline",
        "convert",
        "--images",
        "photos",
        "--output",
        "o",
    ]
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert rb"\u732b (1)" in done.stdout
