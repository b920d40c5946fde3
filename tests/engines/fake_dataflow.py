"""Dataflow's service as far as a launcher sees it: it takes jobs, and plays what becomes of them.

It answers as the REST reference of v1b3 says (projects.locations.jobs, .messages, .getMetrics, flexTemplates.launch). Each look at
a job's state takes its script one step on, once the counts of a step were asked for. What happens to a job
otherwise is up to a test: `runs` is called with it, and the job runs until then.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import urllib.parse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests import servers

PROJECT = "shapes-project"
REGION = "europe-west4"
_JOBS = re.compile(r"/v1b3/projects/([^/]+)/locations/([^/]+)/jobs(?:/([^/]+)(?:/(\w+))?)?")
_LAUNCH = re.compile(r"/v1b3/projects/([^/]+)/locations/([^/]+)/flexTemplates:launch")
_PATIENCE = 500  # looks at one state, for a launcher that never asks for counts
_ENDS = ("DONE", "FAILED", "CANCELLED")


class Step(NamedTuple):
    """What the service says until the next look at the state.

    Attributes:
      state: without JOB_STATE_.
      counts: user counters, name -> value.
      messages: (importance without JOB_MESSAGE_, text).
    """

    state: str
    counts: Mapping[str, int] = {}
    messages: tuple[tuple[str, str], ...] = ()


class Received(NamedTuple):
    """A job as it was submitted."""

    id: str
    project: str
    region: str
    body: dict[str, Any]


DONE = (Step("DONE"),)
_USAGE = {
    "cpu_num_seconds": "TotalVcpuTime",
    "mem_mb_seconds": "TotalMemoryUsage",
    "shuffle_service_actual_gb": "TotalShuffleDataProcessed",
    "shuffle_service_chargeable_gb": "BillableShuffleDataProcessed",
}
"""Original name of a metric of the service, behind `Service-` -> its name."""


class FakeDataflow:
    """The service, on a port of its own.

    Attributes:
      url: for `--dataflow_endpoint`.
      script: what becomes of the next job; the last step lasts.
      refusal: (code, status, message) to refuse jobs with, or None.
      jobs: what was submitted.
      looks: how often a state was asked for.
      usage: metric of the service -> value, of every job.
      runs: does a job, in a thread of its own; its script goes on when this returns.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._serving = contextlib.ExitStack()
        self.url = self._serving.enter_context(servers.served(self._respond)).url
        self.script: tuple[Step, ...] = DONE
        self.refusal: tuple[int, str, str] | None = None
        self.jobs: list[Received] = []
        self.looks = 0
        self.usage: Mapping[str, float] = {}
        self.runs: Callable[[Received], None] | None = None
        self._running: dict[str, threading.Thread] = {}
        self._scripts: dict[str, list[Step]] = {}
        self._played: dict[str, list[Step]] = {}
        self._asked = False  # for the counts of this step
        self._patience = _PATIENCE

    def stop(self) -> None:
        self._serving.close()

    def _respond(self, asked: servers.Asked) -> tuple[int, dict[str, str], bytes]:
        path, _, query = asked.path.partition("?")
        given = dict(urllib.parse.parse_qsl(query))
        code, answer = self._answer(asked.method, path, given, asked.body)
        return code, {"Content-Type": "application/json"}, json.dumps(answer).encode()

    def write_credentials(self, path: Path) -> None:
        """A service account that nobody knows but this service, which gives it tokens."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import rsa

        key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        account = {
            "type": "service_account",
            "project_id": PROJECT,
            "private_key_id": "1",
            "private_key": key.decode(),
            "client_email": f"launcher@{PROJECT}.iam.gserviceaccount.com",
            "client_id": "1",
            "token_uri": f"{self.url}/token",
        }
        path.write_text(json.dumps(account))

    def state(self, job: Received) -> str:
        """The state of a job, without JOB_STATE_."""
        return self._scripts[job.id][0].state

    def _answer(
        self, method: str, path: str, asked: Mapping[str, str], body: bytes
    ) -> tuple[int, dict[str, Any]]:
        if path == "/token":
            return 200, {"access_token": "t", "expires_in": 3600, "token_type": "Bearer"}
        if launch := _LAUNCH.fullmatch(path):
            with self._lock:
                return self._launch(*launch.groups(), json.loads(body)["launchParameter"])
        found = _JOBS.fullmatch(path)
        if not found:
            return _refused(404, "NOT_FOUND", f"{method} {path} is nothing here")
        project, region, job_id, what = found.groups()
        with self._lock:
            if method == "POST" and not job_id:
                return self._create(project, region, json.loads(body))
            if method == "GET" and not job_id:
                listed = [
                    job
                    for job in self.jobs
                    if (job.project, job.region) == (project, region)
                    and job.body["name"] == asked.get("name", job.body["name"])
                    and not (asked.get("filter") == "ACTIVE" and self.state(job) in _ENDS)
                ]
                return 200, {"jobs": [self._look(job) for job in listed]} if listed else {}
            known = [
                job
                for job in self.jobs
                if (job.project, job.region, job.id) == found.group(1, 2, 3)
            ]
            if method == "PUT" and known and not what:
                return self._update(known[0], json.loads(body))
            if method != "GET" or not known:
                return _refused(404, "NOT_FOUND", f"{method} {path}: there is no such job")
            if what == "messages":
                return 200, self._messages(job_id)
            if what == "metrics":
                return 200, self._metrics(job_id)
            return 200, self._look(known[0])

    def _launch(
        self, project: str, region: str, launched: dict[str, Any]
    ) -> tuple[int, dict[str, Any]]:
        """Refuses the name of an active job, which `_create` answers with that job."""
        name = launched["jobName"]
        if any(job.body["name"] == name and self.state(job) not in _ENDS for job in self.jobs):
            return _refused(409, "ALREADY_EXISTS", f"There is already an active job named {name}")
        body = {"name": name, "clientRequestId": "", "launched": launched}
        code, answer = self._create(project, region, body)
        return code, answer if code >= 400 else {"job": answer}

    def _create(
        self, project: str, region: str, body: dict[str, Any]
    ) -> tuple[int, dict[str, Any]]:
        if self.refusal:
            return _refused(*self.refusal)
        for job in self.jobs:
            active = self._scripts[job.id][0].state not in _ENDS
            if active and job.body["name"] == body["name"]:
                return 200, self._shown(job)
        job = Received(f"2026-01-01_00_00_00-{len(self.jobs)}", project, region, body)
        self.jobs.append(job)
        self._scripts[job.id] = [Step("PENDING"), *self.script]
        self._played[job.id] = []
        if self.runs:
            self._running[job.id] = threading.Thread(target=self.runs, args=(job,), daemon=True)
            self._running[job.id].start()
        return 200, self._shown(job)

    def _update(self, job: Received, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """A job that is asked to end does so when its state is asked for next."""
        if self.state(job) in _ENDS:
            return _refused(400, "FAILED_PRECONDITION", f"job {job.id} has ended")
        self._scripts[job.id] = [
            Step("CANCELLING"),
            Step(body["requestedState"].removeprefix("JOB_STATE_")),
        ]
        return 200, self._shown(job)

    def _look(self, job: Received) -> dict[str, Any]:
        self.looks += 1
        self._patience -= 1
        steps = self._scripts[job.id]
        waits = steps[0].counts and not self._asked and self._patience > 0
        busy = job.id in self._running and self._running[job.id].is_alive()
        if len(steps) > 1 and not waits and not busy:
            steps.pop(0)
            self._played[job.id].append(steps[0])
            self._asked, self._patience = False, _PATIENCE
        return self._shown(job)

    def _shown(self, job: Received) -> dict[str, Any]:
        return {
            "id": job.id,
            "name": job.body["name"],
            "projectId": job.project,
            "location": job.region,
            "type": "JOB_TYPE_BATCH",
            "currentState": f"JOB_STATE_{self._scripts[job.id][0].state}",
            "clientRequestId": job.body["clientRequestId"],
            "createTime": "2026-01-01T00:00:00Z",
            "startTime": "2026-01-01T00:00:00.250Z",
            "currentStateTime": "2026-01-01T00:05:12.750000001Z",
        }

    def _messages(self, job_id: str) -> dict[str, Any]:
        said = [message for step in self._played[job_id] for message in step.messages]
        return {
            "jobMessages": [
                {
                    "id": str(i),
                    "time": f"2026-01-01T00:00:{i:02d}Z",
                    "messageText": text,
                    "messageImportance": f"JOB_MESSAGE_{importance}",
                }
                for i, (importance, text) in enumerate(said)
            ]
        }

    def _metrics(self, job_id: str) -> dict[str, Any]:
        """Each counter as it was committed and, larger, as it was attempted."""
        self._asked = True
        metrics = [
            {
                "name": {
                    "origin": "user",
                    "name": name,
                    "context": {"namespace": "beam_tfrecord", "step": "s1", **tentative},
                },
                "scalar": value + len(tentative),
            }
            for name, value in self._scripts[job_id][0].counts.items()
            for tentative in ({}, {"tentative": "true"})
        ]
        metrics += [
            {
                "name": {
                    "origin": "dataflow/v1b3",
                    "name": _USAGE[name],
                    "context": {"original_name": f"Service-{name}"},
                },
                "scalar": value,
                "updateTime": "2026-01-01T00:00:00Z",
            }
            for name, value in self.usage.items()
        ]
        return {"metricTime": "2026-01-01T00:00:00Z", "metrics": metrics}


def _refused(code: int, status: str, message: str) -> tuple[int, dict[str, Any]]:
    return code, {"error": {"code": code, "status": status, "message": message}}
