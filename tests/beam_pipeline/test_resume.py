"""`convert --resume`: goes on after a kill, sees that nothing changed, and refuses what did."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from beam_pipeline.core.dataset.receipts import receipt_name
from tests.harness import (
    ALL_BAD,
    convert,
    convert_killed_before,
    dead_letters_of,
    digests,
    job,
    made_once,
    manifest_of,
    run_convert,
    wait_until,
)
from tests.pictures import picture, write_files, write_pictures

SHARDS = 120


@pytest.mark.promise("killed")
@pytest.mark.slow
def test_killed_twenty_times_the_job_ends_in_the_same_bytes(tmp_path: Path) -> None:
    """At moments drawn from a fixed seed; no shard with a receipt is written again."""
    _kill_and_resume(tmp_path, kills=20, images=1500)


def _kill_and_resume(tmp_path: Path, *, kills: int, images: int) -> None:
    contents = {
        f"{'abcd'[i % 4]}/{i:04d}.bmp": picture(i, file_format="BMP") for i in range(images)
    }
    write_files(f"{tmp_path}/photos", {**contents, "a/bad.jpg": "no image"})
    argv = ["--images", f"{tmp_path}/photos", "--name", "d", "--num_shards", str(SHARDS)]
    argv += ["--image_check", "full", ALL_BAD]
    assert convert(*argv, "--output", f"{tmp_path}/whole") == 0
    whole = digests(tmp_path / "whole")
    output = tmp_path / "killed"
    argv += ["--output", str(output), "--resume"]
    rng = random.Random(0)
    inodes: dict[str, int] = {}
    for _ in range(kills):
        # A run begins with a few operations for each shard that is there, then writes further ones.
        operation = rng.choice([1, 5, 40]) + rng.randrange(6 * len(inodes) + 40)
        assert convert_killed_before(operation, *argv, folder=output) in (-signal.SIGKILL, 0)
        found = _shards(output)
        assert {name: found.get(name) for name in inodes} == inodes
        inodes = {name: found[name] for name in found if _has_receipt(output, name)}
        assert (output / "manifest.json").exists() <= (len(found) == SHARDS)
    assert inodes
    assert convert(*argv) == 0
    assert inodes.items() <= _shards(output).items()
    assert digests(output) == whole
    assert not (output / ".incomplete").exists()


@pytest.mark.promise("killed")
@pytest.mark.slow
def test_a_killed_job_with_writer_processes_goes_on(tmp_path: Path) -> None:
    """Whatever its writers had finished is kept; the rest ends in the same bytes."""
    contents = {f"{'abcd'[i % 4]}/{i:04d}.bmp": picture(i, file_format="BMP") for i in range(1500)}
    write_files(f"{tmp_path}/photos", contents)
    argv = ["--images", f"{tmp_path}/photos", "--name", "d", "--num_shards", str(SHARDS)]
    argv += ["--image_check", "full", "--writers", "2"]
    assert convert(*argv, "--output", f"{tmp_path}/whole") == 0
    output = tmp_path / "killed"
    argv += ["--output", str(output), "--resume"]
    for shards in (1, 10, 40):
        with job(*argv) as running:
            wait_until(lambda: len(_shards(output)) >= shards or running.poll() is not None)  # noqa: B023
    kept = {name: inode for name, inode in _shards(output).items() if _has_receipt(output, name)}
    assert convert(*argv) == 0
    assert kept.items() <= _shards(output).items()
    assert digests(output) == digests(tmp_path / "whole")


def _shards(folder: Path) -> dict[str, int]:
    """Shard -> its inode, which changes when it is written again."""
    names = os.listdir(folder) if folder.is_dir() else []
    return {name: os.stat(folder / name).st_ino for name in names if ".tfrecord-" in name}


def _has_receipt(folder: Path, shard: str) -> bool:
    return (folder / receipt_name(shard)).exists()


def _make(folder: Path) -> None:
    write_pictures(f"{folder}/photos", [f"{'ab'[i % 2]}/{i:02d}.jpg" for i in range(40)])
    write_files(f"{folder}/photos", {"a/bad.jpg": "no image", "README.txt": "mine"})
    assert convert(*_argv(folder)) == 0


def _argv(folder: Path) -> list[str]:
    argv = ["--images", f"{folder}/photos", "--output", f"{folder}/out", "--name", "d"]
    return [*argv, "--num_shards", "4", ALL_BAD]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Images, one of them broken, and their complete data set."""
    return made_once(tmp_path_factory.mktemp("resumed"), _make)


