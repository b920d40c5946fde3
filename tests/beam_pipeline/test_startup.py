"""Start and end of a command, and what a job changes in Beam: what is imported, and what is left as it was."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.portability.api import beam_job_api_pb2_grpc
from apache_beam.transforms import userstate
from apache_beam.transforms.core import CallableWrapperDoFn
from apache_beam.utils import subprocess_server

import beam_pipeline
from beam_pipeline import beam_patches, cli, startup
from tests.harness import process, python, read_all
from tests.pictures import write_pictures

# --- startup ---------------------------------------------------------------------------------------

NOT_USED = {
    *("PIL", "apitools", "beartype", "asyncio", "boto3", "botocore", "bson", "fastavro", "grpc"),
    *("google.api_core", "google.auth", "google.cloud.storage", "http.client", "httplib2"),
    *("numpy", "obstore", "pandas", "pymongo", "requests", "tensorflow"),
    *(f"beam_pipeline.storage.{name}" for name in ("google", "obstore_driver", "beam_filesystems")),
}


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
    done = python("-c", code)
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
    modules = json.loads(run(photos, after=after, more=["--no_report"]).stdout.splitlines()[-1])
    assert "apache_beam" in modules
    assert not NOT_USED & set(modules)
    assert len(read_all(photos / "out")) == 3


def test_a_job_of_parquet_begins_once(photos: Path) -> None:
    """Beam calls a library for its version while it is imported, if PyArrow was imported before."""
    done = run(photos, before="import pyarrow", more=["--no_report"])
    assert done.stdout.count("Layout class_folders") == 1


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


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (RuntimeError("can't start new thread"), True),
        (OSError(12, "Cannot allocate memory"), True),
        (OSError(24, "Too many open files"), True),
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


@pytest.mark.parametrize(
    ("command", "code"), [("convert --images photos --output out", 0), ("--version", 141)]
)
def test_a_conversion_needs_no_reader(photos: Path, command: str, code: int) -> None:
    """It completes; a command that stops where nobody reads it does not claim that its work is done."""
    reader, writer = os.pipe()
    os.close(reader)
    line = (sys.executable, "-m", "beam_pipeline", *command.split())
    done = subprocess.run(line, cwd=photos, stdout=writer, stderr=writer, check=False)
    os.close(writer)
    assert done.returncode == code
    assert (photos / "out/manifest.json").exists() == (code == 0)


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
    done = process("bash", "-c", line, cwd=photos)
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
    assert cli.main(["verify", str(photos / "out")]) == 0


def test_too_few_open_files_are_one_line(photos: Path) -> None:
    """Before an import fails in some way."""
    line = f"ulimit -n 12; exec {sys.executable} -m beam_pipeline verify out"
    done = process("bash", "-c", line, cwd=photos)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        "beam-tfrecord: error: out of memory, threads or open files. A conversion"
    )


def test_an_interrupted_command_is_one_line() -> None:
    """Ctrl-C before a job has begun, or in a command without one: exit code 130, no traceback."""
    code = (
        "from beam_pipeline import startup\ndef command():\n    raise KeyboardInterrupt\n"
        "startup.run(command)"
    )
    done = python("-c", code)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "\nbeam-tfrecord: interrupted\n"


# --- beam patches ----------------------------------------------------------------------------------

COUNT = userstate.CombiningValueStateSpec("count", VarIntCoder(), sum)


class Stateless(beam.DoFn):
    def process(self, element: int) -> list[int]:
        return [element]

    def counted(self, element: int, count: object = beam.DoFn.StateParam(COUNT)) -> list[int]:
        return [element]


class Counting(beam.DoFn):
    def process(self, element: int, count: object = beam.DoFn.StateParam(COUNT)) -> list[int]:
        return [element]


def test_the_answers_are_beam_s() -> None:
    """For a class with state and one without, and for what `beam.Map` wraps; one that is changed is not the next one."""
    found = userstate.get_dofn_specs
    wrapped = map(CallableWrapperDoFn, (len, Stateless().process, Stateless().counted))
    dofns = [Counting(), beam.DoFn(), *wrapped]
    expected = [({COUNT}, set()), (set(), set()), (set(), set()), (set(), set()), ({COUNT}, set())]
    assert [found(dofn) for dofn in dofns] == expected
    with beam_patches.applied([beam_patches.remembered_dofn_specs]):
        for _ in range(2):
            assert [userstate.get_dofn_specs(dofn) for dofn in dofns] == expected
            userstate.get_dofn_specs(dofns[0])[0].clear()


@pytest.mark.slow
def test_other_records_pass(caplog: pytest.LogCaptureFixture) -> None:
    """Warnings of anybody else are shown."""
    command = ["bash", "-c", "sleep 0.2; exit 3", "{{PORT}}"]
    server = subprocess_server.SubprocessServer(beam_job_api_pb2_grpc.JobServiceStub, command)
    with beam_patches.applied([beam_patches.silent_processes]):
        logging.getLogger().warning("mine")
        logging.getLogger(subprocess_server.__name__).warning("mine, too")
        with pytest.raises(Exception, match="error 3"):
            server.start()
    assert {record.getMessage() for record in caplog.records} >= {"mine", "mine, too"}
    assert [r for r in caplog.records if r.module == "subprocess_server"] == []  # it is raised, too


def test_a_conversion_in_a_notebook_needs_nothing_of_beams_interactive_runner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beam's own answer on where it runs is back afterwards."""
    import apache_beam.pipeline
    from apache_beam.utils import interactive_utils

    shell = SimpleNamespace(config={}, execution_count=1)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "apache_beam.runners.interactive", None)
    write_pictures(f"{tmp_path}/photos", ["cat/1.jpg", "dog/2.jpg"])
    before = interactive_utils.is_in_ipython, apache_beam.pipeline.is_in_ipython
    dataset = beam_pipeline.convert(
        f"{tmp_path}/photos", output=f"{tmp_path}/out", writers=0, progress=False
    )
    assert dataset.splits == {"train": 2}
    assert (interactive_utils.is_in_ipython, apache_beam.pipeline.is_in_ipython) == before


