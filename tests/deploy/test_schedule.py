"""The schedules: each is what its tool takes, and all start the same job."""

from __future__ import annotations

import json
import os
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml

from beam_pipeline import cli
from beam_pipeline.core.records.sharding import DEFAULT_SHARD_BYTES
from tests.deploy.tools import DATAFLOW, SCHEDULE, load_script, tool
from tests.engines.fake_dataflow import FakeDataflow
from tests.harness import REPOSITORY, process

BODY = json.loads((SCHEDULE / "cloud_scheduler_body.json").read_text(encoding="utf-8"))
MAIN = load_script(DATAFLOW / "main.py")
PARAMETERS = {
    parameter["name"]
    for parameter in json.loads((DATAFLOW / "metadata.json").read_text(encoding="utf-8"))[
        "parameters"
    ]
}


def as_command_line(parameters: dict[str, str]) -> list[str]:
    return list(MAIN.command_line([f"--{name}={value}" for name, value in parameters.items()], {}))


def today() -> str:
    """The day in UTC, which may change while a test runs."""
    return datetime.now(timezone.utc).date().isoformat()


def test_the_body_of_the_scheduler_means_a_conversion() -> None:
    """Its parameters are those of the template, and the program reads them."""
    parameters = BODY["launchParameter"]["parameters"]
    assert set(parameters) <= PARAMETERS
    before, argv, after = today(), as_command_line(parameters), today()
    found, _ = cli._parser().parse_known_args(argv)
    assert found.images == ["gs://my-photos/pets"]
    assert found.output in (f"gs://my-sets/pets/{before}", f"gs://my-sets/pets/{after}")
    assert (found.name, found.reuse) == ("pets", "latest:gs://my-sets/pets")
    assert found.resume


@pytest.mark.deploy
def test_the_body_and_the_metadata_are_what_dataflow_takes() -> None:
    """No field that the API does not know, no type that it does not have."""
    dataflow = pytest.importorskip(
        "google.cloud.dataflow_v1beta3", reason="needs google-cloud-dataflow-client"
    )
    text = json.dumps(BODY)
    request = dataflow.LaunchFlexTemplateRequest.from_json(text, ignore_unknown_fields=False)
    environment = request.launch_parameter.environment
    assert environment.flexrs_goal.name == "FLEXRS_COST_OPTIMIZED"
    assert environment.ip_configuration.name == "WORKER_IP_PRIVATE"
    metadata = dataflow.TemplateMetadata.from_json(
        (DATAFLOW / "metadata.json").read_text(encoding="utf-8"), ignore_unknown_fields=False
    )
    assert {parameter.name for parameter in metadata.parameters} == PARAMETERS
    assert all(parameter.label and parameter.help_text for parameter in metadata.parameters)
    with pytest.raises(Exception, match="no field named"):
        dataflow.LaunchFlexTemplateRequest.from_json(
            text.replace("flexrsGoal", "flexRsGoal"), ignore_unknown_fields=False
        )


def cron_job() -> dict[str, Any]:
    text = (SCHEDULE / "kubernetes_cronjob.yaml").read_text(encoding="utf-8")
    account, job = yaml.safe_load_all(text)
    assert account["kind"] == "ServiceAccount"
    assert account["metadata"] == job["metadata"]
    found: dict[str, Any] = job["spec"]
    return found


