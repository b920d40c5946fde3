"""Runs a command and measures it with every process that it starts, and describes the machine. Linux only.

CPU is the time that the operating system reports when processes are waited for. This process adopts
descendants whose parent has ended (it is a "child subreaper"), so daemons count, too. If a parent
ignores the end of its children, as Ray's does, their time is missing from that report. So each
process' own time is also recorded while it runs, and the larger sum counts.

Memory is the peak of the sum of proportional set sizes over all processes, sampled every 50 ms. A page
that n processes share counts an nth in each of them. Written files do not count. Sampling it slows the
processes down, so it is measured in runs of its own, whose times do not count.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import resource
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

PAUSE_S = 0.05
SHARE = 20  # sampling takes at most 1/20 of the time, so large processes are sampled less often
LINGER_S = 10  # processes that run this long after the command has ended are killed
TAIL_BYTES = 2000  # of stderr, shown if a command fails
TICKS = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGESIZE")
_PR_SET_CHILD_SUBREAPER = 36
_VERSIONS = """
import importlib.metadata, json, platform, sys
versions = {"Python": platform.python_version()}
for name in sys.argv[1:]:
    versions[name] = importlib.metadata.version(name)
print(json.dumps(versions))
"""


class Figures(NamedTuple):
    """The figures of one run: seconds until the command ended, CPU seconds and peak memory.

    Memory is in MB (10^6 bytes), and 0 if it was not measured.
    """

    wall: float
    cpu: float
    memory: float


class RunError(Exception):
    """The command failed."""


class Tree:
    """The descendants of this process, as listed in /proc."""

    def __init__(self) -> None:
        self._belongs = {os.getpid(): True, 0: False, 1: False}
        self._cpu: dict[int, int] = {}  # pid -> ticks, as last seen
        self.peak_bytes = 0

    @property
    def cpu(self) -> float:
        """Returns the CPU seconds of the processes when they were last seen."""
        return sum(self._cpu.values()) / TICKS

    def members(self) -> Iterator[int]:
        """Lists the running processes."""
        here = {int(name) for name in os.listdir("/proc") if name.isdigit()}
        for pid in self._belongs.keys() - here - {0}:
            del self._belongs[pid]
        for pid in here - {os.getpid()}:
            try:
                if self._is_member(pid):
                    yield pid
            except (FileNotFoundError, ProcessLookupError):
                pass  # it or its parent has just ended; an orphan is found next time

    def look(self, memory_limit: float) -> bool:
        """Records CPU and, if the limit is not 0, memory; returns True if that exceeds the limit."""
        total = 0
        for pid in self.members():
            try:
                fields = _stat(pid)
                self._cpu[pid] = int(fields[11]) + int(fields[12])
                total += _memory_bytes(pid) if memory_limit else 0
            except (FileNotFoundError, ProcessLookupError):
                pass
        self.peak_bytes = max(self.peak_bytes, total)
        return total > memory_limit > 0

    def kill(self) -> None:
        """Kills all processes."""
        for pid in list(self.members()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def _is_member(self, pid: int) -> bool:
        if pid not in self._belongs:
            self._belongs[pid] = self._is_member(int(_stat(pid)[1]))
        return self._belongs[pid]


def _stat(pid: int) -> list[str]:
    """Returns the fields of /proc/PID/stat from the state on: 1 is the parent, 11 and 12 CPU ticks."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return file.read().rpartition(")")[2].split()


