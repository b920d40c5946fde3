"""Start and end of a command: what is imported, and what is left as it was for other programs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from beam_pipeline import startup
from beam_pipeline.cli import main
from tests.harness import read_all
from tests.pictures import write_pictures

NOT_USED = (
    "PIL",
    "apitools",
    "beartype",
    "asyncio",
    "boto3",
    "bson",
    "fastavro",
    "google.api_core",
    "google.cloud.storage",
    "grpc",
    "http.client",
    "httplib2",
    "numpy",
    "pandas",
    "pymongo",
    "requests",
    "tensorflow",
)


def run(
    folder: Path, before: str = "", after: str = "", more: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Converts the folder in a process of its own, with code before and after it."""
    code = (
        "import json, sys\nfrom beam_pipeline import startup\n"
        f"{before}\nfrom beam_pipeline.cli import main\nstartup.begin()\n"
        f"code = main(['convert', '--images', {f'{folder}/photos'!r}, "
        f"'--output', {f'{folder}/out'!r}, *{more!r}])\n{after}\nstartup.leave(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder with `photos` in it."""
    write_pictures(str(tmp_path / "photos"), ("cat/a.jpg", "cat/b.png", "dog/c.jpg"))
    return tmp_path


def test_a_local_job_imports_nothing_that_it_does_not_use(photos: Path) -> None:
    """No client of a service, no TensorFlow, and no Pillow for plain JPEGs and PNGs without a report."""
    after = "print(json.dumps(sorted(sys.modules)))"
    done = run(photos, after=after, more=["--no_report"])
    modules = json.loads(done.stdout.splitlines()[-1])
    assert "apache_beam" in modules
    assert [name for name in NOT_USED if name in modules] == []
    assert len(read_all(photos / "out")) == 3


@pytest.mark.slow
def test_what_was_not_imported_can_be_imported_afterwards(photos: Path) -> None:
    """Nothing stays hidden from what a library may import later, and Beam's rare calls find their library."""
    after = """
import grpc, numpy, requests, pyarrow, yaml
import apache_beam as beam
from apache_beam.runners.worker.channel_factory import GRPCChannelFactory
from apache_beam.utils.timestamp import Timestamp
from typing import NewType
from apache_beam.internal.http_client import get_new_http
from apache_beam.transforms.managed import Write
from apache_beam.typehints.typehints import is_consistent_with
assert requests.get and pyarrow.array and yaml.YAMLError
assert get_new_http().timeout == 60
assert Timestamp.from_rfc3339('1970-01-01T00:00:07Z').seconds() == 7
assert numpy.arange(3).sum() == 3 and issubclass(grpc.FutureTimeoutError, Exception)
channel = GRPCChannelFactory.insecure_channel('localhost:1')
channel.close()
assert is_consistent_with(bool, int) and not is_consistent_with(int, bool)
assert is_consistent_with(NewType('Id', int), int) and 'beartype' in sys.modules
assert yaml.safe_load(Write('iceberg', config={'table': 'x'})._yaml_config) == {'table': 'x'}
"""
    run(photos, after=after)


@pytest.mark.slow
def test_a_beam_that_needs_what_it_is_not_given_is_imported_whole(photos: Path) -> None:
    """The process begins again, once, and the person sees nothing of it but the data set."""
    done = run(
        photos,
        before="startup._NOT_NEEDED = ('pytz',)",
        after="import os\nassert os.environ['BEAM_TFRECORD_WHOLE_IMPORT']",
    )
    assert done.stdout.count("Wrote 3 examples") == 1
    assert len(read_all(photos / "out")) == 3


@pytest.mark.slow
@pytest.mark.parametrize("kilobytes", [100_000, 265_000, 400_000])
def test_too_little_address_space_is_one_line(photos: Path, kilobytes: int) -> None:
    """Whether Beam cannot be imported or a thread cannot be started; where it is enough, all is well."""
    command = [
        sys.executable,
        "-m",
        "beam_pipeline",
        "convert",
        "--images",
        "photos",
        "--output",
        "out",
    ]
    limited = ["bash", "-c", f'ulimit -v {kilobytes}; exec "$@"', "bash", *command]
    done = subprocess.run(limited, cwd=photos, capture_output=True, text=True, check=False)
    if kilobytes > 256 << 10 and done.returncode == 0:
        assert len(read_all(photos / "out")) == 3
        return
    assert done.returncode == 1
    (line,) = (text for text in done.stderr.splitlines() if "to write" not in text)
    assert line.startswith(
        f"beam-tfrecord: error: out of memory: this process may use only {kilobytes >> 10} MiB of "
        "address space (ulimit -v). "
    )


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (RuntimeError("can't start new thread"), True),
        (OSError(12, "Cannot allocate memory"), True),
        (ImportError("x.so: failed to map segment from shared object"), True),
        (SystemError("error return without exception set"), True),
        (RuntimeError("stage 3 failed [while running 'Read']: MemoryError"), True),
        (ValueError("no"), False),
        (OSError(28, "No space left on device"), False),
    ],
)
def test_a_shortage_is_known_by_its_error(error: Exception, expected: bool) -> None:
    """Also behind another error, as engines wrap what they find."""
    assert startup.is_shortage(error) is expected
    outer = KeyError("outer")
    outer.__cause__ = error
    assert startup.is_shortage(outer) is expected


