"""What a person sees: lines, progress, names in any locale, and the summary at the end."""

from __future__ import annotations

import contextlib
import csv
import gzip
import json
import os
import pty
import re
import shutil
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline import cli, summary, terminal
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.references import SampleRef
from beam_pipeline.core.text import enumerated, human_size
from beam_pipeline.storage.listing import list_local_root
from beam_pipeline.work.job import Counts, report_progress
from beam_pipeline.work.writing import reported
from tests import harness
from tests.pictures import picture, write_files, write_pictures
from tests.rows import in_rows

# --- terminal --------------------------------------------------------------------------------------

NOT_PLAIN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
SECRETS = ("5e3c7e", "hunter2")


def test_lines_are_printed_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    """A line break within a line is none on the terminal."""
    terminal.say("a", "b\nc", "")
    terminal.complain("\x1bd")
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
    done = harness.program(command, "--images", str(photos), "--output", output)
    assert done.returncode == 0, done.stderr
    for text in (done.stdout, done.stderr):
        assert NOT_PLAIN.search(text) is None
        assert "\nError" not in text
    assert r"\x1b[2Jcat\nError: no" in done.stdout
    if command == "convert":
        assert {c["name"] for c in harness.manifest_of(output)["classes"]} == {
            "\x1b[2Jcat\nError: no",
            "d\x9bog",
        }
        assert harness.dead_letters_of(output)[0]["key"] == "top\x1b[5m.jpg"


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
        done = harness.program("convert", *where, *more, "--yes")
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1, done.stderr
        assert NOT_PLAIN.search(done.stderr) is None
    # about l.csv: what was found, why there is no command, and what to do
    asked = harness.program("convert", *where)
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


NIGHTS = """
plan {argv} --max_bad_fraction=1 --output 1
convert {argv} --max_bad_fraction=1 --output 1
convert {argv} --max_bad_fraction=0 --output refused
images
convert {argv} --max_bad_fraction=1 --output 2 --reuse 1
diff 1 2
inspect 2
inspect 2 --key {signed}
inspect 2 --key {with_password}
index 2
verify 2
repair 2
"""
OF_AN_OPTION = """
convert --images {url} --output out
plan --images photos --labels {url}
convert --images photos --output {url}
convert --images photos --output out --inventory {url}
convert --images photos --output out --reuse {url}
convert --images photos --output out --classes {url}
convert --images photos --output out --exclude {url}
inspect {url}
diff {url} {url}
verify {url}
"""


def contents(*texts: str) -> list[str]:
    """The texts, and the files that are written, of which none may contain a secret."""
    written = [*Path().glob("[12r]*/**/*"), *Path().glob("out/**/*")]
    files = [path.read_bytes() for path in written if path.is_file()]
    plain = [gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data for data in files]
    return [*texts, *(data.decode("latin-1") for data in plain)]


@pytest.mark.slow
@pytest.mark.promise("secrets")
@pytest.mark.parametrize("labels", [_table, _coco])
def test_signed_urls_and_passwords_are_in_no_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, labels: Callable[[Path], str]
) -> None:
    """Of rows that name no image: neither on the terminal nor in any file, whichever command runs."""
    monkeypatch.chdir(tmp_path)
    write_pictures("photos", ["a.jpg", "b.jpg"])
    shutil.copy("photos/a.jpg", "photos/c.jpg")
    argv = f"--images photos --labels {labels(tmp_path)} --name d --yes"
    printed: list[str] = []
    for line in NIGHTS.format(argv=argv, signed=SIGNED, with_password=WITH_PASSWORD).splitlines():
        if line == "images":
            write_pictures("photos", ["b.jpg"])
        elif line:
            done = harness.program(*line.split())
            assert done.returncode == ("refused" in line or "--key" in line), (line, done.stderr)
            printed += [done.stdout, done.stderr]
    assert [t for t in contents(*printed) if any(secret in t for secret in SECRETS)] == []
    names = {"README.md", "croissant.json", "report.html", "changes.json", "duplicates.json"}
    assert {*names, "dead_letters.jsonl", "manifest.json"} <= set(os.listdir("2"))
    keys = {letter["key"] for letter in harness.dead_letters_of("2")}
    assert {"https://...@host/d.jpg", "https://host/c.jpg?..."} <= keys


