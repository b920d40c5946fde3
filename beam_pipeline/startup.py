"""Makes a command that runs once start and end sooner. Every such trick of the program is in this file.

A program of its own calls `run`; the command line puts its import of Beam into `importing_beam`. In a
program that imports this package, neither changes anything but what Beam logs while it is imported.

Measured with `beam-tfrecord convert` of 300 images as whole processes, each trick on and off in turn; medians of
11 runs on two cores that were also busy with other work, so differences below 0.1 s are noise:

| trick | wall, on and off | CPU, on and off |
|---|---|---|
| Beam is imported without the clients of services | 1.58 s, 2.10 s | 1.67 s, 2.10 s |
| no garbage collection while importing, few later | 1.58 s, 1.59 s | 1.67 s, 1.65 s |
| `os._exit` instead of the interpreter's exit | 1.58 s, 1.52 s | 1.67 s, 1.58 s |
| all of them | 1.58 s, 2.61 s | 1.67 s, 2.80 s |

The second saved 0.1 s of CPU in another series. The third is there for runs that fail: a thread that
waits for storage would keep the process alive. Keeping back Beam's warnings saves no time, but hides two
about the missing clients.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import logging
import os
import re
import resource
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from beam_pipeline.core.errors import ConversionError
from beam_pipeline.core.text import is_utf8_everywhere
from beam_pipeline.terminal import (
    LineFormatter,
    complain,
    finish_output,
    prepare_streams,
    show_traceback,
)

_NOT_NEEDED = (
    "apitools",
    "bson",
    "google.api_core",
    "google.auth",
    "google.cloud",
    "pandas",
    "pyarrow",
    "pymongo",
    "requests",
)
_WHOLE_IMPORT = "BEAM_TFRECORD_WHOLE_IMPORT"
_LEAST_FILES = 32  # with fewer, imports fail in many ways
_LEAST_ADDRESS_SPACE = 256 << 20  # 256 MiB; with less, Beam was never imported
_SIGNS_OF_SHORTAGE = (
    "can't start new thread",
    "MemoryError",
    "Cannot allocate memory",
    "failed to map segment",
    "error return without exception set",  # a library could not allocate the exception either
)
_FULL = re.compile(
    rf"OSError: (\[Errno (?:{errno.ENOSPC}|{errno.EFBIG}|{errno.EDQUOT})\] [^\[\n]+)"
)
EXIT_INTERRUPTED = 130
_UTF8_MODE = "BEAM_TFRECORD_UTF8_MODE"
_OBJECTS_A_COLLECTION = 50_000  # references are many, and hold no cycles

_is_program = False
_importing = threading.Lock()


def run(command: Callable[[], int]) -> NoReturn:
    """Runs a command as the only task of this process, and ends the process with its exit code."""
    prepare_streams()
    decode_names_as_utf8()
    begin()
    try:
        check_limits()
        code = command()
    except SystemExit as end:  # of --help, or of a list of completions
        code = int(end.code or 0)
    except KeyboardInterrupt:  # before a job has begun, or in a command that has none
        complain("", "beam-tfrecord: interrupted")
        code = EXIT_INTERRUPTED
    except Exception as error:
        if not is_shortage(error) and not _is_out_of_files(error):
            raise
        message = _shortage_message() if is_shortage(error) else _files_message()
        complain(f"beam-tfrecord: error: {message}")
        code = 1
    leave(code)


def begin() -> None:
    """Marks this process as one that runs a single command, and stops garbage collection for now."""
    global _is_program
    _is_program = True
    gc.disable()
    sys.excepthook = show_traceback
    threading.excepthook = _show_traceback_of_thread


def check_limits() -> None:
    """Checks that Beam can be imported at all. Raises MemoryError or ConversionError."""
    if 0 <= _address_space() < _LEAST_ADDRESS_SPACE:  # libraries would end the process at once
        raise MemoryError
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if 0 <= most < _LEAST_FILES:
        raise OSError(errno.EMFILE, "")


def is_shortage(error: BaseException) -> bool:
    """Tells whether an error, or one behind it, means that memory or threads have run out."""
    return any(
        isinstance(seen, MemoryError)
        or getattr(seen, "errno", 0) == errno.ENOMEM
        or any(sign in str(seen) for sign in _SIGNS_OF_SHORTAGE)
        for seen in _and_behind(error)
    )


def _is_out_of_files(error: BaseException) -> bool:
    return any(getattr(seen, "errno", 0) == errno.EMFILE for seen in _and_behind(error))


def _and_behind(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _address_space() -> int:
    """Returns the limit of this process's address space in bytes; -1 if there is none."""
    return resource.getrlimit(resource.RLIMIT_AS)[0]


