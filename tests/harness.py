"""Runs conversions and reads what they wrote, with TensorFlow and not with our own reader."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from beam_pipeline.cli import main
from beam_pipeline.core.dataset.names import RECEIPTS_FOLDER, REPORT_NAME

NONE_BAD = "--max_bad_fraction=0"
ALL_BAD = "--max_bad_fraction=1"

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


RUNNER = shlex.split(os.environ.get("BEAM_TFRECORD_TEST_RUNNER", ""))
"""Beam options for every conversion that names no runner itself."""

IN_PROCESS = ("--writers=0",)
"""Options of a conversion in this process: starting writer processes costs as much as a small conversion, and
tests/beam_pipeline/test_same_bytes.py holds that the bytes are the same."""


def on_runner(argv: Sequence[str], default: Sequence[str] = ()) -> list[str]:
    """A conversion's arguments, completed by the runner of this test run or else by a default."""
    own = any(token.startswith(("--runner", "--direct_", "--writers")) for token in argv)
    return [*argv, *(() if own else RUNNER or default)]


def convert(*argv: str) -> int:
    """Runs `beam-tfrecord convert` in this process and returns its exit code.

    `--yes` answers what the small data sets of tests are asked, such as why there is a single class.
    """
    return convert_asking(*argv, "--yes")


def convert_asking(*argv: str) -> int:
    """The same without `--yes`: a guess that is not safe stops it."""
    return main(["convert", *on_runner(argv, IN_PROCESS)])


class Printed(NamedTuple):
    """What a command printed: standard output and standard error."""

    out: str
    err: str


def run(*argv: str, code: int = 0) -> Printed:
    """Runs `beam-tfrecord` in this process, which must end with this exit code."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        ended = main([*argv])
    assert ended == code, (argv, ended, err.getvalue())
    return Printed(out.getvalue(), err.getvalue())


def run_convert(*argv: str, code: int = 0) -> Printed:
    """The same for `convert`, as above."""
    return run_asking(*argv, "--yes", code=code)


def run_asking(*argv: str, code: int = 0) -> Printed:
    """The same without `--yes`."""
    return run("convert", *on_runner(argv, IN_PROCESS), code=code)


def process(*command: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a command, whatever its exit code, and captures what it prints as text."""
    options = {"check": False, "capture_output": True, "text": True, **options}
    return subprocess.run(list(map(str, command)), **options)