@pytest.fixture
def complete(made: Callable[[], Path]) -> Path:
    """A folder with images and their complete data set, in `out`, that has one dead letter."""
    return made()


@pytest.fixture
def argv(complete: Path) -> list[str]:
    """The arguments that made it."""
    return _argv(complete)


def modified(folder: Path) -> dict[str, int]:
    """When each file was written."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in paths}


def test_a_complete_data_set_is_up_to_date_and_not_touched(argv: list[str], complete: Path) -> None:
    """Exit code 0 and one line; no file is written again, and no image is opened."""
    before = modified(complete / "out")
    write_files(f"{complete}/photos", {"notes.txt": "passed over, so nothing has changed"})
    images = sorted((complete / "photos").rglob("*.jpg"))
    for path in images:
        os.utime(path, ns=(0, path.stat().st_mtime_ns))
    printed = run_convert(*argv, "--resume")
    assert {path.stat().st_atime_ns for path in images} == {0}
    assert printed.out.splitlines()[-1] == (
        f"{complete}/out is up to date: all is as it was when it was written"
    )
    assert modified(complete / "out") == before
    images[0].read_bytes()
    if images[0].stat().st_atime_ns == 0:
        pytest.skip("this file system does not note when a file was read")


def test_only_what_is_missing_is_written(argv: list[str], complete: Path) -> None:
    """A shard that is gone, one that is cut, and side files come back; the rest is not touched."""
    output = complete / "out"
    shutil.copytree(output, complete / "whole")
    before = modified(output)
    gone, cut = "d-train.tfrecord-00001-of-00004", "d-train.tfrecord-00002-of-00004"
    os.unlink(output / gone)
    os.truncate(output / cut, 100)
    os.unlink(output / "labels.txt")
    assert convert(*argv, "--resume") == 0
    assert digests(output) == digests(complete / "whole")
    after = modified(output)
    again = {name for name in before if after[name] != before[name]}
    assert again == {gone, cut, "labels.txt"} | {receipt_name(name) for name in (gone, cut)}


def _add_image(folder: Path) -> None:
    write_pictures(str(folder / "photos"), ["b/new.jpg"])


def _change_image(folder: Path) -> None:
    path = folder / "photos" / "a" / "00.jpg"
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert path.stat().st_size == size


def _remove_image(folder: Path) -> None:
    os.unlink(folder / "photos" / "b" / "01.jpg")


def _move_image(folder: Path) -> None:
    os.rename(folder / "photos" / "b", folder / "photos" / "c")


CHANGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "an image added": (_add_image, "its samples have changed: 1 added (b/new.jpg)."),
    "an image changed": (_change_image, "its samples have changed: 1 changed (a/00.jpg)."),
    "an image gone": (_remove_image, "its samples have changed: 1 gone (b/01.jpg)."),
    "a class renamed": (_move_image, "added (c/"),
}


@pytest.mark.promise("changed_between")
@pytest.mark.parametrize("what", CHANGES)
def test_changed_images_are_refused_and_named(argv: list[str], complete: Path, what: str) -> None:
    """Nothing of the complete data set is touched; the message says what changed and what to do."""
    change, message = CHANGES[what]
    before = modified(complete / "out")
    change(complete)
    error = run_convert(*argv, "--resume", code=1).err
    assert message in error
    assert error.endswith("Restore them, or convert again with --overwrite\n")
    assert modified(complete / "out") == before


@pytest.mark.promise("changed_between")
@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--seed", "1"], "seed was 0, is 1."),
        (["--image_check", "full"], 'options.image_check was "header", is "full".'),
        (["--compression", "gzip"], 'options.compression was "none", is "gzip".'),
        (["--num_shards", "5"], "options.num_shards was 4, is 5."),
        (["--features", "id=image/source_id"], 'options.features.id was null, is "image/source'),
    ],
)
def test_changed_options_are_refused_and_named(
    argv: list[str], complete: Path, option: list[str], message: str
) -> None:
    """They are seen before anything is listed."""
    before = modified(complete / "out")
    assert message in run_convert(*argv, *option, "--resume", code=1).err
    assert modified(complete / "out") == before


def test_images_that_make_other_shards_are_refused(tmp_path: Path) -> None:
    """Where more bytes ask for more shards, nothing is written beside the old ones."""
    write_pictures(f"{tmp_path}/photos", [f"a/{i}.jpg" for i in range(10)])
    argv = ["--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out", "--name", "d"]
    argv += ["--shard_size", "2000"]
    assert convert(*argv) == 0
    before = modified(tmp_path / "out")
    write_pictures(f"{tmp_path}/photos", [f"a/{i}.jpg" for i in range(20)])
    assert "(train: 4 shards then, 7 now)" in run_convert(*argv, "--resume", code=1).err
    assert modified(tmp_path / "out") == before


def test_resume_into_an_empty_folder_is_a_first_run(argv: list[str], complete: Path) -> None:
    """So a schedule needs one command for the first night and all others."""
    argv[argv.index(f"{complete}/out")] = f"{complete}/new"
    assert convert(*argv, "--resume") == 0
    assert digests(complete / "new") == digests(complete / "out")


def test_dead_letters_of_kept_shards_are_kept(argv: list[str], complete: Path) -> None:
    """A run that goes on has the dead letters of the shards that it did not write."""
    dead_letters = dead_letters_of(complete / "out")
    manifest = manifest_of(complete / "out")
    for name in ("manifest.json", "dead_letters.jsonl"):  # as if it had been killed at its end
        os.unlink(complete / "out" / name)
    note = complete / "out" / ".incomplete" / "plan.json"
    note.parent.mkdir()
    run = {key: manifest[key] for key in ("name", "seed", "options", "features")}
    note.write_text(
        json.dumps({"name": "d", "shards": [["train", 4]], "compression": "none", "run": run})
    )
    side_files = sorted(
        name for name in os.listdir(complete / "out") if name.endswith((".txt", "json", "html"))
    )
    (note.parent / "writing.json").write_text(json.dumps({"files": side_files}))
    assert convert(*argv, "--resume") == 0
    assert dead_letters_of(complete / "out") == dead_letters != []
    assert manifest_of(complete / "out") == manifest


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--overwrite"], "--resume keeps what --overwrite removes; give only one of the two"),
        (["--shuffle", "records"], "--resume needs the receipt of each shard"),
    ],
)
def test_options_that_cannot_go_with_it(argv: list[str], option: list[str], message: str) -> None:
    """They are wrong usage, said at once."""
    assert message in run_convert(*argv, *option, "--resume", code=2).err


def test_a_damaged_receipt_is_an_error_of_one_line(argv: list[str], complete: Path) -> None:
    """It names the file, and the data set stays as it is."""
    receipt = complete / "out" / ".receipts" / "d-train-00002-of-00004.json.gz"
    receipt.write_bytes(b"damaged")
    before = modified(complete / "out")
    error = run_convert(*argv, "--resume", code=1).err.splitlines()[-1]
    assert error.startswith(f"beam-tfrecord: error: {receipt} is damaged ")
    assert modified(complete / "out") == before
