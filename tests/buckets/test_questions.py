"""Label files among the images in a bucket: a question, from what the listing has seen anyway."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.buckets.services import Store
from tests.harness import convert, convert_asking, manifest_of, read_all
from tests.pictures import picture

pytestmark = pytest.mark.buckets

NAMES = [f"{'ab'[i % 2]}/{i}.jpg" for i in range(12)]
TABLE = "filename,label\n" + "".join(f"{name},{'xyz'[i % 3]}\n" for i, name in enumerate(NAMES))


def _put(cloud: Store, **others: bytes) -> None:
    for i, name in enumerate(NAMES):
        cloud.put(f"in/{name}", picture(i))
    for name, content in others.items():
        cloud.put(f"in/{name}", content)


def test_a_table_among_the_images_is_a_question_that_its_command_answers(
    tmp_path: Path, cloud: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is asked of the bucket for it; --yes goes on by folders, and is recorded."""
    _put(cloud, **{"labels.csv": TABLE.encode()})
    argv = ["--images", f"{cloud.uri}/in", "--output", str(tmp_path / "out")]
    cloud.proxy.take_log()
    assert convert_asking(*argv) == 2
    assert not any("labels.csv" in request.path for request in cloud.proxy.take_log())
    *_, question, command, _ = capsys.readouterr().err.strip().splitlines()
    reason = "1 .csv file (labels.csv) would be ignored, and looks like a table of labels."
    assert question.startswith(f"- {reason}")
    answer = shlex.split(command)[2:]
    assert answer[2:4] == ["--labels", f"{cloud.uri}/in/labels.csv"]
    assert convert_asking(*answer) == 0
    assert {row["image/class/text"][0] for row in read_all(tmp_path / "out").values()} == {
        b"x",
        b"y",
        b"z",
    }
    assert convert(*argv, "--overwrite") == 0
    assert manifest_of(tmp_path / "out")["questions"] == [reason]


@pytest.mark.parametrize("cloud", ["gs"], indirect=True)
def test_a_text_beside_each_image_is_read_or_a_question(
    tmp_path: Path, cloud: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    """YOLO's are recognised; others are a question, and a named layout is not questioned."""
    _put(cloud, **{f"{name[:-4]}.txt": b"0 0.5 0.5 0.25 0.5\n" for name in NAMES})
    argv = ["--images", f"{cloud.uri}/in", "--output", str(tmp_path / "out")]
    assert convert_asking(*argv) == 0
    assert "Layout yolo: " in capsys.readouterr().out
    _put(cloud, **{f"{name[:-4]}.txt": b"0.5 0.25\n" for name in NAMES})
    argv += ["--overwrite"]
    assert convert_asking(*argv) == 2
    assert (
        "- 12 .txt files (a/0.txt, a/10.txt, and 10 more) would be ignored, about as many as images"
    ) in capsys.readouterr().err
    assert convert_asking(*argv, "--layout", "class_folders") == 0


@pytest.mark.parametrize("cloud", ["gs"], indirect=True)
def test_a_data_set_among_the_images_is_no_question(tmp_path: Path, cloud: Store) -> None:
    """Its JSON files are no labels."""
    _put(cloud)
    assert convert("--images", f"{cloud.uri}/in", "--output", str(tmp_path / "first")) == 0
    cloud.put_folder(tmp_path / "first", "in/old")
    assert "in/old/manifest.json" in cloud.names("in/old")
    assert convert_asking("--images", f"{cloud.uri}/in", "--output", str(tmp_path / "second")) == 0
