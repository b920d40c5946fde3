"""Makes a command that runs once start and end sooner. Every such trick of the program is in this file.

A separate program calls `run`; the command line puts its import of Beam into `importing_beam`. In a
program that imports this package, neither changes anything but what Beam logs while it is imported.

Measured with `beam-tfrecord convert` of ten images as whole processes, medians on two busy cores: without
these tricks, with all clients installed and writer processes from the start, it takes 2.9 times the CPU time. Most
of that is the import of clients of services, and of libraries that Beam rarely calls. `os._exit`
instead of the interpreter's exit is for runs that fail: a thread that waits for storage would keep the process
alive. Keeping back Beam's warnings saves no time, but hides two about the missing clients.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import gc
import logging
import os
import re
import resource
import sys
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

from beam_pipeline import terminal
from beam_pipeline.core import errors, text

_NOT_NEEDED = (
    *("apache_beam.io.gcp.bigquery", "apitools", "google.api_core", "google.auth", "google.cloud"),
    *("boto3", "bson", "pymongo", "requests"),
    *("absl", "pandas", "pyarrow", "regex"),
)
_CALLED_LATER = (
    *("beartype.door", "beartype.roar", "numpy", "objsize", "sortedcontainers"),
    *("fastavro", "fastavro.read", "fastavro.write", "yaml", "zipfile"),
    *("google.protobuf.text_format", "grpc", "proto"),
    *("cryptography.fernet", "http.client", "httplib2", "urllib.request"),
    *("dateutil.parser", "importlib.metadata", "packaging.version", "pprint", "pstats"),
)
_WHOLE_IMPORT = "BEAM_TFRECORD_WHOLE_IMPORT"
_LEAST_FILES, _LEAST_ADDRESS_SPACE = 32, 256 << 20  # with less, imports fail in many ways
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
_OBJECTS_A_COLLECTION = 50_000  # references are many, and without cycles

_is_program = False
_importing = threading.Lock()


def run(command: Callable[[], int]) -> NoReturn:
    """Runs a command as the only task of this process, and ends the process with its exit code."""
    terminal.prepare_streams()
    decode_names_as_utf8()
    begin()
    space, most = (resource.getrlimit(of)[0] for of in (resource.RLIMIT_AS, resource.RLIMIT_NOFILE))
    try:
        if 0 <= space < _LEAST_ADDRESS_SPACE or 0 <= most < _LEAST_FILES:
            raise MemoryError
        code = command()
    except SystemExit as end:  # of --help, or of a list of completions
        code = int(end.code or 0)
    except KeyboardInterrupt:  # before a job has begun, or in a command that has none
        terminal.complain("", "beam-tfrecord: interrupted")
        code = EXIT_INTERRUPTED
    except Exception as error:
        if not is_shortage(error):
            raise
        terminal.complain(
            "beam-tfrecord: error: out of memory, threads or open files. A conversion takes about 600 MB of memory, "
            "and less with --writers 0, and 32 open files; free some, or allow this process more (`ulimit -a` shows "
            "its limits), and run it again, with --resume to keep the shards that are complete"
        )
        code = 1
    leave(code)


def begin() -> None:
    """Marks this process as one that runs a single command, and stops garbage collection for now."""
    global _is_program
    _is_program = True
    gc.disable()
    _make_methods_when_called()
    sys.excepthook = terminal.show_traceback
    threading.excepthook = _show_traceback_of_thread


def begin_writer() -> None:
    """Prepares a writer process before it imports our modules, and for references, which have no cycles."""
    gc.set_threshold(_OBJECTS_A_COLLECTION, 100, 100)
    _make_methods_when_called()


def _make_methods_when_called() -> None:
    """From now on, the methods of each dataclass in this process are compiled by their first call.

    Up to Python 3.12, a frozen dataclass compiles six functions, each on its own. That is half of the time that
    our modules are imported, and most are never called.
    """
    create: Any = getattr(dataclasses, "_create_fn", None)

    def create_later(name: str, arguments: Any, body: Any, **options: Any) -> Any:
        def first(self: Any, *values: Any, **named: Any) -> Any:
            method = create(name, arguments, body, **options)
            method.__qualname__ = first.__qualname__
            for owner in type(self).__mro__:
                if vars(owner).get(name) is first:
                    setattr(owner, name, method)
            return method(self, *values, **named)

        first.__name__ = name
        return first

    if create:
        setattr(dataclasses, "_create_fn", create_later)  # noqa: B010 -- it is not public


def is_shortage(error: BaseException | None) -> bool:
    """Tells whether an error, or its cause, means that memory, threads or file descriptors have run out."""
    while error is not None:
        number, text = getattr(error, "errno", 0), str(error)
        is_short = isinstance(error, MemoryError) or number in (errno.ENOMEM, errno.EMFILE)
        if is_short or any(sign in text for sign in _SIGNS_OF_SHORTAGE):
            return True
        error = error.__cause__ or error.__context__
    return False


def full_disk(error: BaseException) -> str:
    """The reason of an engine's error on a full disk; empty for any other."""
    match = _FULL.search(f"OSError: {error}" if isinstance(error, OSError) else str(error))
    return match[1].strip() if match else ""


