"""Parquet files that hold the images: what is recognised, what the columns become, and questions."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from beam_pipeline.cli import main
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import ContainerError
from beam_pipeline.core.references import SampleRef
from beam_pipeline.layouts import parquet
from beam_pipeline.layouts.layout import ContainerLabels, SourceOptions
from beam_pipeline.storage import files
from tests.harness import (
    NONE_BAD,
    convert,
    read_all,
    split_of_each,
)
from tests.layouts.make_parquet import FEATURES, make_parquet, pets, write_parquet
from tests.pictures import picture


@pytest.mark.slow
def test_resume_reuse_and_repair(working_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Shards are kept and reused as long as the files are unchanged; none can be rewritten."""
    make_parquet(".")
    argv = ["--images", "hf", "--name", "pets", NONE_BAD]
    assert convert(*argv, "--output", "out") == 0
    assert convert(*argv, "--output", "out", "--resume") == 0
    assert "is up to date" in capsys.readouterr().out
    assert convert(*argv, "--output", "new", "--reuse", "out") == 0
    assert "0 written, 0 B" in capsys.readouterr().out
    assert read_all("new") == read_all("out")
    Path("new/pets-test.tfrecord-00000-of-00001").unlink()
    assert main(["repair", "new"]) == 1
    assert "unpacked from a file of many samples" in capsys.readouterr().err


@pytest.mark.readers
def test_what_hugging_face_writes(working_folder: Path) -> None:
    """The library's own export gives the same images, classes and splits back."""
    datasets: Any = pytest.importorskip("datasets")
    images = [Image.open(io.BytesIO(picture(i, file_format="PNG"))) for i in range(10)]
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=["dog", "cat"]),
            "tags": datasets.Sequence(datasets.ClassLabel(names=["p", "q"])),
        }
    )
    columns = {
        "image": images,
        "label": [i % 2 for i in range(10)],
        "tags": [[0, 1][: i % 3] for i in range(10)],
    }
    written = datasets.Dataset.from_dict(columns, features=features)
    parts = written.train_test_split(test_size=0.3, seed=1)
    Path("hf/data").mkdir(parents=True)
    for split, part in parts.items():
        part.to_parquet(f"hf/data/{split}-00000-of-00001.parquet")
    assert convert("--images", "hf", "--output", "out", NONE_BAD) == 0
    found = read_all("out")
    assert split_of_each("out").keys() == found.keys()
    for split, part in parts.items():
        for i, row in enumerate(part):
            example = found.pop(f"data/{split}-00000-of-00001.parquet/{i:05d}")
            decoded = Image.open(io.BytesIO(example["image/encoded"][0]))
            assert decoded.tobytes() == row["image"].tobytes()
            assert example["image/class/label"] == [row["label"]]
            assert example["image/class/text"] == [[b"dog", b"cat"][row["label"]]]
            assert example["label/tags"] == [[b"p", b"q"][tag] for tag in row["tags"]]
    assert found == {}


# --- rows ----------------------------------------------------------------------------------------


def items_of(*images: str, **options: Any) -> list[SampleRef | DeadLetter]:
    """What the reader yields for all files, unpacked to `unpacked`."""
    labels = parquet.Parquet().open(SourceOptions(images=images, **options)).labels
    assert isinstance(labels, ContainerLabels)
    folder = os.path.abspath("unpacked")
    return [item for uri in labels.files for item in labels.reader.read(uri, folder)]


def content_of(ref: SampleRef) -> bytes:
    return files.read_image(ref.uri, ref.size, ref.offset)


def test_references_name_unpacked_images(working_folder: Path) -> None:
    """Each has its bytes, values, split, and the file that it came from."""
    write_parquet("hf/val-0.parquet", pets(range(5)), FEATURES, row_group_size=2)
    uri = os.path.abspath("hf/val-0.parquet")
    refs = [item for item in items_of("hf") if isinstance(item, SampleRef)]
    assert [content_of(ref) for ref in refs] == [picture(i, size=(32, 32)) for i in range(5)]
    assert [ref.key for ref in refs] == [f"val-0.parquet/0000{i}" for i in range(5)]
    assert refs[2].labels == ("cat", "a cat in the garden", "pet2.jpg")
    assert refs[3].labels == ("dog", "a dog in the garden", "val-0.parquet/00003")
    assert {(ref.split, ref.origin, ref.version) for ref in refs} == {
        ("validation", uri, os.stat(uri).st_mtime_ns)
    }
    assert items_of("hf") == refs


def test_nothing_is_unpacked_for_a_plan(working_folder: Path) -> None:
    """References say what they would; no file is written."""
    write_parquet("x.parquet", pets(range(5)), FEATURES)
    labels: Any = parquet.Parquet().open(SourceOptions(images=("x.parquet",))).labels
    found = [*labels.reader.read(labels.files[0], "")]
    assert os.listdir(".") == ["x.parquet"]
    assert [ref._replace(uri="") for ref in found] == [
        item._replace(uri="") for item in items_of("x.parquet")
    ]


def test_no_room_to_unpack(working_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run stops before it fills the disk."""
    write_parquet("x.parquet", pets(range(5)), FEATURES)
    monkeypatch.setattr(files, "free_bytes", lambda folder: 1000)
    with pytest.raises(ContainerError, match=r"would be unpacked to about [0-9,]+ bytes, and the"):
        items_of("x.parquet")


def test_many_rows_come_in_their_order(working_folder: Path) -> None:
    """Also where references are packed to save memory."""
    count = 9000
    rows = [{"image": b"\xff\xd8\xff%025d" % i, "label": i % 3} for i in range(count)]
    write_parquet("x.parquet", rows, row_group_size=700)
    refs = [item for item in items_of("x.parquet") if isinstance(item, SampleRef)]
    assert [ref.key for ref in refs] == [f"x.parquet/{i:05d}" for i in range(count)]
    assert content_of(refs[8999]) == b"\xff\xd8\xff%025d" % 8999


def test_a_damaged_file(working_folder: Path) -> None:
    """The job stops; nothing of it is left among the unpacked files."""
    for name in ("a", "c"):
        write_parquet(f"{name}.parquet", pets(range(2)), FEATURES)
    content = Path("a.parquet").read_bytes()
    Path("b.parquet").write_bytes(content[: len(content) // 2])
    with pytest.raises(ContainerError, match=r"b\.parquet is not a Parquet file, or is damaged"):
        items_of("a.parquet", "b.parquet", "c.parquet")
    assert len([name for name in os.listdir("unpacked") if name.endswith(".images")]) == 1


def test_a_glob_lists_only_the_folders_that_it_names(tmp_path: Path) -> None:
    """A link in it is followed, and one to nowhere in another folder is not met."""
    (tmp_path / "set").mkdir()
    (tmp_path / "set/a.parquet").write_bytes(b"")
    (tmp_path / "all/other").mkdir(parents=True)
    (tmp_path / "all/linked").symlink_to(tmp_path / "set")
    (tmp_path / "all/other/gone").symlink_to("nowhere")
    (file,) = parquet.parquet_files((f"{tmp_path}/all/l*/*.parquet",))
    assert file == (f"{tmp_path}/all/linked/a.parquet", "linked/a.parquet", "")
