"""Archives that --images names, converted where they lie by the rules of folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from beam_pipeline.cli import main
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.layouts import layout, opening
from tests import archives, harness
from tests.pictures import picture, write_files

PETS = {f"{name}/{i}.jpg": picture(i) for i, name in enumerate(("cat", "dog", "cat", "dog"))}


def _source(*images: str, **options: object) -> layout.Source:
    return opening.open_source("auto", layout.SourceOptions(images=images, **options))[0]  # type: ignore[arg-type]


def _classes(folder: str) -> dict[str, str]:
    return {
        key: features["image/class/text"][0].decode()
        for key, features in harness.read_all(folder).items()
    }


def test_what_cannot_be_read_is_a_dead_letter(working_folder: Path) -> None:
    """Links, names that lead out, names that come twice, and images that are none."""
    members = [*PETS.items(), ("../1.jpg", b"1"), ("cat/x.jpg", b"no image"), ("cat/e.jpg", b"")]
    archives.make_tar(Path("a.tar"), [*members, ("cat/2.jpg", PETS["cat/2.jpg"])])
    assert harness.convert("--images", "a.tar", "--output", "out", harness.ALL_BAD) == 0
    assert sorted(
        (letter["key"], letter["reason"]) for letter in harness.dead_letters_of("out")
    ) == [
        ("a.tar/../1.jpg", "unusable_member"),
        ("a.tar/cat/2.jpg", "duplicate_key"),
        ("a.tar/cat/2.jpg", "duplicate_key"),
        ("a.tar/cat/e.jpg", "empty_file"),
        ("a.tar/cat/x.jpg", "not_an_image"),
    ]
    assert len(_classes("out")) == 3


@pytest.mark.slow
def test_a_run_is_resumed_unless_an_archive_has_changed(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its time of change, as each file's is; shards are repaired from it."""
    archives.make_zip(Path("pets.zip"), PETS)
    argv = ["--images", "pets.zip", "--output", "out", "--num_shards=2"]
    assert harness.convert(*argv) == 0
    before = harness.digests("out")
    (shard,) = Path("out").glob("*.tfrecord-00001-of-00002")
    shard.unlink()
    assert main(["repair", "out"]) == 0
    assert harness.digests("out") == before
    shard.unlink()
    assert harness.convert(*argv, "--resume") == 0
    assert harness.digests("out") == before
    archives.make_zip(Path("pets.zip"), {name: picture(9) for name in PETS})
    os.utime("pets.zip", ns=(1, 1))
    capsys.readouterr()
    assert harness.convert(*argv, "--resume") == 1
    assert " changed (pets.zip/cat/" in capsys.readouterr().err
    shard.unlink()
    assert main(["repair", "out"]) == 1
    assert "its images have changed" in capsys.readouterr().err


def test_a_folder_with_an_archives_name_is_a_folder(working_folder: Path) -> None:
    """As what it is counts, not what it is called."""
    write_files("pets.tar", PETS)
    assert _source("pets.tar").roots == (ImageRoot(str(working_folder / "pets.tar")),)
