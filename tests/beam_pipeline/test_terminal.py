"""Text from data on its way to a terminal: whole commands with hostile names."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from beam_pipeline.terminal import complain, say
from tests.harness import ALL_BAD, NONE_BAD, dead_letters_of, manifest_of
from tests.pictures import write_files, write_pictures

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
    asked = run(
        "convert", *where
    )  # about l.csv: what was found, why there is no command, and what to do
    assert asked.returncode == 2
    assert len(asked.stderr.splitlines()) == 3, asked.stderr
    assert r"\x1bx\ny, \u202ez" in asked.stderr
    assert NOT_PLAIN.search(asked.stderr) is None


SIGNED = f"https://host/c.jpg?X-Goog-Expires=9&X-Goog-Signature={SECRETS[0]}"
WITH_PASSWORD = f"https://me:{SECRETS[1]}@host/d.jpg"


def _table(folder: Path) -> str:
    rows = f"{SIGNED},x\n{WITH_PASSWORD},y\n{SIGNED},x,y\n"
    write_files(str(folder), {"l.csv": f"filename,label\na.jpg,x\nb.jpg,y\nc.jpg,x\n{rows}"})
    return f"{folder}/l.csv"


def _coco(folder: Path) -> str:
    names = ["a.jpg", "b.jpg", "c.jpg", SIGNED, WITH_PASSWORD]
    images = [
        {"id": i, "file_name": name, "width": 9, "height": 7, "coco_url": SIGNED}
        for i, name in enumerate(names)
    ]
    boxes = [{"id": i, "image_id": i % 6, "category_id": 1, "bbox": [1, 1, 3, 3]} for i in range(7)]
    description = {"description": WITH_PASSWORD, "url": SIGNED}
    content = {"info": description, "licenses": [{"id": 1, "url": SIGNED}], "images": images}
    content |= {"annotations": boxes, "categories": [{"id": 1, "name": "cat"}]}
    write_files(str(folder), {"l.json": json.dumps(content)})
    return f"{folder}/l.json"


@pytest.mark.slow
@pytest.mark.promise("secrets")
@pytest.mark.parametrize("labels", [_table, _coco])
def test_signed_urls_and_passwords_are_in_no_output(
    tmp_path: Path, labels: Callable[[Path], str]
) -> None:
    """Of rows that name no image: neither on the terminal nor in any file, whichever command runs."""
    photos = tmp_path / "photos"
    write_pictures(str(photos), ["a.jpg", "b.jpg"])
    shutil.copy(photos / "a.jpg", photos / "c.jpg")
    argv = ["--images", str(photos), "--labels", labels(tmp_path), "--name", "d", "--yes"]
    first, second, refused = (str(tmp_path / name) for name in ("1", "2", "refused"))
    first_night = [
        ("plan", *argv, ALL_BAD, "--output", first),
        ("convert", *argv, ALL_BAD, "--output", first),
        ("convert", *argv, NONE_BAD, "--output", refused),
    ]
    second_night = [
        ("convert", *argv, ALL_BAD, "--output", second, "--reuse", first),
        ("diff", first, second),
        ("inspect", second),
        ("inspect", second, "--key", SIGNED),
        ("inspect", second, "--key", WITH_PASSWORD),
        ("index", second),
        ("verify", second),
        ("repair", second),
    ]
    done = [run(*command) for command in first_night]
    assert [one.returncode for one in done] == [0, 0, 1], [one.stderr for one in done]
    write_pictures(str(photos), ["b.jpg"])
    done += [run(*command) for command in second_night]
    printed = [text for one in done for text in (one.stdout, one.stderr)]
    files = [path for path in tmp_path.glob("[12r]*/**/*") if path.is_file()]
    names = {path.name for path in files}
    assert {"README.md", "croissant.json", "report.html", "changes.json"} <= names
    assert {"duplicates.json", "dead_letters.jsonl", "manifest.json"} <= names
    found = printed + [_content(path) for path in files]
    assert [text for text in found if any(secret in text for secret in SECRETS)] == []
    keys = {letter["key"] for letter in dead_letters_of(second)}
    assert {"https://...@host/d.jpg", "https://host/c.jpg?..."} <= keys


@pytest.mark.slow
@pytest.mark.promise("secrets")
@pytest.mark.parametrize("url", [SIGNED, WITH_PASSWORD])
def test_signed_urls_and_passwords_among_options_are_not_printed(tmp_path: Path, url: str) -> None:
    """Nor kept in a file, where no option takes a URL of the web."""
    write_pictures(f"{tmp_path}/photos", ["a/1.jpg", "b/2.jpg"])
    images, output = ["--images", f"{tmp_path}/photos"], ["--output", f"{tmp_path}/out"]
    for command in (
        ["convert", "--images", url, *output],
        ["plan", *images, "--labels", url],
        ["convert", *images, "--output", url],
        ["convert", *images, *output, "--inventory", url],
        ["convert", *images, *output, "--reuse", url],
        ["convert", *images, *output, "--classes", url],
        ["convert", *images, *output, "--exclude", url],
        ["inspect", url],
        ["diff", url, url],
        ["verify", url],
    ):
        done = run(*command)
        assert done.returncode in (1, 2), command
        assert [secret for secret in SECRETS if secret in done.stdout + done.stderr] == [], command
    files = [path for path in (tmp_path / "out").glob("**/*") if path.is_file()]
    found = [_content(path) for path in files]
    assert [text for text in found if any(secret in text for secret in SECRETS)] == []


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