def _memory_bytes(pid: int) -> int:
    """Returns the proportional set size, or the resident set size if that may not be read."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            for line in file:
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
            return 0
    except PermissionError:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * PAGE_BYTES


class Watch(threading.Thread):
    """Samples a tree until it is stopped; kills it if it exceeds its time or memory."""

    def __init__(self, tree: Tree, *, limit_s: float, limit_bytes: float) -> None:
        super().__init__(daemon=True)
        self._tree = tree
        self._end = time.perf_counter() + limit_s
        self._limit_bytes = limit_bytes
        self._lingers = False
        self._stopped = threading.Event()
        self.fault = ""

    def run(self) -> None:
        pause = 0.0
        while not self._stopped.wait(pause):
            start = time.perf_counter()
            if self._tree.look(self._limit_bytes):
                self.fault = f"took more than {self._limit_bytes / 1e9:.1f} GB of memory"
                self._tree.kill()
            elif start > self._end:
                if not self._lingers:
                    self.fault = "took too long"
                self._tree.kill()
            pause = max(PAUSE_S, SHARE * (time.perf_counter() - start))

    def linger(self) -> None:
        """Gives processes that the command left behind LINGER_S to end."""
        self._lingers = True
        self._end = time.perf_counter() + LINGER_S

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def adopt_orphans() -> None:
    """Makes this process the parent of every orphaned descendant."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def run(
    command: Sequence[str], *, cpus: Collection[int], limit_s: float, limit_bytes: float = 0
) -> Figures:
    """Runs a command to its end.

    Args:
      command: the command to run. Its standard output and its temporary files are discarded.
      cpus: numbers of the CPUs that it and its processes may use.
      limit_s: seconds after which it is killed.
      limit_bytes: total memory of its processes, in bytes, above which it is killed; 0 leaves memory
        unmeasured.

    Returns:
      The figures of the run.

    Raises:
      RunError: it ended with an error; the message quotes the end of its stderr.
    """
    adopt_orphans()
    tree = Tree()
    watch = Watch(tree, limit_s=limit_s, limit_bytes=limit_bytes)
    usages = []
    with (
        tempfile.TemporaryFile() as errors,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch,
    ):
        start = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env={**os.environ, "TMPDIR": scratch},
            preexec_fn=lambda: os.sched_setaffinity(0, cpus),
        )
        watch.start()
        try:
            for pid, status, usage in _ends():
                usages.append(usage)
                if pid == process.pid:
                    wall = time.perf_counter() - start
                    process.returncode = os.waitstatus_to_exitcode(status)
                    watch.linger()
        finally:
            watch.stop()
            tree.kill()
        if watch.fault:
            raise RunError(watch.fault)
        if process.returncode:
            errors.seek(max(0, os.fstat(errors.fileno()).st_size - TAIL_BYTES))
            tail = errors.read().decode(errors="replace")
            raise RunError(f"ended with {process.returncode}:\n{tail}")
    waited_for = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    return Figures(wall, max(waited_for, tree.cpu), tree.peak_bytes / 1e6)


def _ends() -> Iterator[tuple[int, int, resource.struct_rusage]]:
    """Yields (pid, status, usage) of each own or adopted child as it ends, until none is left."""
    while True:
        try:
            yield os.wait4(-1, 0)
        except ChildProcessError:
            return


def describe() -> dict[str, object]:
    """Returns CPU, cores, memory, kernel, and the load before the measurement."""
    return {
        "cpu": _field("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "memory_gb": round(int(_field("/proc/meminfo", "MemTotal").split()[0]) / 1e6, 1),
        "virtual": "hypervisor" in _field("/proc/cpuinfo", "flags").split(),
        "kernel": f"{platform.system()} {platform.release()}",
        "load": round(os.getloadavg()[0], 2),
    }


def _field(path: str, name: str) -> str:
    """Returns the value in the first line `name : value`; empty if there is none."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            key, _, value = line.partition(":")
            if key.strip() == name:
                return value.strip()
    return ""


def available_bytes() -> int:
    """Returns the memory that is available to new processes."""
    return int(_field("/proc/meminfo", "MemAvailable").split()[0]) * 1024


def file_system(path: str) -> str:
    """Returns the type of a path's file system, such as ext4 or tmpfs; the path need not exist."""
    path = os.path.realpath(path)
    best = kind = ""
    with open("/proc/self/mounts", encoding="utf-8") as file:
        for line in file:
            _, point, name, *_ = line.split()
            point = point.replace("\\040", " ")
            if os.path.commonpath([path, point]) == point and len(point) >= len(best):
                best, kind = point, name
    return kind


def versions(python: str, packages: Sequence[str]) -> dict[str, str]:
    """Returns name -> version of an interpreter and of packages in its environment."""
    command = [python, "-c", _VERSIONS, *packages]
    return dict(json.loads(subprocess.check_output(command)))


def sentence(about: dict[str, object]) -> str:
    """Describes the machine in one line."""
    virtual = " (virtual machine)" if about["virtual"] else ""
    cores = f"{about['cores']} cores" if about["cores"] != 1 else "1 core"
    return f"{about['cpu']}{virtual}, {cores}, {about['memory_gb']:.0f} GB, {about['kernel']}"
