"""Makes one call to the operating system fail, chosen by function, file and count.

A call is a `Call`: the function, the path below the watched folder, and how often that pair came before. So
it is the same call in each run, whatever threads do in between, where the n-th of all calls would not be.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import fcntl
import io
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

SHORT = 0
"""In place of an error number: the call reads or writes part of what it should, and says how much."""

FAULTS: Mapping[str, Sequence[int]] = {
    "open": (errno.EACCES, errno.EMFILE, errno.EIO),
    "open for writing": (errno.ENOSPC, errno.EACCES, errno.EMFILE, errno.EIO),
    "read": (errno.EIO, SHORT, errno.ENOMEM),
    "read through a file object": (errno.EIO,),
    "write": (errno.ENOSPC, SHORT, errno.EIO, errno.EDQUOT),
    "fstat": (errno.EIO,),
    "fsync": (errno.EIO, errno.ENOSPC),
    "flock": (errno.EIO, errno.ENOLCK),
    "replace": (errno.EIO, errno.ENOSPC, errno.EACCES),
    "link": (errno.EXDEV, errno.EMLINK, errno.EPERM, errno.EIO, errno.ENOSPC),
    "mkdir": (errno.ENOSPC, errno.EACCES, errno.EIO),
    "unlink": (errno.EIO, errno.EACCES),
    "rmdir": (errno.EIO, errno.EBUSY),
    "scandir": (errno.EIO, errno.EACCES, errno.EMFILE),
    "listdir": (errno.EIO, errno.EMFILE),
    "stat": (errno.EIO, errno.EACCES),
    "lstat": (errno.EIO,),
    "statvfs": (errno.EIO,),
    "posix_fadvise": (errno.EIO,),
}
"""Function -> the errors that it meets on real machines."""

_UNIQUE = re.compile(r"[0-9a-f]{8,}[0-9a-z_.-]*|\d+-[0-9a-f]+")


class Call(NamedTuple):
    """A call: function, path below the watched folder, how often the two came before."""

    function: str
    path: str
    count: int


class Fault(NamedTuple):
    """A call and the number of the error that it meets, or `SHORT`."""

    call: Call
    error: int

    def __str__(self) -> str:
        error = errno.errorcode.get(self.error, "short")
        return f"{error} at {self.call.function} {self.call.path} ({self.call.count})"


@dataclass
class _Watch:
    """What is known while calls are watched."""

    folder: str
    fault: Fault | None
    real: Mapping[str, Callable[..., Any]]
    calls: list[Call] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    paths: dict[int, str] = field(default_factory=dict)
    """File descriptor -> path."""
    happened: bool = False

    def path_of(self, target: Any) -> str | None:
        """The path below the watched folder, without what differs from run to run; None for others."""
        if isinstance(target, int):
            return self.paths.get(target)
        try:
            path = os.path.abspath(os.fsdecode(target))
        except (TypeError, ValueError):
            return None
        if not path.startswith(self.folder + os.sep):
            return None
        return _UNIQUE.sub("*", os.path.relpath(path, self.folder))

    def meets(self, function: str, target: Any) -> int | None:
        """Notes a call; returns the error that it meets, or None."""
        path = self.path_of(target)
        if path is None:
            return None
        call = Call(function, path, self.counts[function, path])
        self.counts[function, path] += 1
        self.calls.append(call)
        if self.fault is None or self.fault.call != call:
            return None
        self.happened = True
        if self.fault.error == SHORT:
            return SHORT
        raise OSError(self.fault.error, os.strerror(self.fault.error), str(target))

    # --- the functions in place of those of `os` ---

    def open(self, path: Any, flags: int, *more: Any, **named: Any) -> int:
        writes = flags & (os.O_WRONLY | os.O_RDWR)
        self.meets("open for writing" if writes else "open", path)
        file: int = self.real["open"](path, flags, *more, **named)
        below = self.path_of(path)
        if below is not None:
            self.paths[file] = below
        return file

    def close(self, file: int) -> None:
        self.paths.pop(file, None)
        self.real["close"](file)

    def read(self, file: int, size: int) -> bytes:
        short = self.meets("read", file) == SHORT
        data: bytes = self.real["read"](file, max(size // 2, 1) if short else size)
        return data

    def plain(self, function: str) -> Callable[..., Any]:
        """A function whose first argument is a path or a file descriptor."""

        def called(target: Any = ".", *more: Any, **named: Any) -> Any:
            self.meets(function, target)
            return self.real[function](target, *more, **named)

        return called

    def replace(self, source: Any, target: Any) -> None:
        self.meets("replace", target)
        self.real["replace"](source, target)

    def fdopen(self, file: Any, mode: str = "r", buffering: int = -1, **named: Any) -> Any:
        """In place of the built-in `open`, for file descriptors that are known."""
        if not isinstance(file, int) or file not in self.paths or mode not in ("rb", "wb"):
            return self.real["fdopen"](file, mode, buffering, **named)
        if mode == "wb":
            written = _Written(file, self)
            written.closes = lambda: self.paths.pop(file, None)
            return io.BufferedWriter(written, buffering)
        try:
            self.meets("read through a file object", file)
        except OSError as error:
            raw: Any = _Unreadable(file, error)
        else:
            raw = _Closing(file)
        raw.closes = lambda: self.paths.pop(file, None)
        return raw if buffering == 0 else io.BufferedReader(raw)


class _Closing(io.FileIO):
    """A file that reports its end, so that its descriptor is not taken for the next file's."""

    closes: Callable[[], object]

    def close(self) -> None:
        if not self.closed:
            self.closes()
        super().close()


