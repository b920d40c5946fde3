"""What Beam logs about processes that it starts."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from apache_beam.portability.api import beam_job_api_pb2_grpc
from apache_beam.utils import subprocess_server

from beam_pipeline.engines.base import silence_process_reports


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
    silence_process_reports()
    server = _SlowToStart(beam_job_api_pb2_grpc.JobServiceStub, [])
    server.start()
    server.server.stop(None)
    assert caplog.records == []


@pytest.mark.slow
def test_other_records_pass(caplog: pytest.LogCaptureFixture) -> None:
    """Warnings of anybody else are shown."""
    silence_process_reports()
    logging.getLogger().warning("mine")
    logging.getLogger(subprocess_server.__name__).warning("mine, too")
    with pytest.raises(Exception, match="error 3"):
        subprocess_server.SubprocessServer(
            beam_job_api_pb2_grpc.JobServiceStub, ["bash", "-c", "sleep 0.2; exit 3", "{{PORT}}"]
        ).start()
    assert {record.getMessage() for record in caplog.records} >= {"mine", "mine, too"}
    assert [r for r in caplog.records if r.module == "subprocess_server"] == []  # it is raised, too
