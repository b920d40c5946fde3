"""What the launcher of a Flex Template does: it writes the job that Dataflow then starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.buckets.services import GoogleStore as Cloud
from tests.deploy.tools import DATAFLOW, load_script
from tests.engines import test_dataflow
from tests.engines.fake_dataflow import PROJECT, REGION, FakeDataflow
from tests.pictures import write_pictures

pytestmark = pytest.mark.dataflow

service = test_dataflow.service
IMAGE = "europe-west4-docker.pkg.dev/my-project/beam-tfrecord/beam-tfrecord:20260131"
ACCOUNT = "beam-tfrecord-worker@my-project.iam.gserviceaccount.com"


def test_the_launcher_writes_the_job(
    cloud: Cloud,
    service: FakeDataflow,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As Dataflow calls it; the job runs in the image, and nothing is submitted from here."""
    write_pictures(str(tmp_path / "photos"), ["cat/1.jpg", "dog/2.jpg"])
    cloud.put_folder(tmp_path / "photos", "photos")
    monkeypatch.setenv("BEAM_TFRECORD_IMAGE", IMAGE)
    main = load_script(DATAFLOW / "main.py")
    code = main.run(
        [
            f"--images={cloud.uri}/photos",
            f"--output={cloud.uri}/sets/pets",
            "--resume=true",
            "--name=",
            "--runner=DataflowRunner",
            f"--project={PROJECT}",
            f"--region={REGION}",
            "--job_name=pets",
            '--labels={"team": "pets"}',
            f"--service_account_email={ACCOUNT}",
            "--flexrs_goal=COST_OPTIMIZED",
            "--max_num_workers=20",
            f"--staging_location={cloud.uri}/temp/staging",
            f"--temp_location={cloud.uri}/temp/temp",
            f"--template_location={cloud.uri}/temp/staging/template_launches/1/job_object",
        ]
    )
    captured = capsys.readouterr()
    assert code == 0, captured.err
    assert service.jobs == []
    job = json.loads(cloud.get("temp/staging/template_launches/1/job_object"))
    assert job["name"] == "pets"
    assert job["labels"] == {"team": "pets"}
    environment = job["environment"]
    assert environment["serviceAccountEmail"] == ACCOUNT
    assert environment["flexResourceSchedulingGoal"] == "FLEXRS_COST_OPTIMIZED"
    (pool,) = environment["workerPools"]
    images = {harness["containerImage"] for harness in pool["sdkHarnessContainerImages"]}
    assert images == {IMAGE}
    assert [p["name"] for p in pool["packages"] if p["name"].endswith((".whl", ".tar.gz"))] == []