class _Written(_Closing):
    """A file each of whose writes is watched."""

    def __init__(self, file: int, watch: _Watch) -> None:
        super().__init__(file, "w")
        self._watch = watch

    def write(self, data: Any) -> int:
        short = self._watch.meets("write", self.fileno()) == SHORT
        return super().write(data[: max(len(data) // 2, 1)] if short else data)


class _Unreadable(_Closing):
    """A file that can be opened and not read."""

    def __init__(self, file: int, error: OSError) -> None:
        super().__init__(file)
        self._error = error

    def readinto(self, _: Any) -> int:
        raise self._error

    def readall(self) -> bytes:
        raise self._error


_PLAIN = ("fstat", "fsync", "mkdir", "link", "unlink", "rmdir", "scandir", "listdir")
_PLAIN_TOO = ("stat", "lstat", "statvfs", "posix_fadvise")


@contextlib.contextmanager
def watched(folder: Any, fault: Fault | None = None) -> Iterator[_Watch]:
    """Watches the calls on files below a folder, and makes one of them fail.

    Args:
      folder: an absolute path; calls on other files pass unseen.
      fault: the call to fail; None to watch only.
    """
    plain = (*_PLAIN, *_PLAIN_TOO)
    functions = ("open", "close", "read", "replace", *plain)
    real = {name: getattr(os, name) for name in functions}
    real |= {"fdopen": builtins.open, "flock": fcntl.flock}
    watch = _Watch(os.path.abspath(folder), fault, real)
    own = {"open": watch.open, "close": watch.close, "read": watch.read, "replace": watch.replace}
    try:
        for name in functions:
            setattr(os, name, own.get(name) or watch.plain(name))
        builtins.open = watch.fdopen  # type: ignore[assignment]
        fcntl.flock = watch.plain("flock")
        yield watch
    finally:
        for name in functions:
            setattr(os, name, real[name])
        builtins.open = real["fdopen"]
        fcntl.flock = real["flock"]


def faults_of(calls: Sequence[Call], *, every: bool) -> list[Fault]:
    """The faults to try at some calls.

    Args:
      calls: those of a run without faults.
      every: each error at each call; else one a call, each in its turn.
    """
    turns: Counter[str] = Counter()
    faults = []
    for call in calls:
        errors = FAULTS[call.function]
        if every:
            faults += [Fault(call, error) for error in errors]
        else:
            faults.append(Fault(call, errors[turns[call.function] % len(errors)]))
            turns[call.function] += 1
    return faults