@pytest.mark.slow
@pytest.mark.promise("secrets")
@pytest.mark.parametrize("url", [SIGNED, WITH_PASSWORD])
def test_signed_urls_and_passwords_among_options_are_not_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    """Nor kept in a file, where no option takes a URL of the web."""
    monkeypatch.chdir(tmp_path)
    write_pictures("photos", ["a/1.jpg", "b/2.jpg"])
    for line in OF_AN_OPTION.format(url=url).strip().splitlines():
        done = harness.program(*line.split())
        assert done.returncode in (1, 2), line
        found = contents(done.stdout, done.stderr)
        assert [t for t in found if any(secret in t for secret in SECRETS)] == [], line


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "iso8859-1"])
def test_a_terminal_of_another_encoding_gets_escapes(tmp_path: Path, encoding: str) -> None:
    """No character that it lacks ends the program."""
    write_pictures(str(tmp_path / "photos"), ["猫/a.jpg", "dog/b.jpg"])
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    done = harness.program("convert", "--images", "photos", "--output", "o", cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert r"\u732b (1)" in done.stdout


# --- progress --------------------------------------------------------------------------------------


def test_a_terminal_shows_one_line_that_changes(tmp_path: Path) -> None:
    """The images that are listed, then samples and bytes of how many, the rate and the time left; the last state stays."""
    images = write_pictures(str(tmp_path / "photos"), [f"a/{i}.png" for i in range(400)])
    size = human_size(sum(map(len, images.values())))
    ours, theirs = pty.openpty()
    inputs = ("--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out", "--image_check=full")
    shown = b""
    with harness.job(*inputs, "--writers=0", "--num_shards=20", stderr=theirs) as running:
        os.close(theirs)
        with contextlib.suppress(OSError):  # the terminal's other end is closed
            while True:
                shown += os.read(ours, 4096)
        assert running.wait() == 0
    *before, last, end = re.split("[\r\n]+", shown.decode())
    states = [line.strip() for line in before if line.strip()]
    assert states[:2] == ["400 images listed", f"400 samples, {size} to write"]
    assert all(re.fullmatch(rf"\d+ of 400 samples, .* of {size}, .*", line) for line in states[2:])
    rate = r"[1-9]\d* samples/s, [1-9][\d.]* [kM]?B/s, 0 s left"
    assert re.fullmatch(f"400 of 400 samples, {size} of {size}, {rate}", last)
    assert end == ""


def test_plain_lines_say_how_far_the_job_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a log: a line at the beginning and one now and then."""
    monkeypatch.setattr("beam_pipeline.terminal._LINE_INTERVAL", 0.0)
    with terminal.show_progress():
        report_progress(Counts(samples=1000, image_bytes=5_000_000, is_total=True))
        refs = [SampleRef(str(n), "", 5000, "train", ()) for n in range(10)]
        assert list(reported(refs)) == refs
    first, *rest = capsys.readouterr().err.splitlines()
    assert first == "1000 samples, 5.0 MB to write"
    assert rest[-1].startswith("10 of 1000 samples, 50.0 kB of 5.0 MB, ")
    assert rest[-1].endswith(" s left")


def test_listed_images_are_counted_from_the_beginning(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once and then now and then, until the totals are known; a job that only plans shows no more."""
    with terminal.show_progress():
        report_progress(Counts(listed=1))
        report_progress(Counts(listed=4096))
    assert capsys.readouterr().err == "1 image listed\n"
    monkeypatch.setattr("beam_pipeline.terminal._LINE_INTERVAL", 0.0)
    with terminal.show_progress(writes=False):
        report_progress(Counts(listed=1))
        report_progress(Counts(listed=4096))
        report_progress(Counts(samples=4097, image_bytes=5_000_000, is_total=True))
    assert capsys.readouterr().err == "1 image listed\n4097 images listed\n"


def test_workers_without_a_listener_report_nothing() -> None:
    """On another machine nobody listens, and nothing is counted or kept."""
    report_progress(Counts(listed=1))
    report_progress(Counts(samples=1, image_bytes=1, is_total=True))
    report_progress(Counts(samples=1, image_bytes=1))


class Sum(terminal.Display):
    """A display that only adds up."""

    def report(self, counts: Counts) -> None:
        assert not (counts.listed and self._total.is_total), (
            "images are listed before the totals are known"
        )
        super().report(counts)


@pytest.mark.slow
@pytest.mark.parametrize(
    "argv",
    [
        ("--writers=0",),
        ("--writers=2",),
        ("--direct_running_mode=multi_threading", "--direct_num_workers=2"),
        ("--runner=PortableRunner", "--job_endpoint=embed", "--environment_type=LOOPBACK"),
    ],
    ids=["one thread", "two processes", "two threads", "portable, workers in this process"],
)
def test_every_sample_is_reported_once(
    argv: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads and writer processes report all samples and bytes that the plan announced.

    Prism, and Flink inside its job server, run workers in the launcher's process as the last one does.
    """
    images = write_pictures(str(tmp_path / "photos"), [f"a/{i}.jpg" for i in range(40)])
    total = (40, sum(map(len, images.values())))
    listener = Sum()
    monkeypatch.setattr("beam_pipeline.terminal.Display", lambda: listener)
    inputs = ("--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out", "--num_shards=4")
    assert cli.main(["convert", *inputs, *argv, "--yes"]) == 0
    assert listener._total == (0, *total, True)
    assert listener._done == (40, *total, False)


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1_100_000_000, "1.1 GB")]
)
def test_sizes_are_written_in_decimal_units(size: int, text: str) -> None:
    """In the largest unit that leaves a number above 1."""
    assert human_size(size) == text


# --- locale ----------------------------------------------------------------------------------------

PYTHON_KNOWS_NOTHING = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def latin_1(folder: Path) -> dict[str, str]:
    """Variables of a locale whose names are ISO 8859-1; made here, as few machines have it."""
    localedef = shutil.which("localedef")
    name = "en_US.ISO-8859-1"
    made = localedef and subprocess.run(
        [localedef, "-i", "en_US", "-f", "ISO-8859-1", folder / name], capture_output=True
    )
    if not made or made.returncode:
        pytest.skip("needs localedef and its sources, of the package locales")
    return {"LOCPATH": str(folder), "LC_ALL": name, "PYTHONUTF8": "0"}


@pytest.mark.promise("locale")
@pytest.mark.slow
@pytest.mark.parametrize("locale", ["latin-1", "C", "C, as Python has it"])
def test_the_locale_changes_no_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locale: str
) -> None:
    """Of shards, receipts and manifest: of names, classes, columns and typed paths that are not ASCII."""
    monkeypatch.chdir(tmp_path)
    write_pictures("größe", ["猫/ä.jpg", "hünd/ö.jpg", "hünd/c.jpg"])
    write_pictures("größe", ["hünd/bad.jpg"])
    os.rename(
        b"gr\xc3\xb6\xc3\x9fe/h\xc3\xbcnd/bad.jpg", b"gr\xc3\xb6\xc3\x9fe/h\xc3\xbcnd/b\xff.jpg"
    )
    Path("ö.csv").write_text("bild,label,größe\nä.jpg,猫,ü\nö.jpg,hünd,ö\nc.jpg,hünd,ß\n", "utf-8")
    argv = "convert --images größe --labels ö.csv --key_column bild --output ä --max_bad_fraction 1"
    other = {"LC_ALL": "C", **(PYTHON_KNOWS_NOTHING if locale == "C" else {})}
    if locale == "latin-1":
        other = latin_1(tmp_path)
    found = []
    for variables in ({"LC_ALL": "C.UTF-8"}, other):
        done = harness.program(*argv.split(), env={**os.environ, **variables}, text=False)
        assert done.returncode == 0, done.stderr
        assert harness.reasons_of("ä") == {r"hünd/b\udcff.jpg": "name_not_utf8"}
        found.append((harness.digests("ä"), sorted(os.listdir("ä/.receipts"))))
        shutil.rmtree("ä")
    assert found[0] == found[1]


def test_a_library_in_another_locale_says_so(tmp_path: Path) -> None:
    """Python cannot change its mind on names once it runs, so a name that is not ASCII is refused."""
    write_pictures(str(tmp_path / "photos"), ["cat/ä.jpg"])
    code = (
        "import sys\n"
        "from beam_pipeline.core.listing.filters import ImageRoot\n"
        "from beam_pipeline.storage.listing import list_local_root\n"
        "list(list_local_root(ImageRoot(sys.argv[1]), 10))\n"
    )
    env = {**os.environ, "LC_ALL": "C", **PYTHON_KNOWS_NOTHING}
    done = harness.python("-c", code, tmp_path / "photos", env=env)
    assert done.stderr.splitlines()[-1].endswith(
        "where Python decodes names as ascii, not as UTF-8; set PYTHONUTF8=1 before Python starts"
    )
    (listed,) = list_local_root(ImageRoot(str(tmp_path / "photos")), 10)
    assert [image.key for image in listed.images] == ["cat/ä.jpg"]


# --- summary --------------------------------------------------------------------------------------


def test_a_long_list_is_cut() -> None:
    """What is not shown is counted."""
    assert enumerated(["a", "b"], 2) == "a, b"
    assert enumerated(["a", "b", "c", "d"], 2) == "a, b, and 2 more"
    assert [*summary.class_lines([(0, "cat", 1)])] == ["  1 class: 0 cat (1)"]
    (line,) = summary.class_lines([(i, f"c{i}", 2) for i in range(12)], objects=True)
    assert line.startswith("  12 classes, objects of each: 0 c0 (2), 1 c1 (2), ")
    assert line.endswith("9 c9 (2), and 2 more")


def test_the_time_has_a_rate_where_all_was_written(tmp_path: Path) -> None:
    """Without one where shards may have been kept."""
    names = ["a/1.bmp", "b/2.bmp"]
    write_pictures(f"{tmp_path}/photos", names)
    argv = ("--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out")
    lines = harness.run_convert(*argv).out.splitlines()
    (time,) = (line for line in lines if line.startswith("  time: "))
    assert re.fullmatch(r"  time: [0-9.]+ s, [0-9.]+ examples/s, [0-9.]+ k?B/s", time)
    assert re.search(
        r"^  time: [0-9.]+ s$",
        harness.run_convert(
            *argv[:2], "--output", f"{tmp_path}/new", "--reuse", f"{tmp_path}/out"
        ).out,
        re.MULTILINE,
    )


@in_rows
def test_small_images_are_read_at_their_size(
    tmp_path: Path, size: tuple[int, int], more: tuple[str, ...], shown: tuple[int, int]
) -> None:
    """Larger ones at the usual one; the code in the summary runs as it stands."""
    write_files(str(tmp_path / "photos"), {"cat/1.jpg": picture(size=size)})
    argv = ["--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out", *more]
    code = harness.run_convert(*argv).out.partition("Read it:\n")[2]
    assert f"image_size={shown})" in code
    found: dict[str, Any] = {}
    exec(textwrap.dedent(code), found)
    ((images, labels),) = found["dataset"]
    assert (images.shape, labels.numpy().tolist()) == ((1, *shown, 3), [0])