def _shortage_message() -> str:
    limit = _address_space()
    found = "this machine has too little memory, or allows too few threads (ulimit -u)"
    if limit >= 0:
        found = f"this process may use only {limit >> 20} MiB of address space (ulimit -v)"
    return (
        f"out of memory: {found}. A conversion takes about 600 MB of it, and less with --writers 0; "
        "free or allow more and run it again, with --resume to keep the shards that are complete"
    )


def _files_message() -> str:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return f"this process may open only {most} files at once (ulimit -n); allow 1024, as is usual"


def full_disk(error: BaseException) -> str:
    """The reason of an error of Beam's own sink on a full disk; empty for any other."""
    found = _FULL.search(f"OSError: {error}" if isinstance(error, OSError) else str(error))
    return found[1].strip() if found else ""


def _show_traceback_of_thread(raised: threading.ExceptHookArgs) -> None:
    """Shows what ended a thread, unless the error at the end says it."""
    if raised.exc_value is not None and not is_shortage(raised.exc_value):
        show_traceback(raised.exc_type, raised.exc_value, raised.exc_traceback)


def _is_to_be_shown(record: logging.LogRecord) -> bool:
    """Keeps back the traceback of a shortage, also of disk space, as the error at the end says it."""
    error = record.exc_info[1] if record.exc_info else None
    return error is None or not (full_disk(error) or is_shortage(error))


def decode_names_as_utf8() -> None:
    """Starts the program again where the locale would decode names of files otherwise than as UTF-8.

    A name's bytes decide its key, and so its shard, in any locale. Python decodes names by the locale, unless
    it is started in UTF-8 mode. What is printed keeps the terminal's encoding.
    """
    if is_utf8_everywhere() or _UTF8_MODE in os.environ:
        return
    os.environ[_UTF8_MODE] = "1"
    os.environ["PYTHONUTF8"] = "1"
    os.environ.setdefault("PYTHONIOENCODING", f"{sys.stdout.encoding}:backslashreplace")
    os.execv(sys.executable, sys.orig_argv)  # noqa: S606 -- this very command


def leave(code: int) -> NoReturn:
    """Ends the process at once, whatever its threads wait for.

    An engine that Beam starts as a process of its own is stopped at the interpreter's exit, so a
    command that names a runner ends in the usual way.
    """
    try:
        finish_output()
    except BrokenPipeError:
        pass
    except ConversionError as error:
        complain(f"beam-tfrecord: error: {error}")
        code = code or 1
    sys.stderr.flush()
    if any(argument.startswith("--runner") for argument in sys.argv):
        threading.excepthook = lambda _: None  # Beam's threads complain when the engine stops
        sys.exit(code)
    os._exit(code)


@contextlib.contextmanager
def importing_beam(*, lean: bool) -> Iterator[None]:
    """While the block imports Beam, keeps back its warnings and speeds the import up.

    Args:
      lean: the job needs only Beam's own engine and local files.
    """
    if _is_program:
        handler = logging.StreamHandler()
        handler.setFormatter(LineFormatter("%(levelname)s: %(message)s"))
        handler.addFilter(_is_to_be_shown)
        logging.basicConfig(level=logging.WARNING, handlers=[handler])
    with _importing:  # of another thread, too
        before = logging.root.manager.disable
        logging.disable(max(before, logging.WARNING))  # Beam warns of missing extras
        try:
            with _without_clients() if lean and _is_program else contextlib.nullcontext():
                yield
        finally:
            logging.disable(before)
    if _is_program:
        gc.freeze()
        gc.set_threshold(_OBJECTS_A_COLLECTION, 100, 100)  # the older generations rarely
        gc.enable()


@contextlib.contextmanager
def _without_clients() -> Iterator[None]:
    """Hides clients of services that Beam imports wherever they are installed, to see whether they are.

    Beam is built to work without them. Afterwards they can be imported as usual. Should a new version
    of Beam need one of them, the process starts again and hides nothing.
    """
    if "apache_beam" in sys.modules or _WHOLE_IMPORT in os.environ:
        yield
        return
    hidden = [name for name in _NOT_NEEDED if name not in sys.modules]
    modules: dict[str, Any] = sys.modules
    modules.update(dict.fromkeys(hidden))  # None: there is no such module
    try:
        yield
    except ImportError as error:
        if is_shortage(error):
            raise
        os.environ[_WHOLE_IMPORT] = "1"
        os.execv(sys.executable, sys.orig_argv)  # noqa: S606 -- this very command
    finally:
        for name in hidden:
            del modules[name]
