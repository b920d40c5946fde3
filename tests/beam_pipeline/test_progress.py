"""What a person sees while a job runs."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from beam_pipeline.cli import main
from beam_pipeline.core.text import human_size
from beam_pipeline.terminal import Display, show_progress
from beam_pipeline.work import progress
from beam_pipeline.work.progress import Counts
from tests.pictures import write_pictures


def test_a_terminal_shows_a_bar_with_samples_bytes_rate_and_time(tmp_path: Path) -> None:
    """On a terminal: how many of how many, bytes, time spent and left, samples a second."""
    images = write_pictures(str(tmp_path / "photos"), [f"a/{i}.jpg" for i in range(60)])
    size = human_size(sum(map(len, images.values())))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 100, 0, 0))
    command = [sys.executable, "-m", "beam_pipeline", "convert", "--images", f"{tmp_path}/photos"]
    job = subprocess.Popen(
        [*command, "--output", f"{tmp_path}/out", "--yes"], stdout=subprocess.DEVNULL, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 4096)
        except OSError:  # the terminal's other end is closed
            break
    assert job.wait() == 0
    assert "60 images listed [" in shown.decode()
    last = shown.decode().rpartition("100%")[2]
    assert re.search(r" 60/60 \[\d\d:\d\d<00:00, +[\d.]+ samples/s, ", last)
    assert f" samples/s, {size} of {size}]" in last


def test_plain_lines_say_how_far_the_job_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a log: a line at the beginning and one now and then."""
    monkeypatch.setattr("beam_pipeline.terminal._LINE_INTERVAL", 0.0)
    with show_progress():
        progress.report(Counts(samples=1000, image_bytes=5_000_000, is_total=True))
        reporter = progress.Reporter()
        for _ in range(10):
            reporter.add(5000)
        reporter.flush()
    first, *rest = capsys.readouterr().err.splitlines()
    assert first == "1000 samples, 5.0 MB to write"
    assert rest[-1].startswith("10 of 1000 samples, 50.0 kB of 5.0 MB, ")
    assert rest[-1].endswith(" s left")


def test_listed_images_are_counted_from_the_beginning(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once and then now and then, until the totals are known; a job that only plans shows no more."""
    with show_progress():
        progress.report(Counts(listed=1))
        progress.report(Counts(listed=4096))
    assert capsys.readouterr().err == "1 image listed\n"
    monkeypatch.setattr("beam_pipeline.terminal._LINE_INTERVAL", 0.0)
    with show_progress(writes=False):
        progress.report(Counts(listed=1))
        progress.report(Counts(listed=4096))
        progress.report(Counts(samples=4097, image_bytes=5_000_000, is_total=True))
    assert capsys.readouterr().err == "1 image listed\n4097 images listed\n"


def test_workers_without_a_listener_report_nothing() -> None:
    """On another machine nobody listens, and nothing is counted or kept."""
    progress.report(Counts(listed=1))
    progress.report(Counts(samples=1, image_bytes=1, is_total=True))
    progress.report(Counts(samples=1, image_bytes=1))
    reporter = progress.Reporter()
    reporter.add(1)
    reporter.flush()
    assert (reporter._samples, reporter._bytes) == (0, 0)


class Sum(Display):
    """A display that only adds up."""

    def report(self, counts: Counts) -> None:
        assert not (counts.listed and self._total), "images are listed before the totals are known"
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
    monkeypatch.setattr("beam_pipeline.terminal.display", lambda: listener)
    inputs = ("--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out", "--num_shards=4")
    assert main(["convert", *inputs, *argv, "--yes"]) == 0
    assert listener._total == (0, *total, True)
    assert listener._done == (40, *total, False)


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1_100_000_000, "1.1 GB")]
)
def test_sizes_are_written_in_decimal_units(size: int, text: str) -> None:
    """In the largest unit that leaves a number above 1."""
    assert human_size(size) == text
