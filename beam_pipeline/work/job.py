"""The job that a thread works for, and what it has in the process that launched it.

A job has writer processes, a file for references, a listener of its progress and the claim of its output
folder. Several jobs may run in one process, in threads of their own, and an engine works for each in
further threads. So a `DoFn` or a coder keeps the job that made it, and the threads that it runs
in enter that job:

    with PROGRESS.given(listener):   # a job that has a listener
        dofn = MyDoFn()              # keeps current_job()
    ...
    enter(dofn.job)                  # in a thread of the engine
    PROGRESS.get()                   # the listener

A pickled job is its id: on other machines, and when it has ended, it has nothing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")


class Job:
    """A job in the process that launched it."""

    def __init__(self, job_id: str, resources: Mapping[Resource[Any], Any]) -> None:
        self.id = job_id
        self.resources = resources

    def __reduce__(self) -> tuple[Any, ...]:
        return _job_of, (self.id,)


_NO_JOB = Job("", {})
_running: dict[str, Job] = {}
_current: ContextVar[Job] = ContextVar("job", default=_NO_JOB)


def _job_of(job_id: str) -> Job:
    return _running.get(job_id, _NO_JOB)


def current_job() -> Job:
    """The job that this thread works for."""
    return _current.get()


def enter(job: Job) -> None:
    """Makes this thread, which is an engine's, work for a job until it enters another one."""
    _current.set(job)


class Resource(Generic[_T]):
    """A kind of thing that a job may have."""

    def get(self) -> _T | None:
        """That of the current job; None if it has none."""
        return _current.get().resources.get(self)

    @contextlib.contextmanager
    def given(self, value: _T) -> Iterator[None]:
        """While the block runs, this thread works for a job that has this and what its job had."""
        job = Job(os.urandom(16).hex(), {**_current.get().resources, self: value})
        _running[job.id] = job
        token = _current.set(job)
        try:
            yield
        finally:
            _current.reset(token)
            del _running[job.id]
