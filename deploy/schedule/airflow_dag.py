"""Writes a data set every night: starts the Flex Template and waits for the job.

For Airflow 3, with apache-airflow-providers-google; on Airflow 2, import DAG from `airflow`. Change the
constants and put the file into the folder of DAGs. Each run writes to a folder named after its date, and
has the service copy the shards that have not changed since the newest complete data set. A retried task
continues where the job stopped.
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
    description="Converts images and labels to TFRecords, in a folder named after the date.",
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
                    "reuse": f"latest:{OUTPUT}",
                    "resume": "true",
                },
                "environment": {
                    "additionalUserLabels": {"application": "beam-tfrecord"},
                    "flexrsGoal": "FLEXRS_COST_OPTIMIZED",
                    "maxWorkers": 20,
                    "serviceAccountEmail": WORKER_SERVICE_ACCOUNT,
                    "stagingLocation": f"{TEMP}/staging",
                    "tempLocation": f"{TEMP}/temp",
                },
            }
        },
        # Dataflow does not start a second job while one with this name runs. So a retried task that
        # lost track of its job finds it again.
        append_job_name=False,
        deferrable=True,
        retries=2,
        retry_delay=timedelta(minutes=10),
        execution_timeout=timedelta(hours=18),
    )
