"""Every night a data set of its own: starts the Flex Template and waits for the job.

For apache-airflow with apache-airflow-providers-google. Change the constants and put the file into
the folder of DAGs. A night writes into a folder of its date, so it never meets a data set that other
images were in; a task that is tried again goes on where the job stopped.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from airflow.providers.google.cloud.operators.dataflow import DataflowStartFlexTemplateOperator
from airflow.sdk import DAG

PROJECT = "my-project"
REGION = "europe-west4"
TEMPLATE = "gs://my-templates/beam-tfrecord.json"
IMAGES = "gs://my-photos/pets"
OUTPUT = "gs://my-sets/pets"
TEMP = "gs://my-temp/beam-tfrecord"
WORKER_SERVICE_ACCOUNT = f"beam-tfrecord-worker@{PROJECT}.iam.gserviceaccount.com"

with DAG(
    dag_id="beam_tfrecord",
    description="Images and labels to TFRecords, into a folder of the date.",
    schedule="0 2 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    tags=["dataflow"],
) as dag:
    DataflowStartFlexTemplateOperator(
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
                    "resume": "true",
                },
                "environment": {
                    "flexrsGoal": "FLEXRS_COST_OPTIMIZED",
                    "maxWorkers": 20,
                    "serviceAccountEmail": WORKER_SERVICE_ACCOUNT,
                    "stagingLocation": f"{TEMP}/staging",
                    "tempLocation": f"{TEMP}/temp",
                },
            }
        },
        # While a job of this name runs, a second one is not started: a task that lost sight of its
        # job and is tried again finds it.
        append_job_name=False,
        deferrable=True,
        retries=2,
        retry_delay=timedelta(minutes=10),
        execution_timeout=timedelta(hours=18),
    )