ALL_CLOSED = "<&- >&- 2>&-"
COMMANDS = {"--version": 0, "": 2, "plan --images photos --output out": 0}
STREAMS = (ALL_CLOSED, ">/dev/full", ">&-", "2>&-", "2>/dev/full")


@pytest.mark.parametrize(
    ("command", "streams"),
    [(command, s) for command in COMMANDS for s in STREAMS[: 2 if "plan" in command else None]],
)
def test_standard_streams_may_be_closed_or_full(photos: Path, command: str, streams: str) -> None:
    """Closed ones and a full standard error lead nowhere; a full standard output is one line."""
    line = f"exec {sys.executable} -m beam_pipeline {command} {streams}"
    done = subprocess.run(
        ["bash", "-c", line], cwd=photos, capture_output=True, text=True, check=False
    )
    is_full = streams == ">/dev/full" and bool(command)
    assert done.returncode == (1 if is_full else COMMANDS[command])
    assert "Traceback" not in done.stderr
    if is_full:
        message = "standard output cannot be written: No space left on device"
        assert done.stderr.splitlines()[-1] == f"beam-tfrecord: error: {message}"


def test_nothing_is_written_to_a_file_that_took_the_number_of_a_closed_stream(photos: Path) -> None:
    """A conversion without streams writes what it writes with them."""
    line = (
        f"exec {sys.executable} -m beam_pipeline convert --images photos --output out --writers 1 "
    )
    subprocess.run(["bash", "-c", line + ALL_CLOSED], cwd=photos, check=True)
    assert len(read_all(photos / "out")) == 3
    assert main(["verify", str(photos / "out")]) == 0


def test_too_few_open_files_are_one_line(photos: Path) -> None:
    """Before an import fails in some way."""
    line = f"ulimit -n 12; exec {sys.executable} -m beam_pipeline verify out"
    done = subprocess.run(
        ["bash", "-c", line], cwd=photos, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (
        1,
        "beam-tfrecord: error: this process may open only 12 files at once (ulimit -n); allow 1024, as "
        "is usual\n",
    )


def test_an_interrupted_command_is_one_line() -> None:
    """Ctrl-C before a job has begun, or in a command without one: exit code 130, no traceback."""
    code = (
        "from beam_pipeline import startup\ndef command():\n    raise KeyboardInterrupt\n"
        "startup.run(command)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "\nbeam-tfrecord: interrupted\n"
