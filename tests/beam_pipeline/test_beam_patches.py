"""What a job changes in Beam, and that nothing of it stays."""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import apache_beam as beam
import grpc
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.portability.api import beam_job_api_pb2_grpc
from apache_beam.transforms import userstate
from apache_beam.transforms.core import CallableWrapperDoFn
from apache_beam.utils import subprocess_server

import beam_pipeline
from beam_pipeline.beam_patches import Patch, applied, remembered_dofn_specs, silent_processes
from tests.pictures import write_pictures

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
    """For a class with state and one without, and for functions and methods that `beam.Map` wraps."""
    found = userstate.get_dofn_specs
    dofns = [
        Counting(),
        beam.DoFn(),
        CallableWrapperDoFn(len),
        CallableWrapperDoFn(Stateless().process),
        CallableWrapperDoFn(Stateless().counted),
    ]
    expected = [({COUNT}, set()), (set(), set()), (set(), set()), (set(), set()), ({COUNT}, set())]
    assert [found(dofn) for dofn in dofns] == expected
    with applied([remembered_dofn_specs]):
        for _ in range(2):
            assert [userstate.get_dofn_specs(dofn) for dofn in dofns] == expected


def test_an_answer_may_be_changed_by_who_asked() -> None:
    """The next one gets it as it was."""
    with applied([remembered_dofn_specs]):
        userstate.get_dofn_specs(Counting())[0].clear()
        assert userstate.get_dofn_specs(Counting())[0] == {COUNT}


class _SlowToStart(subprocess_server.SubprocessServer):  # type: ignore[misc]
    """A server that answers later than Beam warns."""

    def start_process(self) -> tuple[None, str]:
        self.server = grpc.server(ThreadPoolExecutor(1))
        port = self.server.add_insecure_port("localhost:0")

        def start_late() -> None:
            time.sleep(6)  # Beam warns from the fourteenth try on, after 5 seconds
            self.server.start()

        threading.Thread(target=start_late, daemon=True).start()
        return None, f"localhost:{port}"


@pytest.mark.slow
def test_waiting_for_an_engine_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    """Beam warns through the root logger that a slow machine is slow; nobody is shown that."""
    server = _SlowToStart(beam_job_api_pb2_grpc.JobServiceStub, [])
    with applied([silent_processes]):
        server.start()
    server.server.stop(None)
    assert caplog.records == []


@pytest.mark.slow
def test_other_records_pass(caplog: pytest.LogCaptureFixture) -> None:
    """Warnings of anybody else are shown."""
    command = ["bash", "-c", "sleep 0.2; exit 3", "{{PORT}}"]
    server = subprocess_server.SubprocessServer(beam_job_api_pb2_grpc.JobServiceStub, command)
    with applied([silent_processes]):
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

    @Patch
    @contextlib.contextmanager
    def change() -> Iterator[None]:
        made.append("made")
        yield
        made.append("undone")

    with contextlib.ExitStack() as first:
        first.enter_context(change)
        with applied([change]):
            first.close()
            assert made == ["made"]
    assert made == ["made", "undone"]
    with pytest.raises(ValueError, match="the job"), applied([change]):
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


@pytest.mark.promise("threads")
def test_jobs_in_two_threads_are_those_of_one_and_leave_nothing(tmp_path: Path) -> None:
    """Both data sets have the same bytes; of Beam, logging and signals all is as before."""
    write_pictures(str(tmp_path / "photos"), [f"{'ab'[n % 2]}/{n}.jpg" for n in range(60)])
    alone = beam_pipeline.convert(
        tmp_path / "photos",
        output=tmp_path / "alone",
        name="pets",
        yes=True,
        progress=False,
        num_shards=4,
    )
    command = [sys.executable, "-c", STATE, str(tmp_path / "photos"), str(tmp_path), "0", "1"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
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
