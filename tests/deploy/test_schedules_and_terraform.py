"""The schedules: each is what its tool takes, all start the same job, and Terraform gives the rights that are listed."""

from __future__ import annotations

import json
import os
import re
import shutil
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
    environment = {"AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    environment["AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT"] = "google-cloud-platform://"
    done = process(
        python,
        script,
        SCHEDULE / "airflow_dag.py",
        service.url,
        env={**os.environ, **environment, "AIRFLOW_HOME": str(tmp_path)},
        cwd=tmp_path,
    )
    service.stop()
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    (job,) = service.jobs
    assert found.pop("launched") == [job.id, job.id]
    assert job.body["name"] == "beam-tfrecord-20260131"
    body = found["beam_tfrecord"].pop("body")["launchParameter"]
    dag = {"schedule": "0 2 * * *", "catchup": False, "max_active_runs": 1}
    task = {
        "operator": "ConvertOperator",
        "append_job_name": False,
        "deferrable": True,
        "retries": 2,
    }
    assert found == {"errors": [], "beam_tfrecord": {**dag, **task}}
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
    network = ("subnetwork", "ipConfiguration")
    assert body["environment"] == {
        name: value for name, value in expected["environment"].items() if name not in network
    }


# --- terraform ------------------------------------------------------------------------------------


README = (DEPLOY / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def resources() -> dict[str, dict[str, Any]]:
    """`type.name` -> attributes of every resource."""
    hcl2 = pytest.importorskip("hcl2", reason="needs python-hcl2")
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(TERRAFORM.glob("*.tf")):
        with open(path, encoding="utf-8") as file:
            for block in hcl2.load(file).get("resource", []):
                ((kind, named),) = block.items()
                ((name, attributes),) = named.items()
                found[f"{unquoted(kind)}.{unquoted(name)}"] = attributes
    return found


def unquoted(text: str) -> str:
    """Some versions of the parser leave the quotes of a string."""
    return text.strip('"')


def terraform(*argv: str, folder: Path = TERRAFORM) -> str:
    program = shutil.which("terraform")
    if program is None:
        pytest.skip("needs terraform")
    environment = {k: v for k, v in os.environ.items() if k != "TF_CLI_CONFIG_FILE"}
    done = process(
        program, f"-chdir={folder}", *argv, env={**environment, "CHECKPOINT_DISABLE": "1"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.deploy
def test_terraform_would_not_write_it_differently() -> None:
    """`terraform fmt` finds nothing to change."""
    assert terraform("fmt", "-check", "-recursive", "-diff") == ""


@pytest.mark.deploy
def test_the_body_that_is_posted_is_the_one_that_is_shown(tmp_path: Path) -> None:
    """Terraform itself makes cloud_scheduler_body.json of the values of example.tfvars."""
    hcl2 = pytest.importorskip("hcl2", reason="needs python-hcl2")
    with open(TERRAFORM / "example.tfvars", encoding="utf-8") as file:
        example = hcl2.load(file)
    body = (SCHEDULE / "cloud_scheduler_body.json").read_text(encoding="utf-8")
    parameters = {
        unquoted(k): unquoted(v) for k, v in example["parameters"].items() if k != "__is_block__"
    }
    values = {
        "job_name": "beam-tfrecord",
        "template": unquoted(example["template"]),
        "parameters": parameters,
        "worker_service_account": f"beam-tfrecord-worker@{unquoted(example['project'])}.iam.gserviceaccount.com",
        "temp": unquoted(example["temp"]),
        "subnetwork": unquoted(example["subnetwork"]),
        "max_workers": 20,
        "flexrs": True,
        "most_hours": 18,
    }
    assert launch_body(tmp_path, values) == json.loads(body)
    plain = launch_body(tmp_path, {**values, "subnetwork": "", "flexrs": False})
    assert set(plain["launchParameter"]["environment"]) == {
        *("additionalExperiments", "additionalUserLabels", "maxWorkers", "serviceAccountEmail"),
        *("stagingLocation", "tempLocation"),
    }


def launch_body(folder: Path, values: dict[str, Any]) -> dict[str, Any]:
    """What the module launch_body makes of values."""
    shutil.copy(TERRAFORM / "launch_body/main.tf", folder)
    (folder / "terraform.tfvars.json").write_text(json.dumps(values))
    terraform("init", "-input=false", "-backend=false", folder=folder)
    terraform("validate", folder=folder)
    terraform("apply", "-auto-approve", "-input=false", folder=folder)
    body: dict[str, Any] = json.loads(terraform("output", "-raw", "json", folder=folder))
    return body


@pytest.mark.deploy
def test_the_schedule_posts_that_body_with_an_oauth_token(
    resources: dict[str, dict[str, Any]],
) -> None:
    """To flexTemplates:launch, as the account that may start jobs and nothing else."""
    (target,) = resources["google_cloud_scheduler_job.convert"]["http_target"]
    assert unquoted(target["uri"]).endswith("/locations/${var.region}/flexTemplates:launch")
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
    assert {unquoted(alert["count"]) for alert in alerts.values()} == {"${local.alerts}"}
    text = (TERRAFORM / "alerting.tf").read_text(encoding="utf-8")
    for part in (
        "dataflow.googleapis.com/job/is_failed",
        'job_name = starts_with(\\"${var.job_name}\\")',
        "httpRequest.status != 409",
        f"{PROGRAM}: error: ",
        COMMITTED.split("%")[0],
    ):
        assert part in text


ON = {
    "google_project_iam_member": "project",
    "google_service_account_iam_member": "account of the workers",
    "google_storage_bucket_iam_member": "bucket",
    "google_artifact_registry_repository_iam_member": "repository",
}


@pytest.mark.deploy
def test_every_right_is_in_the_readme(resources: dict[str, dict[str, Any]]) -> None:
    """Roles and what they are given on: the table has those of the Terraform, and no others."""
    role_ids = {
        name.partition(".")[2]: unquoted(attributes["role_id"])
        for name, attributes in resources.items()
        if name.startswith("google_project_iam_custom_role.")
    }
    given = set()
    for name, attributes in resources.items():
        kind = name.partition(".")[0]
        if kind in ON:
            role = unquoted(attributes["role"])
            custom = re.fullmatch(r"\$\{google_project_iam_custom_role\.(\w+)\.id\}", role)
            given.add((role_ids[custom[1]] if custom else role, ON[kind]))
    assert len(given) == 9
    rows = re.findall(
        r"^\| [^|]+ \| `([\w./]+)` \| the (project|account of the workers|bucket|repository)\b",
        README,
        re.MULTILINE,
    )
    assert set(rows) == given
    assert set(role_ids.values()) <= {role for role, _ in given}


@pytest.mark.deploy
def test_every_permission_is_in_the_readme(resources: dict[str, dict[str, Any]]) -> None:
    """What each custom role holds, for the reader and for Terraform."""
    held = {
        unquoted(attributes["role_id"]): [unquoted(one) for one in attributes["permissions"]]
        for name, attributes in resources.items()
        if name.startswith("google_project_iam_custom_role.")
    }
    rows = re.findall(r"^\| `(beamTfrecord\w+)` \| (`.*`) \|$", README, re.MULTILINE)
    assert {role: re.findall(r"`([\w.]+)`", cell) for role, cell in rows} == held


@pytest.mark.deploy
def test_the_output_role_is_what_the_program_asks_for(
    resources: dict[str, dict[str, Any]],
) -> None:
    """The permissions that an error would name; to replace an object takes two of them."""
    needs_google()
    from beam_pipeline.storage.google import GoogleStorage

    held = resources["google_project_iam_custom_role.output"]["permissions"]
    asked = " or ".join(GoogleStorage.permissions).split(" or ")
    assert {unquoted(one) for one in held} == set(asked)
