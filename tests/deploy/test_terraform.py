"""The Terraform: well written, posts the body that is shown, and gives the rights that are listed."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.commands import PROGRAM
from beam_pipeline.work.finishing import COMMITTED
from tests.buckets.services import needs_google
from tests.deploy.tools import DEPLOY, SCHEDULE, TERRAFORM
from tests.harness import process

pytestmark = pytest.mark.deploy

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


def test_terraform_would_not_write_it_differently() -> None:
    """`terraform fmt` finds nothing to change."""
    assert terraform("fmt", "-check", "-recursive", "-diff") == ""


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


def test_every_permission_is_in_the_readme(resources: dict[str, dict[str, Any]]) -> None:
    """What each custom role holds, for the reader and for Terraform."""
    held = {
        unquoted(attributes["role_id"]): [unquoted(one) for one in attributes["permissions"]]
        for name, attributes in resources.items()
        if name.startswith("google_project_iam_custom_role.")
    }
    rows = re.findall(r"^\| `(beamTfrecord\w+)` \| (`.*`) \|$", README, re.MULTILINE)
    assert {role: re.findall(r"`([\w.]+)`", cell) for role, cell in rows} == held


def test_the_output_role_is_what_the_program_asks_for(
    resources: dict[str, dict[str, Any]],
) -> None:
    """The permissions that an error would name; to replace an object takes two of them."""
    needs_google()
    from beam_pipeline.storage.google import GoogleStorage

    held = resources["google_project_iam_custom_role.output"]["permissions"]
    asked = " or ".join(GoogleStorage.permissions).split(" or ")
    assert {unquoted(one) for one in held} == set(asked)
