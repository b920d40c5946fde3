"""The data sets of the docs' pages, and that an engine writes them as the default one does."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

from tests.conformance.pages import MAKERS, make_data
from tests.harness import (
    ALL_BAD,
    PATIENCE_S,
    REPOSITORY,
    convert,
    convert_in_process_of_its_own,
    dead_letters_of,
    digests,
    job,
    manifest_of,
    process,
)
from tests.pictures import picture, write_files, write_pictures

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
"""Page -> arguments of its command; a page without one is about Python."""

LAYOUT_SETS = {
    "file_names": ("tables", r"--images photos --label_from 'IMG_\d+(?P<label>\d)\.jpg'"),
    "cifar10": ("cifar10", "--images cifar-10-python.tar.gz"),
    "cifar100": ("cifar10", "--images cifar-100-python"),
    "webdataset": ("archives", "--images pets-train-{000..001}.tar pets-val-000.tar"),
    "parquet": ("parquet", "--images hf"),
    "labelme": ("shape_tools", "--images labelme"),
    "supervisely": ("shape_tools", "--images supervisely --object_features masks"),
    "cvat": ("shape_tools", "--images cvat --object_features masks --columns occluded:int"),
    "via": ("shape_tools", "--images via"),
    "label_studio": ("label_tools", "--images label_studio"),
    "labelbox": ("label_tools", "--images labelbox"),
    "ultralytics": ("label_tools", "--images ultralytics"),
    "hasty": ("label_tools", "--images hasty"),
    "datumaro": ("label_tools", "--images datumaro"),
    "kitti": ("kitti", "--images kitti"),
    "voc": ("voc", "--images labelled"),
    "coco_panoptic": (
        "coco",
        "--images panoptic/train2017 --labels panoptic/annotations/panoptic_train2017.json",
    ),
    "coco": ("coco", "--images export"),
    "yolo": ("yolo", "--images coco6"),
    "pairs": ("files_in_cells", "--images stereo --layout pairs"),
    "masks": ("segmentation", "--images shapes/images --masks shapes/masks --classes classes.txt"),
    "imagefolder": ("imagefolder", "--images cppe"),
    "caption_files": ("caption_files", "--images dogs"),
    "automl": ("automl", "--images my-project-vcm/streets --labels streets.csv"),
    "table": ("table_boxes", "--images train --labels train_labels.csv"),
    "class_folders": ("class_folders", "--images cars"),
}
"""Layout -> page whose data sets hold one of it, and the arguments that convert that one."""


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


def assert_same_bytes(page: str, options: tuple[str, ...], folder: Path) -> None:
    """Shards, manifest, class files and dead letters are those of the default engine.

    Args:
      page: of docs/datasets.
      options: name the engine.
      folder: an empty one.
    """
    make_data(page, str(folder))
    argv = shlex.split(PAGES[page].replace("\\\n", " "), comments=True)
    argv = [*argv[: argv.index("--output")], *argv[argv.index("--output") + 2 :], "--name", "d"]
    argv += [ALL_BAD, "--num_shards", "3"]
    assert_converted_alike(argv, options, folder)


def assert_layout_has_same_bytes(layout: str, options: tuple[str, ...], folder: Path) -> None:
    """The same of a small data set of a layout, one shard a split; the default engine works meanwhile.

    Args:
      layout: its name.
      options: name the engine.
      folder: an empty one, which is the working directory.
    """
    page, typed = LAYOUT_SETS[layout]
    MAKERS[page](str(folder))
    argv = [*shlex.split(typed), "--name", "d", ALL_BAD, "--num_shards", "1"]
    with job(*argv, *options, "--output", "there") as there:
        assert convert(*argv, "--output", "here") == 0
        errors = there.communicate(timeout=PATIENCE_S)[1]
    assert there.returncode == 0, errors
    assert digests(folder / "there") == digests(folder / "here")
    assert manifest_of(folder / "here")["options"]["layout"] == layout


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