def _show_traceback_of_thread(raised: threading.ExceptHookArgs) -> None:
    """Shows what ended a thread, unless the error at the end states it."""
    if raised.exc_value is not None and not is_shortage(raised.exc_value):
        terminal.show_traceback(raised.exc_type, raised.exc_value, raised.exc_traceback)


def _is_to_be_shown(record: logging.LogRecord) -> bool:
    """Keeps back the traceback of a shortage, also of disk space, because the final error reports it."""
    error = record.exc_info[1] if record.exc_info else None
    return error is None or not (full_disk(error) or is_shortage(error))


def decode_names_as_utf8() -> None:
    """Starts the program again where the locale would decode names of files otherwise than as UTF-8.

    A name's bytes decide its key, and so its shard, in any locale. Python decodes names by the locale, unless
    it is started in UTF-8 mode. What is printed keeps the terminal's encoding.
    """
    if text.is_utf8_everywhere() or _UTF8_MODE in os.environ:
        return
    os.environ[_UTF8_MODE] = "1"
    os.environ["PYTHONUTF8"] = "1"
    os.environ.setdefault("PYTHONIOENCODING", f"{sys.stdout.encoding}:backslashreplace")
    os.execv(sys.executable, sys.orig_argv)  # noqa: S606 -- this very command


def leave(code: int) -> NoReturn:
    """Ends the process at once, whatever its threads wait for.

    An engine that Beam starts as a separate process is stopped at the interpreter's exit, so a
    command that names a runner ends in the usual way.
    """
    try:
        terminal.finish_output()
    except BrokenPipeError:
        pass
    except errors.ConversionError as error:
        terminal.complain(f"beam-tfrecord: error: {error}")
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
        handler.setFormatter(terminal.LineFormatter("%(levelname)s: %(message)s"))
        handler.addFilter(_is_to_be_shown)
        logging.basicConfig(level=logging.WARNING, handlers=[handler])
    with _importing:  # of another thread as well
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


class _CalledLater(ModuleType):
    """Replaces a module that Beam names and rarely calls; the first call imports it.

    A name is a class, so that Beam can derive from it, list it as a type, and test values for it, which are never
    of it. A call of it calls what the module has under that name.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _ANSWERS:
            return _ANSWERS[name]
        bases = (Exception,) if name.endswith(("Error", "Exception")) else ()
        value = _StandIn(name, bases, {"_stands_for": (self.__name__, name)})
        setattr(self, name, value)
        return value


class _StandIn(type):
    """The type of such names."""

    def __call__(cls, *arguments: Any, **options: Any) -> Any:
        if "_stands_for" not in vars(cls):  # derived from one
            return super().__call__(*arguments, **options)
        module, name = vars(cls)["_stands_for"]
        if isinstance(sys.modules.get(module), _CalledLater):  # a call while Beam is imported
            del sys.modules[module]
        return getattr(import_module(module), name)(*arguments, **options)


def _is_subhint(sub: Any, base: Any) -> bool:
    """Tells whether a type hint is part of another, as beartype does, which is imported for generic ones."""
    if isinstance(sub, type) and isinstance(base, type):
        return issubclass(sub, base)
    from beartype.door import is_subhint
    from beartype.roar import BeartypeDoorException

    try:
        return is_subhint(sub, base)
    except BeartypeDoorException:
        return False


_ANSWERS = {
    "is_subhint": _is_subhint,
    "argsort": lambda numbers: sorted(range(len(numbers)), key=numbers.__getitem__),
    "iinfo": lambda _: SimpleNamespace(max=2**31 - 1),  # of int32, which alone Beam asks about
}
"""What Beam calls while it is imported, or often."""


@contextlib.contextmanager
def _without_clients() -> Iterator[None]:
    """Hides clients of services that Beam imports wherever they are installed, to see whether they are.

    Beam is built to work without them. Libraries that it does need, for a call that few jobs make, are imported
    by that call. Afterwards all can be imported as usual. Should a new version of Beam need one of them,
    the process starts again and hides nothing.
    """
    if "apache_beam" in sys.modules or _WHOLE_IMPORT in os.environ:
        yield
        return
    hidden: dict[str, Any] = dict.fromkeys(_NOT_NEEDED)  # None: the module does not exist
    hidden.update((name, _CalledLater(name)) for name in _CALLED_LATER)
    hidden = {name: module for name, module in hidden.items() if name not in sys.modules}
    sys.modules.update(hidden)
    try:
        yield
    except (ImportError, AttributeError, TypeError, RecursionError) as error:
        if is_shortage(error):
            raise
        os.environ[_WHOLE_IMPORT] = "1"
        os.execv(sys.executable, sys.orig_argv)  # noqa: S606 -- this very command
    finally:
        for name in [name for name in hidden if sys.modules.get(name) is hidden[name]]:
            del sys.modules[name]
