"""The same jobs on Prism, the engine that Beam's DirectRunner starts: the same bytes."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.harness import (
    ALL_BAD,
    REPOSITORY,
    convert_in_process_of_its_own,
    dead_letters_of,
    digests,
)
from tests.pictures import picture, write_files, write_pictures

pytestmark = pytest.mark.prism

FOLDER = Path(REPOSITORY, "docs/datasets")
PAGES = {
    path.stem: commands[0]
    for path in sorted(FOLDER.glob("*.md"))
    if (
        commands := re.findall(
            r"^beam-tfrecord convert ((?:.*\\\n)*.*)$",
            path.read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    )
}


@pytest.fixture(scope="session")
def prism() -> tuple[str, ...]:
    """Options that run a job on Prism."""
    binary = os.environ.get("BEAM_TFRECORD_PRISM", "")
    if not shutil.which(binary):
        pytest.skip("needs Prism: name its binary in BEAM_TFRECORD_PRISM (.ci/run builds it)")
    return ("--runner=PrismRunner", f"--prism_location={binary}")


def test_every_page_has_a_command() -> None:
    """The data sets of the pages are what is run; a page without a command is about Python."""
    assert {"cifar10", "class_folders", "coco", "kitti", "regression", "voc"} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_a_data_set_has_the_same_bytes(prism: tuple[str, ...], page: str, tmp_path: Path) -> None:
    """Shards, manifest, class files and dead letters are those of the default engine."""
    importlib.import_module(f"tests.layouts.make_{page}").make(str(tmp_path))
    argv = shlex.split(PAGES[page].replace("\\\n", " "), comments=True)
    argv = [*argv[: argv.index("--output")], *argv[argv.index("--output") + 2 :], "--name", "d"]
    argv += [ALL_BAD, "--num_shards", "3"]
    for output, options in (("here", ()), ("prism", prism)):
        done = convert_in_process_of_its_own(*argv, *options, "--output", output, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert digests(tmp_path / "prism") == digests(tmp_path / "here")


def test_dead_letters_and_resume(prism: tuple[str, ...], tmp_path: Path) -> None:
    """What is left out is left out for the same reasons; a second run finds nothing to do."""
    names = [f"{i}.jpg" for i in range(30)]
    write_pictures(f"{tmp_path}/photos", names)
    rows = [f"{name},{i}" for i, name in enumerate(names)] + ["gone.jpg,1", "5.jpg,6"]
    table = "\n".join(["filename,score", *rows]) + "\n"
    write_files(str(tmp_path), {"labels.csv": table, "photos/7.jpg": "no image"})
    argv = ["--images", "photos", "--labels", "labels.csv", "--columns", "score:float"]
    argv += ["--label_column", "score", "--name", "d", "--num_shards", "2", ALL_BAD, "--resume"]
    for output, options in (("here", ()), ("prism", prism)):
        done = convert_in_process_of_its_own(*argv, *options, "--output", output, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert digests(tmp_path / "prism") == digests(tmp_path / "here")
    reasons = sorted(letter["reason"] for letter in dead_letters_of(tmp_path / "prism"))
    assert reasons == ["conflicting_labels", "missing_image", "not_an_image"]
    done = convert_in_process_of_its_own(*argv, *prism, "--output", "prism", cwd=tmp_path)
    assert done.stdout.splitlines()[-1].startswith(f"{tmp_path}/prism is up to date")


@pytest.mark.parametrize("bad", ["0", "1"])
def test_no_engine_is_left_running(prism: tuple[str, ...], bad: str, tmp_path: Path) -> None:
    """The process of Prism ends with the job, whether it went well or not."""
    write_files(f"{tmp_path}/photos", {"b/1.jpg": picture(), "a/1.jpg": "no image"})
    argv = ("--images", "photos", "--output", "out", "--max_bad_fraction", bad)
    done = convert_in_process_of_its_own(*argv, *prism, cwd=tmp_path)
    assert done.returncode == 1 - int(bad)
    here = [p for p in os.listdir("/proc") if p.isdigit() and _works_in(p, str(tmp_path))]
    assert here == []


def _works_in(process: str, folder: str) -> bool:
    try:
        return os.readlink(f"/proc/{process}/cwd") == folder
    except OSError:  # it has ended, or is not ours
        return False


def test_a_refusal_is_one_error(prism: tuple[str, ...], tmp_path: Path) -> None:
    """Too many bad samples: the reason and nothing of the engine's own tries."""
    write_files(f"{tmp_path}/photos", {f"a/{i}.jpg": "no image" for i in range(4)})
    done = convert_in_process_of_its_own(
        "--images", "photos", "--output", "out", *prism, cwd=tmp_path
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("beam-tfrecord: error: 4 bad samples among 4")
