"""Run by Airflow's interpreter: imports a DAG as Airflow does and prints what came of it as JSON."""

import json
import sys

from airflow.dag_processing.dagbag import DagBag
from google.cloud.dataflow_v1beta3 import LaunchFlexTemplateRequest

bag = DagBag(dag_folder=sys.argv[1])
found: dict[str, object] = {"errors": list(bag.import_errors.values())}
for name, dag in bag.dags.items():
    (task,) = dag.tasks
    LaunchFlexTemplateRequest.from_json(json.dumps(task.body), ignore_unknown_fields=False)
    context = {"ds": "2026-01-31", "ds_nodash": "20260131"}
    task.render_template_fields(context)
    found[name] = {
        "schedule": dag.schedule,
        "catchup": dag.catchup,
        "max_active_runs": dag.max_active_runs,
        "operator": type(task).__name__,
        "body": task.body,
        "append_job_name": task.append_job_name,
        "deferrable": task.deferrable,
        "retries": task.retries,
    }
sys.stdout.write(json.dumps(found))