def test_the_last_job_undoes_a_change() -> None:
    """However their ends come."""
    made: list[str] = []

    @beam_patches.Patch
    def change() -> Iterator[None]:
        made.append("made")
        yield
        made.append("undone")

    with contextlib.ExitStack() as first:
        first.enter_context(change)
        with beam_patches.applied([change]):
            first.close()
            assert made == ["made"]
    assert made == ["made", "undone"]
    with pytest.raises(ValueError, match="the job"), beam_patches.applied([change]):
        raise ValueError("the job")
    assert made == ["made", "undone"] * 2


STATE = """
import json, logging, os, signal, sys, threading
import apache_beam
from apache_beam.runners.portability import job_server
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from apache_beam.runners.worker import sdk_worker
from apache_beam.transforms import userstate
from apache_beam.utils import interactive_utils, subprocess_server
import beam_pipeline

def state():
    loggers = [logging.getLogger(name) for name in (None, *logging.root.manager.loggerDict)]
    return [
        str(value) for value in (
            userstate.get_dofn_specs, subprocess_server.subprocess, job_server.signal,
            worker_handlers.DATA_BUFFER_TIME_LIMIT_MS, hasattr(sdk_worker.BundleProcessorCache, "_lock"),
            interactive_utils.is_in_ipython, signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM),
            threading.excepthook, sys.excepthook, logging.root.manager.disable,
            sorted((logger.name, logger.level, str(logger.filters), str(logger.handlers), logger.propagate)
                   for logger in loggers if logger.level or logger.filters or logger.handlers),
        )
    ]

apache_beam.options.pipeline_options.PipelineOptions([])  # gives the root logger a handler
before, descriptors = state(), len(os.listdir("/proc/self/fd"))
images, output, *threads = sys.argv[1:]
def convert(number):
    return beam_pipeline.convert(
        images, output=f"{output}/{number}", name="pets", yes=True, progress=False, num_shards=4
    )
data_sets = {}
running = [
    threading.Thread(target=lambda n=n: data_sets.update({n: convert(n).splits})) for n in threads
]
for thread in running: thread.start()
for thread in running: thread.join()
print(json.dumps([before, state(), len(os.listdir("/proc/self/fd")) - descriptors, data_sets]))
"""


@pytest.mark.slow
@pytest.mark.promise("threads")
def test_jobs_in_two_threads_are_those_of_one_and_leave_nothing(tmp_path: Path) -> None:
    """Both data sets have the same bytes; of Beam, logging and signals all is as before."""
    write_pictures(str(tmp_path / "photos"), [f"{'ab'[n % 2]}/{n}.jpg" for n in range(60)])
    options: dict[str, Any] = {"name": "pets", "yes": True, "progress": False, "num_shards": 4}
    alone = beam_pipeline.convert(tmp_path / "photos", output=tmp_path / "alone", **options)
    run = process(sys.executable, "-c", STATE, str(tmp_path / "photos"), str(tmp_path), "0", "1")
    # Beam itself warns at its import where an extra is missing.
    errors = [line for line in run.stderr.splitlines() if "not found, and" not in line]
    assert (run.returncode, errors) == (0, [])
    before, after, descriptors, data_sets = json.loads(run.stdout)
    assert after == before
    assert descriptors <= 0
    assert data_sets == {"0": alone.splits, "1": alone.splits}
    names = sorted(path.name for path in (tmp_path / "alone").glob("*tfrecord*"))
    assert len(names) == 4
    for name in names:
        shard = (tmp_path / "alone" / name).read_bytes()
        assert [(tmp_path / n / name).read_bytes() for n in "01"] == [shard, shard]