def python(*argv: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs this interpreter in a process of its own."""
    return process(sys.executable, *argv, **options)


def program(*argv: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs `beam-tfrecord` as a person would."""
    return python("-m", "beam_pipeline", *argv, **options)


def convert_in_process_of_its_own(*argv: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs `beam-tfrecord convert` as a person would."""
    return program("convert", *on_runner(argv), "--yes", **options)


def made_once(folder: Path, make: Callable[[Path], object]) -> Callable[[], Path]:
    """Makes files in a folder, such as a data set from its images.

    Returns: a function that puts them there again as they were, times included, and returns their folder. A
      module's tests may change them, and still there is one conversion.
    """
    here, kept = folder / "here", folder / "kept"
    here.mkdir()
    make(here)
    shutil.copytree(here, kept, symlinks=True)

    def again() -> Path:
        shutil.rmtree(here)
        shutil.copytree(kept, here, symlinks=True)
        return here

    return again


PATIENCE_S = 120
"""How long a test waits for another process; only a hang takes so long, even on a busy machine."""


@contextmanager
def job(*argv: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A `beam-tfrecord convert` that runs beside the block and is killed where the block leaves it running."""
    command = [sys.executable, "-m", "beam_pipeline", "convert", *argv, "--yes"]
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True, **options}
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_until(happens: Callable[[], Any], running: subprocess.Popen[str] | None = None) -> Any:
    """Asks until the answer is true and returns it; fails after a while, or once `running` has ended."""
    end = time.monotonic() + PATIENCE_S
    while not (answer := happens()):
        ended = running is not None and running.poll() is not None
        assert not ended, "the job ended first"
        assert time.monotonic() < end, f"not within {PATIENCE_S} s"
        time.sleep(0.005)
    return answer


KILL_BEFORE = """
import os, signal, sys
folder, left = sys.argv[1], int(sys.argv[2])
sys.argv[1:3] = []

def on_event(event, arguments):
    global left
    if event in EVENTS and str(arguments[0]).startswith(folder):
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

EVENTS = {"open", "os.mkdir", "os.rename", "os.link", "os.remove", "os.rmdir", "os.truncate"}
sys.addaudithook(on_event)
from beam_pipeline.cli import main
sys.exit(main(["convert", *sys.argv[1:]]))
"""


def convert_killed_before(operation: int, *argv: str, folder: Any) -> int:
    """Runs `convert` in one process, which is killed before its n-th operation on a file in `folder`.

    Counting operations instead of seconds kills a job at the same moment on every machine.

    Returns:
      -SIGKILL, or the exit code of a job that needed fewer operations.
    """
    command = [sys.executable, "-c", KILL_BEFORE, str(folder), str(operation)]
    done = subprocess.run(
        [*command, *argv, "--writers", "0", "--yes"],
        capture_output=True,
        check=False,
        timeout=PATIENCE_S,
    )
    return done.returncode


def run_shell(command: str, folder: Any) -> subprocess.CompletedProcess[str]:
    """Runs a shell command, which must succeed, in a folder, with this interpreter's scripts first in the path."""
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-ec", command],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, "\n".join((command, done.stdout, done.stderr))
    return done


def documented(page: str, language: str, section: str = "") -> list[str]:
    """The blocks of code in a section of a page, such as docs/grain.md; without one, of the whole page."""
    with open(os.path.join(REPOSITORY, page), encoding="utf-8") as file:
        text = file.read()
    if section:
        text = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def change_json(path: Path, *keys: object, value: object) -> None:
    """Puts a value into a JSON file, gzipped or not; without a value, `...`, removes the entry."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        content = json.load(file)
    entry = content
    for key in keys[:-1]:
        entry = entry[key]
    if value is ...:
        del entry[keys[-1]]
    else:
        entry[keys[-1]] = value
    with opened(path, "wt", encoding="utf-8") as file:
        json.dump(content, file)


def manifest_of(folder: Any) -> dict[str, Any]:
    with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
        manifest: dict[str, Any] = json.load(file)
    return manifest


def dead_letters_of(folder: Any) -> list[dict[str, Any]]:
    with open(os.path.join(folder, "dead_letters.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def reasons_of(folder: Any) -> dict[str, str]:
    """key -> reason of every dead letter."""
    return {dead_letter["key"]: dead_letter["reason"] for dead_letter in dead_letters_of(folder)}


def sources_of(folder: Any) -> dict[str, tuple[str, str, int]]:
    """key -> (reason, label file, line) of every dead letter; the last two are "" and 0 where missing."""
    return {
        one["key"]: (one["reason"], one.get("file", ""), one.get("line", 0))
        for one in dead_letters_of(folder)
    }


def shard_names(folder: Any) -> list[str]:
    return sorted(name for name in os.listdir(folder) if ".tfrecord-" in name)


def read_shard(folder: Any, name: str) -> list[dict[str, Any]]:
    """The examples of a shard as TensorFlow reads them, in their order: key -> list of values."""
    import tensorflow as tf

    kind = "GZIP" if name.endswith(".gz") else ""
    dataset = tf.data.TFRecordDataset(os.path.join(folder, name), compression_type=kind)
    return [_features(tf.train.Example.FromString(record.numpy())) for record in dataset]


def _features(example: Any) -> dict[str, Any]:
    return {
        key: list(getattr(feature, feature.WhichOneof("kind")).value)
        for key, feature in example.features.feature.items()
    }


def read_all(folder: Any) -> dict[str, dict[str, Any]]:
    """source_id -> features of every example; fails where two have the same id."""
    examples: dict[str, dict[str, Any]] = {}
    for name in shard_names(folder):
        for features in read_shard(folder, name):
            (source_id,) = features["image/source_id"]
            assert source_id.decode() not in examples
            examples[source_id.decode()] = features
    return examples


def split_of_each(folder: Any) -> dict[str, str]:
    """source_id -> split, by the shard that the example is in."""
    return {
        features["image/source_id"][0].decode(): name.partition(".")[0].rpartition("-")[2]
        for name in shard_names(folder)
        for features in read_shard(folder, name)
    }


def float32(values: Iterable[float]) -> list[float]:
    """The numbers as a FloatList gives them back."""
    values = list(values)
    return list(struct.unpack(f"<{len(values)}f", struct.pack(f"<{len(values)}f", *values)))


def assert_the_same_bytes_everywhere(*argv: str) -> None:
    """Converts in one thread, three writer processes and two threads of Beam: into one, two, three."""
    threads = ("--runner=FnApiRunner", "--direct_running_mode=multi_threading")
    assert convert(*argv, "--writers=0", "--output", "one") == 0
    assert convert(*argv, "--writers=3", "--output", "two") == 0
    done = convert_in_process_of_its_own(
        *argv, *threads, "--direct_num_workers=2", "--output", "three"
    )
    assert done.returncode == 0, done.stderr
    assert digests("one") == digests("two") == digests("three")


def read_all_by(folder: Any, key: str) -> dict[str, dict[str, Any]]:
    """Text of one feature -> features of every example."""
    return {
        features[key][0].decode(): features
        for name in shard_names(folder)
        for features in read_shard(folder, name)
    }


def digests(folder: Any) -> Mapping[str, str]:
    """file -> sha256 of everything in an output folder but the receipts, which name its images.

    Of the report, without the command, which names them, too, and the digest at its end.
    """
    found = {}
    for name in sorted(set(os.listdir(folder)) - {RECEIPTS_FOLDER}):
        with open(os.path.join(folder, name), "rb") as file:
            content = file.read()
        if name == REPORT_NAME:
            content = re.sub(b"<pre.*?</pre>|<!--.*-->", b"", content, flags=re.DOTALL)
        found[name] = hashlib.sha256(content).hexdigest()
    return found


def objects_of(features: Mapping[str, Any]) -> dict[str, Any]:
    """The features of an example's objects, their keys without the beginning that all share."""
    prefix = "image/object/"
    return {k.removeprefix(prefix): v for k, v in features.items() if k.startswith(prefix)}
