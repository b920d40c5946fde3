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
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
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


class WorkerTemplate:
    """A process that has imported what workers need, and forks into them.

    It is a fork itself, made before this process has threads or connections, which forks do not survive.
    """

    def __init__(self) -> None:
        """Forks the template. Must come before the first use of gRPC."""
        import beam_pipeline.pipeline  # noqa: F401 -- what workers run

        ours, theirs = socket.socketpair()
        if os.fork() == 0:
            ours.close()
            _fork_on_request(theirs)
        theirs.close()
        self._socket = ours
        self._stream = ours.makefile("rw", encoding="utf-8")
        self._lock = threading.Lock()

    def start_worker(self, environment: Mapping[str, str]) -> None:
        """Starts a worker with more environment variables. Raises OSError."""
        with self._lock:
            self._stream.write(json.dumps(environment) + "\n")
            self._stream.flush()
            answer = self._stream.readline()
        if not answer:
            raise ChildProcessError("the process that forks into workers is gone")
        if problem := json.loads(answer):
            raise OSError(problem)


def _fork_on_request(requests: socket.socket) -> NoReturn:
    """Forks for each line with environment variables, and ends with the pool."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # otherwise ended workers would remain as zombies
    stream = requests.makefile("rw", encoding="utf-8")
    for line in stream:
        problem = ""
        try:
            if os.fork() == 0:
                _become_worker(requests, json.loads(line))
        except OSError as error:
            problem = str(error)
        stream.write(json.dumps(problem) + "\n")
        stream.flush()
    os._exit(0)


def _become_worker(requests: socket.socket, environment: Mapping[str, str]) -> NoReturn:
    """Leaves the template process, and works."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        requests.close()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.environ.update(environment)
        work()
    finally:
        os._exit(1)


class WorkerPool(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    """Starts a process for each requested worker."""

    def __init__(self, template: WorkerTemplate) -> None:
        """Takes the process that forks into workers."""
        self._template = template

    def StartWorker(  # noqa: N802 -- the service's name
        self, request: Any, _context: grpc.ServicerContext
    ) -> Any:
        """Starts a worker that connects to the TaskManager that asked for it."""
        try:
            self._template.start_worker(_worker_environment(request))
        except (OSError, grpc.RpcError) as error:
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


def work() -> NoReturn:
    """Works for a TaskManager until it ends or is lost, then exits at once.

    A thread that waits for a killed TaskManager would otherwise wait forever.
    """
    code = 1
    try:
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
    template = WorkerTemplate()
    server = grpc.server(ThreadPoolExecutor(4))
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(
        WorkerPool(template), server
    )
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
