"""The data sets of the docs' pages, and that an engine writes them as the default one does."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.harness import (
    ALL_BAD,
    PATIENCE_S,
    REPOSITORY,
    convert,
    convert_in_process_of_its_own,
    dead_letters_of,
    digests,
    job,
    process,
)
from tests.layouts.proofs import prepared
from tests.pictures import picture, write_files, write_pictures

SCRIPTS = {
    "records_to_shards.py": (),
    "convert_and_follow.py": ("photos",),
    "embeddings_and_own_labels.py": ("photos",),
}
"""Pipeline of examples/ -> its arguments before the output folder."""


def assert_example_has_same_bytes(script: str, options: tuple[str, ...], folder: Path) -> None:
    """A pipeline of examples/ writes what it writes in this process, and prints the same."""
    write_files(f"{folder}/photos", {"a/1.jpg": picture(), "b/2.jpg": picture(), "b/3.jpg": "no"})
    printed = {
        name: process(
            *(sys.executable, f"{REPOSITORY}/examples/{script}"),
            *(*SCRIPTS[script], f"{folder}/{name}/out", *argv),
            cwd=folder,
            check=True,
            timeout=PATIENCE_S,
        ).stdout
        for name, argv in (("here", ("--runner=FnApiRunner",)), ("there", options))
    }
    assert digests(folder / "here/out") == digests(folder / "there/out")
    assert printed["here"]
    assert set(printed["here"].splitlines()) <= set(printed["there"].splitlines())


def assert_proof_has_same_bytes(name: str, options: tuple[str, ...]) -> None:
    """Shards, manifest, class files and dead letters of a proof's data are those of the default engine, which works meanwhile.

    Args:
      name: of the proof.
      options: name the engine.
    """
    argv = [*prepared(name), "--name", "d", ALL_BAD, "--num_shards", "1"]
    with job(*argv, *options, "--output", "there") as there:
        assert convert(*argv, "--output", "here") == 0
        errors = there.communicate(timeout=PATIENCE_S)[1]
    assert there.returncode == 0, errors
    assert digests("there") == digests("here")


def assert_converted_alike(argv: list[str], options: tuple[str, ...], folder: Path) -> None:
    """The same bytes by the default engine into `here`, and by another into `there`."""
    for output, engine in (("here", ()), ("there", options)):
        done = convert_in_process_of_its_own(*argv, *engine, "--output", output, cwd=folder)
        assert done.returncode == 0, done.stderr
    assert digests(folder / "there") == digests(folder / "here")


def assert_dead_letters_and_resume(options: tuple[str, ...], folder: Path) -> None:
    """What is left out is left out for the same reasons; a second run finds nothing to do."""
    names = [f"{i}.jpg" for i in range(30)]
    write_pictures(f"{folder}/photos", names)
    rows = [f"{name},{i}" for i, name in enumerate(names)] + ["gone.jpg,1", "5.jpg,6"]
    table = "\n".join(["filename,score", *rows]) + "\n"
    write_files(str(folder), {"labels.csv": table, "photos/7.jpg": "no image"})
    argv = ["--images", "photos", "--labels", "labels.csv", "--columns", "score:float"]
    argv += ["--label_column", "score", "--name", "d", "--num_shards", "2", ALL_BAD, "--resume"]
    assert_converted_alike(argv, options, folder)
    reasons = sorted(dead_letter["reason"] for dead_letter in dead_letters_of(folder / "there"))
    assert reasons == ["conflicting_labels", "missing_image", "not_an_image"]
    done = convert_in_process_of_its_own(*argv, *options, "--output", "there", cwd=folder)
    assert done.stdout.splitlines()[-1].startswith(f"{folder}/there is up to date")


def processes_in(folder: Path) -> list[str]:
    """Ids of the processes whose working folder this is."""
    return [process for process in os.listdir("/proc") if _works_in(process, str(folder))]


def _works_in(process: str, folder: str) -> bool:
    try:
        return os.readlink(f"/proc/{process}/cwd") == folder
    except OSError:  # no process, or it has ended, or is not ours
        return False
