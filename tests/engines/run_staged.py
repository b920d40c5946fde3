"""Runs a pipeline that was staged for Dataflow, as its service would, on the engine in Beam's own package.

`python -I run_staged.py pipeline.pb` imports nothing but Beam. Workers are processes of the same interpreter,
started in `/`, where no folder of this project hides what is missing. Prints the user counters as JSON.
"""

from __future__ import annotations

import json
import sys

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import fn_runner, worker_handlers
from apache_beam.transforms.environments import SubprocessSDKEnvironment

_WORKER = f"cd / && exec {sys.executable} -m apache_beam.runners.worker.sdk_worker_main"


def main(path: str) -> None:
    with open(path, "rb") as file:
        pipeline = beam_runner_api_pb2.Pipeline.FromString(file.read())
    workers = SubprocessSDKEnvironment(_WORKER).to_runner_api(None)
    for environment in pipeline.components.environments.values():
        del environment.dependencies[:]  # they were installed as a worker's container installs them
        environment.urn = workers.urn
        environment.payload = workers.payload
    worker_handlers.DATA_BUFFER_TIME_LIMIT_MS = 24 * 3600 * 1000
    result = fn_runner.FnApiRunner().run_via_runner_api(pipeline, PipelineOptions([]))
    result.wait_until_finish()
    counters = result.metrics().query()["counters"]
    totals: dict[str, int] = {}
    for counter in counters:
        name = counter.key.metric.name
        totals[name] = totals.get(name, 0) + counter.committed
    sys.stdout.write(json.dumps(totals))


if __name__ == "__main__":
    main(sys.argv[1])
