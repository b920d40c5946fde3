"""Run by Airflow's interpreter: imports a DAG as Airflow does and prints it as JSON.

Its task is then launched twice at a service, whose URL is the second argument.
"""

import json
import sys

import googleapiclient.discovery
import httplib2
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
    hook = task.hook
    hook.get_conn = lambda: googleapiclient.discovery.build(
        "dataflow",
        "v1b3",
        http=httplib2.Http(),
        client_options={"api_endpoint": sys.argv[2]},
        static_discovery=True,
    )
    where = {"body": task.body, "location": task.location, "project_id": task.project_id}
    found["launched"] = [hook.launch_job_with_flex_template(**where)["id"] for _ in range(2)]
sys.stdout.write(json.dumps(found))
