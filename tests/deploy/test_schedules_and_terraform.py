"""The schedules: each is what its tool takes, all start the same job, and Terraform gives the rights that are listed."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml

from beam_pipeline import cli
from beam_pipeline.commands import PROGRAM
from beam_pipeline.core.records.sharding import DEFAULT_SHARD_BYTES
from beam_pipeline.work.finishing import COMMITTED
from tests.buckets.services import needs_google
from tests.deploy.tools import DATAFLOW, DEPLOY, SCHEDULE, TERRAFORM, load_script
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


NIGHT = {"name": "pets", "reuse": "latest:gs://my-sets/pets", "resume": "true"}
"""Parameters of every schedule."""


def reads(command_line: Callable[[], list[str]]) -> Any:
    """The options of a conversion that writes to a folder named after the day in UTC, which may change meanwhile."""
    days = [datetime.now(timezone.utc)]
    options, unknown = cli._parser().parse_known_args(command_line())
    days.append(datetime.now(timezone.utc))
    assert options.output in {f"gs://my-sets/pets/{day.date().isoformat()}" for day in days}
    assert (options.command, options.name, options.reuse) == ("convert", *list(NIGHT.values())[:2])
    assert options.resume
    return options, unknown


def test_the_body_of_the_scheduler_means_a_conversion() -> None:
    """Its parameters are those of the template, and the program reads them."""
    parameters = BODY["launchParameter"]["parameters"]
    assert set(parameters) <= PARAMETERS
    given = [f"--{name}={value}" for name, value in parameters.items()]
    options, _ = reads(lambda: list(MAIN.command_line(given, {})))
    assert options.images == ["gs://my-photos/pets"]


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


def test_the_cron_job_converts_on_its_machine(tmp_path: Path) -> None:
    """The program reads its arguments; a process a core; never two at a time; not as root.

    It writes to a folder named after the date, which is the same until the job is given up.
    """
    text = (SCHEDULE / "kubernetes_cronjob.yaml").read_text(encoding="utf-8")
    account, cron_job = yaml.safe_load_all(text)
    assert (account["kind"], account["metadata"]) == ("ServiceAccount", cron_job["metadata"])
    spec, job = cron_job["spec"], cron_job["spec"]["jobTemplate"]["spec"]
    pod = job["template"]["spec"]
    (container,), (temporary,) = pod["containers"], pod["volumes"]
    program = tmp_path / "beam-tfrecord"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    environment = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    command = [*container["command"], *container["args"]]
    options, unknown = reads(
        lambda: process(*command, env=environment, check=True, timeout=60).stdout.splitlines()
    )
    assert unknown == []
    assert str(options.writers) == container["resources"]["requests"]["cpu"]
    room = int(temporary["emptyDir"]["sizeLimit"].removesuffix("Gi")) << 30
    assert room > 2 * options.writers * DEFAULT_SHARD_BYTES  # shards differ in size
    minute, hour, *_ = spec["schedule"].split()
    longest = spec["startingDeadlineSeconds"] + job["activeDeadlineSeconds"]
    assert 3600 * int(hour) + 60 * int(minute) + longest < 86_400
    assert (spec["timeZone"], spec["concurrencyPolicy"]) == ("Etc/UTC", "Forbid")
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["restartPolicy"] == "Never"
    assert job["podFailurePolicy"]["rules"][0]["onExitCodes"] == {
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
    environment = {**os.environ, "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    environment["AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT"] = "google-cloud-platform://"
    environment["AIRFLOW_HOME"] = str(tmp_path)
    command = [python, script, SCHEDULE / "airflow_dag.py", service.url]
    done = process(*command, env=environment, cwd=tmp_path)
    service.stop()
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    (job,) = service.jobs
    assert found.pop("launched") == [job.id, job.id]
    assert job.body["name"] == "beam-tfrecord-20260131"
    body = found["beam_tfrecord"].pop("body")["launchParameter"]
    dag = {"schedule": "0 2 * * *", "catchup": False, "max_active_runs": 1}
    task = {"append_job_name": False, "deferrable": True, "retries": 2}
    task["operator"] = "ConvertOperator"
    assert found == {"errors": [], "beam_tfrecord": {**dag, **task}}
    assert body["jobName"] == "beam-tfrecord-20260131"
    folders = {"images": "gs://my-photos/pets", "output": "gs://my-sets/pets/2026-01-31"}
    assert body["parameters"] == {**folders, **NIGHT}
    expected = BODY["launchParameter"]
    assert body["containerSpecGcsPath"] == expected["containerSpecGcsPath"]
    network = ("subnetwork", "ipConfiguration")
    environment = {k: v for k, v in expected["environment"].items() if k not in network}
    assert body["environment"] == environment


# --- terraform ------------------------------------------------------------------------------------


README = (DEPLOY / "README.md").read_text(encoding="utf-8")


def hcl(path: Path) -> Any:
    """A file of Terraform; some versions of the parser leave the quotes of a string."""
    hcl2 = pytest.importorskip("hcl2", reason="needs python-hcl2")
    with open(path, encoding="utf-8") as file:
        return unquoted(hcl2.load(file))


def unquoted(value: Any) -> Any:
    if isinstance(value, str):
        return value.strip('"')
    if isinstance(value, list):
        return [*map(unquoted, value)]
    if isinstance(value, dict):
        return {unquoted(k): unquoted(v) for k, v in value.items() if k != "__is_block__"}
    return value


@pytest.fixture(scope="module")
def resources() -> dict[str, dict[str, Any]]:
    """`type.name` -> attributes of every resource."""
    return {
        f"{kind}.{name}": attributes
        for path in sorted(TERRAFORM.glob("*.tf"))
        for block in hcl(path).get("resource", [])
        for kind, named in block.items()
        for name, attributes in named.items()
    }


def terraform(*argv: str, folder: Path = TERRAFORM) -> str:
    program = shutil.which("terraform")
    if program is None:
        pytest.skip("needs terraform")
    environment = {k: v for k, v in os.environ.items() if k != "TF_CLI_CONFIG_FILE"}
    environment["CHECKPOINT_DISABLE"] = "1"
    done = process(program, f"-chdir={folder}", *argv, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.deploy
def test_terraform_would_not_write_it_differently() -> None:
    """`terraform fmt` finds nothing to change."""
    assert terraform("fmt", "-check", "-recursive", "-diff") == ""


@pytest.mark.deploy
def test_the_body_that_is_posted_is_the_one_that_is_shown(tmp_path: Path) -> None:
    """Terraform itself makes cloud_scheduler_body.json of the values of example.tfvars."""
    example = hcl(TERRAFORM / "example.tfvars")
    account = f"beam-tfrecord-worker@{example['project']}.iam.gserviceaccount.com"
    values = {k: example[k] for k in ("template", "parameters", "temp", "subnetwork")}
    values |= {"job_name": "beam-tfrecord", "worker_service_account": account}
    values |= {"max_workers": 20, "flexrs": True, "most_hours": 18}
    assert launch_body(tmp_path, values) == BODY
    plain = launch_body(tmp_path, {**values, "subnetwork": "", "flexrs": False})
    assert set(plain["launchParameter"]["environment"]) == {
        *("additionalExperiments", "additionalUserLabels", "maxWorkers", "serviceAccountEmail"),
        *("stagingLocation", "tempLocation"),
    }


def launch_body(folder: Path, values: dict[str, Any]) -> Any:
    """What the module launch_body makes of values."""
    shutil.copy(TERRAFORM / "launch_body/main.tf", folder)
    (folder / "terraform.tfvars.json").write_text(json.dumps(values))
    terraform("init", "-input=false", "-backend=false", folder=folder)
    terraform("validate", folder=folder)
    terraform("apply", "-auto-approve", "-input=false", folder=folder)
    return json.loads(terraform("output", "-raw", "json", folder=folder))


@pytest.mark.deploy
def test_the_schedule_posts_that_body_with_an_oauth_token(
    resources: dict[str, dict[str, Any]],
) -> None:
    """To flexTemplates:launch, as the account that may start jobs and nothing else."""
    (target,) = resources["google_cloud_scheduler_job.convert"]["http_target"]
    assert target["uri"].endswith("/locations/${var.region}/flexTemplates:launch")
    assert target["body"] == "${base64encode(module.launch_body.json)}"
    assert "oidc_token" not in target
    (token,) = target["oauth_token"]
    assert token["service_account_email"] == "${google_service_account.launcher.email}"


@pytest.mark.deploy
def test_a_night_without_a_data_set_is_told(resources: dict[str, dict[str, Any]]) -> None:
    """Failed jobs by Dataflow's metric, refusals and silence by logs; only with an address.

    Airflow's jobs end their name in a date, and 409 is a launch that found its job running.
    """
    alerts = {k: v for k, v in resources.items() if re.match("google_(monitoring|logging)", k)}
    assert {alert["count"] for alert in alerts.values()} == {"${local.alerts}"}
    text = (TERRAFORM / "alerting.tf").read_text(encoding="utf-8")
    parts = ["dataflow.googleapis.com/job/is_failed", "httpRequest.status != 409"]
    parts += [r"job_name = starts_with(\"${var.job_name}\")", f"{PROGRAM}: error: "]
    assert [part for part in [*parts, COMMITTED.split("%")[0]] if part not in text] == []


ON = {
    "google_project_iam_member": "project",
    "google_service_account_iam_member": "account of the workers",
    "google_storage_bucket_iam_member": "bucket",
    "google_artifact_registry_repository_iam_member": "repository",
}


@pytest.mark.deploy
def test_every_right_is_in_the_readme(resources: dict[str, dict[str, Any]]) -> None:
    """Roles, what they are given on, and what each custom role holds: the tables have those of the Terraform."""
    by_kind = [(*name.split("."), attributes) for name, attributes in resources.items()]
    custom = "google_project_iam_custom_role"
    roles = {f"${{{custom}.{n}.id}}": found for kind, n, found in by_kind if kind == custom}
    given = {
        (roles.get(found["role"], {"role_id": found["role"]})["role_id"], ON[kind])
        for kind, _, found in by_kind
        if kind in ON
    }
    assert len(given) == 9
    of_role = rf"^\| [^|]+ \| `([\w./]+)` \| the ({'|'.join(ON.values())})\b"
    assert set(re.findall(of_role, README, re.MULTILINE)) == given
    held = {role["role_id"]: role["permissions"] for role in roles.values()}
    assert held.keys() <= {role for role, _ in given}
    cells = re.findall(r"^\| `(beamTfrecord\w+)` \| (`.*`) \|$", README, re.MULTILINE)
    assert {role: re.findall(r"`([\w.]+)`", cell) for role, cell in cells} == held


@pytest.mark.deploy
def test_the_output_role_is_what_the_program_asks_for(
    resources: dict[str, dict[str, Any]],
) -> None:
    """The permissions that an error would name; to replace an object takes two of them."""
    needs_google()
    from beam_pipeline.storage.google import GoogleStorage

    held = resources["google_project_iam_custom_role.output"]["permissions"]
    assert set(held) == set(" or ".join(GoogleStorage.permissions).split(" or "))