@pytest.mark.deploy
def test_the_cron_job_passes_kubernetes_validate() -> None:
    """Strictly: a field that Kubernetes does not know is an error."""
    checker = tool("kubernetes-validate", "kubernetes-validate")
    done = process(checker, "--strict", SCHEDULE / "kubernetes_cronjob.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"passed for resource (serviceaccount|cronjob)/", done.stdout)) == 2


def arguments_of(container: dict[str, Any], folder: Path) -> list[str]:
    """The arguments that a container's command gives the program, run with another of its name."""
    program = folder / "beam-tfrecord"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    command = [*container["command"], *container["args"]]
    done = process(*command, env={"PATH": path}, check=True, timeout=60)
    return done.stdout.splitlines()


def test_the_cron_job_converts_on_its_machine(tmp_path: Path) -> None:
    """The program reads its arguments; a process a core; never two at a time; not as root.

    It writes to a folder named after the date, which is the same until the job is given up.
    """
    spec = cron_job()
    assert spec["concurrencyPolicy"] == "Forbid"
    pod = spec["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    before, argv, after = today(), arguments_of(container, tmp_path), today()
    found, unknown = cli._parser().parse_known_args(argv)
    assert unknown == []
    assert (found.command, found.resume) == ("convert", True)
    assert found.output in (f"gs://my-sets/pets/{before}", f"gs://my-sets/pets/{after}")
    assert (found.name, found.reuse) == ("pets", "latest:gs://my-sets/pets")
    minute, hour, *_ = spec["schedule"].split()
    longest = spec["startingDeadlineSeconds"] + spec["jobTemplate"]["spec"]["activeDeadlineSeconds"]
    assert 3600 * int(hour) + 60 * int(minute) + longest < 86_400
    assert spec["timeZone"] == "Etc/UTC"
    assert str(found.writers) == container["resources"]["requests"]["cpu"]
    (temporary,) = pod["volumes"]
    room = int(temporary["emptyDir"]["sizeLimit"].removesuffix("Gi")) << 30
    assert room > 2 * found.writers * DEFAULT_SHARD_BYTES  # shards differ in size
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["restartPolicy"] == "Never"
    (rule, _) = spec["jobTemplate"]["spec"]["podFailurePolicy"]["rules"]
    assert rule["onExitCodes"] == {
        "containerName": container["name"],
        "operator": "In",
        "values": [cli.EXIT_FAILED, cli.EXIT_USAGE],
    }


@pytest.mark.deploy
def test_airflow_takes_the_dag(tmp_path: Path) -> None:
    """Airflow imports it, a night's task starts a job of the date, and a retried task finds that job."""
    python = os.environ.get("BEAM_TFRECORD_AIRFLOW")
    if not python:
        pytest.skip(
            "needs BEAM_TFRECORD_AIRFLOW, the interpreter of an environment with "
            "tests/deploy/airflow_requirements.txt"
        )
    service = FakeDataflow()
    script = Path(REPOSITORY, "tests/deploy/dag_bag.py")
    done = process(
        python,
        script,
        SCHEDULE / "airflow_dag.py",
        service.url,
        env={
            **os.environ,
            "AIRFLOW_HOME": str(tmp_path),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT": "google-cloud-platform://",
        },
        cwd=tmp_path,
    )
    service.stop()
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    (job,) = service.jobs
    assert found.pop("launched") == [job.id, job.id]
    assert job.body["name"] == "beam-tfrecord-20260131"
    body = found["beam_tfrecord"].pop("body")["launchParameter"]
    assert found == {
        "errors": [],
        "beam_tfrecord": {
            "schedule": "0 2 * * *",
            "catchup": False,
            "max_active_runs": 1,
            "operator": "ConvertOperator",
            "append_job_name": False,
            "deferrable": True,
            "retries": 2,
        },
    }
    assert body["jobName"] == "beam-tfrecord-20260131"
    assert body["parameters"] == {
        "images": "gs://my-photos/pets",
        "output": "gs://my-sets/pets/2026-01-31",
        "name": "pets",
        "reuse": "latest:gs://my-sets/pets",
        "resume": "true",
    }
    assert set(body["parameters"]) <= PARAMETERS
    expected = BODY["launchParameter"]
    assert body["containerSpecGcsPath"] == expected["containerSpecGcsPath"]
    without_network = {
        name: value
        for name, value in expected["environment"].items()
        if name not in ("subnetwork", "ipConfiguration")
    }
    assert body["environment"] == without_network
