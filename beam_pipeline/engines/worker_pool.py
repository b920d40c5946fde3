"""Starts Beam's Python workers for the TaskManagers of a Flink cluster.

`python -m beam_pipeline.engines.worker_pool` runs beside each TaskManager, in an environment where
this package is installed. A TaskManager asks it for a worker when a step of a job starts, and the
worker ends with its connection. A new interpreter would take seconds to import Beam, for each of a
dozen steps, so workers are forks of a process that has done so.

Beam's own worker pool stops workers by an id that two TaskManagers may share, and starts the first
`python` in the path.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from typing import Any, NoReturn

import grpc
from apache_beam.portability.api import (
    beam_fn_api_pb2,
    beam_fn_api_pb2_grpc,
    beam_provision_api_pb2,
    beam_provision_api_pb2_grpc,
)
from apache_beam.runners.worker import sdk_worker_main
from google.protobuf import json_format

from beam_pipeline.engines.flink import WORKER_POOL_PORT
from beam_pipeline.terminal import say

_ANSWER_SECONDS = 60  # to fetch a job's options from a TaskManager

_IMPORTED = ("apache_beam.runners.worker.sdk_worker_main", "beam_pipeline.pipeline")
"""The modules that workers need, in the process that they are forks of. It has neither threads nor connections."""


class WorkerPool(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    """Starts a process for each requested worker."""

    def StartWorker(  # noqa: N802 -- the service's name
        self, request: Any, _context: grpc.ServicerContext
    ) -> Any:
        """Starts a worker that connects to the TaskManager that asked for it."""
        try:
            environment = _worker_environment(request)
            ForkServerProcess(target=work, args=(environment,), daemon=True).start()
        except (OSError, EOFError, grpc.RpcError) as error:
            return beam_fn_api_pb2.StartWorkerResponse(error=f"no worker could be started: {error}")
        return beam_fn_api_pb2.StartWorkerResponse()

    def StopWorker(self, _request: Any, _context: grpc.ServicerContext) -> Any:  # noqa: N802
        """Does nothing: a worker ends with the connection to its TaskManager."""
        return beam_fn_api_pb2.StopWorkerResponse()


def _worker_environment(request: Any) -> dict[str, str]:
    """The environment variables of a Beam worker."""
    with grpc.insecure_channel(request.provision_endpoint.url) as channel:
        provision = beam_provision_api_pb2_grpc.ProvisionServiceStub(channel).GetProvisionInfo(
            beam_provision_api_pb2.GetProvisionInfoRequest(),
            metadata=[("worker_id", request.worker_id)],
            timeout=_ANSWER_SECONDS,
        )
    return {
        "WORKER_ID": request.worker_id,
        "CONTROL_API_SERVICE_DESCRIPTOR": str(request.control_endpoint),
        "LOGGING_API_SERVICE_DESCRIPTOR": str(request.logging_endpoint),
        "PIPELINE_OPTIONS": json.dumps(json_format.MessageToDict(provision.info.pipeline_options)),
    }


def work(environment: Mapping[str, str]) -> NoReturn:
    """Works for a TaskManager until it ends or is lost, then exits at once.

    A thread that waits for a killed TaskManager would otherwise wait forever.

    Args:
      environment: further environment variables.
    """
    code = 1
    try:
        os.environ.update(environment)
        sdk_worker_main.main([])
        code = 0
    except grpc.RpcError:  # the TaskManager is gone
        code = 0
    except Exception:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(code)


def serve(port: int) -> None:
    """Starts workers until this process receives a signal to end."""
    forkserver.set_forkserver_preload(list(_IMPORTED))
    forkserver.ensure_running()
    server = grpc.server(ThreadPoolExecutor(4))
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(WorkerPool(), server)
    server.add_insecure_port(f"localhost:{port}")
    server.start()
    say(f"Workers for TaskManagers on this machine: localhost:{port}")
    server.wait_for_termination()


def main() -> None:
    """Reads the command line and serves."""
    parser = argparse.ArgumentParser(prog="python -m beam_pipeline.engines.worker_pool")
    parser.add_argument("--port", type=int, default=WORKER_POOL_PORT)
    serve(parser.parse_args().port)


if __name__ == "__main__":
    main()
