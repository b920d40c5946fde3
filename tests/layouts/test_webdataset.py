"""WebDataset's archives: classes, captions and columns beside the images."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import ContainerError
from beam_pipeline.layouts import layout, webdataset
from tests.archives import make_tar
from tests.conformance.trees import csv, jsonl, masks, png
from tests.harness import NONE_BAD, convert, read_all
from tests.pictures import picture, write_files


def opened(*images: str, **options: Any) -> layout.Source:
    """The source of some archives."""
    return webdataset.WebDataset().open(layout.SourceOptions(images=images, **options))


IMAGE = picture(1)
KINDS = ("jpg", "cls")
AMBIGUOUS = "ambiguous_key"


def shard(**samples: Any) -> dict[str, bytes]:
    """base__extension=content -> files of an archive, after two good samples with a class."""
    files = {"g0.jpg": IMAGE, "g0.cls": b"cat", "g1.jpg": IMAGE, "g1.cls": b"dog"}
    for name, content in samples.items():
        base, _, extension = name.partition("__")
        files[f"{base}.{extension.replace('_', '.')}"] = content
    return files


def read(name: str, **options: Any) -> list[Any]:
    """The samples and dead letters of an archive."""
    labels = opened(name, **options).labels
    assert isinstance(labels, layout.ContainerLabels)
    return list(labels.reader.read(str(Path(name).absolute()), "nowhere"))


def outcomes(name: str) -> tuple[list[str], dict[str, str]]:
    """Keys of the samples of an archive, and key -> reason of its dead letters."""
    found = read(name)
    letters = {item.key: item.reason for item in found if isinstance(item, DeadLetter)}
    return [item.key for item in found if not isinstance(item, DeadLetter)], letters


def test_a_path_twice_is_no_sample(working_folder: Path) -> None:
    """Nobody knows which of the two is meant."""
    make_tar(Path("a.tar"), [*shard(a__jpg=IMAGE, a__cls=b"cat").items(), ("a.jpg", IMAGE)])
    assert outcomes("a.tar")[1] == {"a.tar/a.jpg": "duplicate_key"}


def test_an_image_of_a_name_that_the_first_samples_lack_is_not_lost(working_folder: Path) -> None:
    """Its sample is left out, unless the user has said what to do with it."""
    first = {f"{i:04d}.{kind}": [IMAGE, b"1"][kind == "cls"] for i in range(1000) for kind in KINDS}
    make_tar(Path("a.tar"), {**first, "z.jpg": IMAGE, "z.depth.png": IMAGE, "z.cls": b"1"})
    (letter,) = (item for item in read("a.tar") if isinstance(item, DeadLetter))
    assert (letter.key, letter.reason) == ("a.tar/z.jpg", AMBIGUOUS)
    assert "--columns depth:file writes it, depth:skip leaves it out" in letter.message
    for columns, count in (({"depth": "file"}, 2), ({"depth": "skip"}, 1)):
        assert not any(isinstance(item, DeadLetter) for item in read("a.tar", columns=columns))
        assert len(opened("a.tar", columns=columns).columns) == count


@pytest.mark.parametrize(
    "options",
    [
        "--images pairs --labels pairs.jsonl --columns right:file,views:file,talk:json,code:str,nose:point "
        "--label_column label",
        "--images pairs/left --masks pairs/masks",
        "--images pairs --labels objects.jsonl",
        "--images pairs/left --labels boxes.csv --unlabelled empty --columns occluded:int,score:float",
        "--images pairs --labels pairs.jsonl --columns talk:skip,right:skip,views:skip,caption:str "
        "--label_column none",
        "--images pairs --labels empty.jsonl --columns none:int --list_column none=; --label_column none",
    ],
)
def test_our_own_shards_come_back_to_the_same_features(options: str, working_folder: Path) -> None:
    """Files and lists of them, JSON, numbers, texts like numbers, captions, points, masks and objects, and none."""
    rows = [
        {
            "image": f"left/{i}.png",
            "right": f"right/{i}.png" if i else "",
            "label": "ba"[i % 2],
            "views": [f"right/{n}.png" for n in range(i)],
            "talk": [{"n": i}, "é"],
            "code": f"0{i}",
            "score": float(i),
            "age": i,
            "tags": ["a"] * i,
            "nose_x": i,
            "nose_y": 2 * i,
            "caption": f"é {i}",
        }
        for i in range(4)
    ]
    objects = [
        {"bbox": [[j, 1, 3.3, 2]] * i, "categories": [7, *"ab"][:i], "area": [0.1 * j] * i}
        for i, j in enumerate((3, 0, 7, 5))
    ]
    boxes = csv(
        [f"{i % 3}.png" for i in range(7)],
        label=("3", "18"),
        xmin=range(7),
        ymin=(1, 2),
        xmax=[i + 5.37 for i in range(7)],
        ymax=(6.1, 7.77),
        occluded=(0, 1),
        score=(0.1, 1, 0.33),
    )
    write_files(
        ".",
        {
            "boxes.csv": boxes,
            "objects.jsonl": jsonl(
                {"image": f"left/{i}.png", "objects": o} for i, o in enumerate(objects)
            ),
            "empty.jsonl": jsonl({"image": f"left/{i}.png", "none": ""} for i in range(4)),
        },
    )
    paths = [f"pairs/{side}/{i}.png" for side in ("left", "right") for i in range(4)]
    write_files(".", {path: png(i, 16, 8) for i, path in enumerate(paths)})
    write_files(".", {**masks("pairs/masks/{0..3}.png"), "pairs.jsonl": jsonl(rows)})
    argv = [*options.split(), "--yes", NONE_BAD]
    assert convert(*argv, "--output", "plain") == 0
    assert convert(*argv, "--output", "tars", "--format", "webdataset", "--name", "d") == 0
    assert convert("--images", "tars/d-train-00000.tar", "--output", "back", NONE_BAD) == 0
    names = ("image/filename", "image/source_id")
    plain, back = (
        sorted(
            [
                {k: v for k, v in example.items() if k not in names}
                for example in read_all(f).values()
            ],
            key=repr,
        )
        for f in ("plain", "back")
    )
    assert back == plain


def test_files_of_skipped_columns_are_neither_read_nor_judged(working_folder: Path) -> None:
    """A link, a name twice, broken JSON and a caption in another encoding, each of a column that nobody wants."""
    bad = {"a.talk.json": b"{", "a.txt": b"\xff", "a.jpg": IMAGE, "a.cls": b"cat"}
    make_tar(Path("a.tar"), [*shard().items(), *bad.items(), *[("a.seg.png", IMAGE)] * 2])
    with tarfile.open("a.tar", "a") as tar:
        link = tarfile.TarInfo("a.right.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    skipped = ("talk", "caption", "seg", "right")
    for missing in skipped:
        columns = {name: "skip" for name in skipped if name != missing}
        kinds = [type(item).__name__ for item in read("a.tar", columns=columns)]
        assert kinds == ["SampleRef", "SampleRef", "DeadLetter"]
    samples = read("a.tar", columns=dict.fromkeys(skipped, "skip"))
    assert [(sample.key, sample.labels) for sample in samples] == [
        ("a.tar/g0.jpg", ("cat",)),
        ("a.tar/g1.jpg", ("dog",)),
        ("a.tar/a.jpg", ("cat",)),
    ]


def test_of_two_files_of_labels_neither_is_guessed(working_folder: Path) -> None:
    """Wherever they are; two that state the same are no doubt."""
    files = shard(a__jpg=IMAGE, a__cls=b"cat", a__json=b"{}")
    make_tar(Path("a.tar"), [("a.cls", b"dog"), *files.items(), ("g0.cls", files["g0.cls"])])
    letter, *samples = sorted(read("a.tar"), key=lambda item: item.key != "a.tar/a.jpg")
    assert isinstance(letter, DeadLetter)
    assert (letter.key, letter.reason) == ("a.tar/a.jpg", "bad_label_value")
    assert letter.message == (
        "its .cls cannot be used: its archive has two that differ; pack it again, with one"
    )
    assert {(item.key, item.labels[0]) for item in samples} == {
        ("a.tar/g0.jpg", "cat"),
        ("a.tar/g1.jpg", "dog"),
    }


def test_an_archive_cut_short_stops_the_run(working_folder: Path) -> None:
    """Where it is looked into only by the job: samples would be lost unnoticed."""
    for name in ("a.tar", "b.tar", "c.tar"):
        make_tar(Path(name), shard())
    source = opened("a.tar", "b.tar", "c.tar")
    assert isinstance(source.labels, layout.ContainerLabels)
    data = Path("b.tar").read_bytes()
    Path("b.tar").write_bytes(data[:2000])
    with pytest.raises(ContainerError, match=r"b\.tar: at byte 1536 it does not end as a tar"):
        list(source.labels.reader.read(str(working_folder / "b.tar"), "nowhere"))


@given(
    st.dictionaries(st.sampled_from(["a.jpg", "a.cls", "a.txt", "a.json", "b.json"]), st.binary())
)
def test_any_contents_are_samples_or_dead_letters(files: dict[str, bytes]) -> None:
    """Whatever lies beside an image, each sample has one outcome."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.tar")
        good = {"g.jpg": IMAGE, "g.cls": b"1", "g.txt": b"x", "g.json": b'{"n": 1}'}
        make_tar(path, {**good, **files})
        found = read(str(path))
        bases = {name.partition(".")[0] for name in files} | {"g"}
        keys = {Path(item.key).name.partition(".")[0] for item in found}
        assert keys == bases
        assert len(found) == len(bases)
        assert all(isinstance(item, DeadLetter) or len(item.labels) >= 1 for item in found)
