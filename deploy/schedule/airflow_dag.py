"""Writes a data set every night: starts the Flex Template and waits for the job.

For Airflow 3, with apache-airflow-providers-google; on Airflow 2, import DAG from `airflow`. Change the
constants and put the file into the folder of DAGs. Each run writes to a folder named after its date, and
has the service copy the shards that have not changed since the newest complete data set. A retried task
continues where the job stopped.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import cached_property
from http import HTTPStatus
from typing import Any

from airflow.providers.google.cloud.hooks.dataflow import DataflowHook
from airflow.providers.google.cloud.operators.dataflow import DataflowStartFlexTemplateOperator
from airflow.sdk import DAG
from googleapiclient.errors import HttpError

PROJECT = "my-project"
REGION = "europe-west4"
TEMPLATE = "gs://my-templates/beam-tfrecord.json"
IMAGES = "gs://my-photos/pets"
OUTPUT = "gs://my-sets/pets"
TEMP = "gs://my-temp/beam-tfrecord"
WORKER_SERVICE_ACCOUNT = f"beam-tfrecord-worker@{PROJECT}.iam.gserviceaccount.com"
MOST_HOURS = 18


class FindingHook(DataflowHook):
    """Takes the running job of a name as the one that was launched.

    Dataflow answers 409 to a launch whose name an active job has. So does a retried task that lost
    track of its job.
    """

    def launch_job_with_flex_template(
        self, body: dict[str, Any], location: str, project_id: str
    ) -> dict[str, str]:
        """Launches the job, or finds it. Raises HttpError."""
        try:
            return super().launch_job_with_flex_template(
                body=body, location=location, project_id=project_id
            )
        except HttpError as error:
            if error.status_code != HTTPStatus.CONFLICT:
                raise
            name = body["launchParameter"]["jobName"]
            # https://cloud.google.com/dataflow/docs/reference/rest/v1b3/projects.locations.jobs/list
            jobs = self.get_conn().projects().locations().jobs()
            request = jobs.list(projectId=project_id, location=location, filter="ACTIVE", name=name)
            running: list[dict[str, str]] = request.execute().get("jobs", [])
            if not running:  # it has just ended: a retry of the task launches another
                raise
            self.log.info("The job %s of the name %s runs already.", running[0]["id"], name)
            return running[0]


class ConvertOperator(DataflowStartFlexTemplateOperator):
    """Launches the conversion, or waits for the one that runs."""

    @cached_property
    def hook(self) -> DataflowHook:
        """Requests to Dataflow."""
        return FindingHook(gcp_conn_id=self.gcp_conn_id)


with DAG(
    dag_id="beam_tfrecord",
    description="Converts images and labels to TFRecords, in a folder named after the date.",
    schedule="0 2 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    tags=["dataflow"],
) as dag:
    ConvertOperator(
        task_id="convert",
        project_id=PROJECT,
        location=REGION,
        # https://cloud.google.com/dataflow/docs/reference/rest/v1b3/projects.locations.flexTemplates/launch
        body={
            "launchParameter": {
                "jobName": "beam-tfrecord-{{ ds_nodash }}",
                "containerSpecGcsPath": TEMPLATE,
                "parameters": {
                    "images": IMAGES,
                    "output": OUTPUT + "/{{ ds }}",
                    "name": "pets",
                    "reuse": f"latest:{OUTPUT}",
                    "resume": "true",
                },
                "environment": {
                    # Dataflow cancels a job that takes longer.
                    "additionalExperiments": [
                        f"max_workflow_runtime_walltime_seconds={3600 * MOST_HOURS}"
                    ],
                    "additionalUserLabels": {"application": "beam-tfrecord"},
                    "flexrsGoal": "FLEXRS_COST_OPTIMIZED",
                    "maxWorkers": 20,
                    "serviceAccountEmail": WORKER_SERVICE_ACCOUNT,
                    "stagingLocation": f"{TEMP}/staging",
                    "tempLocation": f"{TEMP}/temp",
                },
            }
        },
        append_job_name=False,  # so that a retried task finds its job
        deferrable=True,
        retries=2,
        retry_delay=timedelta(minutes=10),
        execution_timeout=timedelta(hours=MOST_HOURS + 1),
    )
