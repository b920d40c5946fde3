"""A number an image: `metadata.csv` with a space behind its comma and names without extension."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from beam_pipeline.cli import main
from tests.harness import (
    NONE_BAD,
    convert,
    digests,
    float32,
    manifest_of,
    problems_of,
    read_all,
)
from tests.layouts.make_regression import make, numbers
from tests.pictures import write_files, write_pictures


@pytest.fixture
def faces(working_folder: Path) -> Path:
    """A folder with data/metadata.csv and data/images in it, which is the working directory."""
    make(str(working_folder))
    return working_folder


def test_the_number_is_the_label(faces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every image has the float32 that is nearest to what its row says, and there are no classes."""
    assert convert("--images", "data", "--output", "out", "--writers=0", NONE_BAD) == 0
    assert (
        "Layout imagefolder: metadata.csv in data names images in its column filename\n"
        in capsys.readouterr().out
    )
    examples = read_all("out")
    assert {key: features["image/label"] for key, features in examples.items()} == {
        f"images/{name}.png": float32([float(number)]) for name, number in numbers().items()
    }
    assert not {key for features in examples.values() for key in features if "class" in key}
    manifest = manifest_of("out")
    assert manifest["features"]["image/label"] == {"kind": "float", "optional": False, "shape": []}
    assert manifest["classes"] == []
    assert "labels.txt" not in os.listdir("out")
    assert main(["verify", "out"]) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "argv",
    [
        ["--images", "data", "--labels", "data/metadata.csv"],
        ["--images", "data/images", "--labels", "data/metadata.csv"],
        ["--images", "data", "--layout", "imagefolder"],
        ["--images", "data/images/*.png", "--labels", "data/*.csv"],
    ],
)
def test_the_same_numbers_however_it_is_said(faces: Path, argv: list[str]) -> None:
    """With the table named or found, and from the folder above or that of the images."""
    assert convert(*argv, "--output", "out", "--writers=0", NONE_BAD) == 0
    found = {key.rpartition("/")[2]: f["image/label"] for key, f in read_all("out").items()}
    assert found == {f"{name}.png": float32([float(number)]) for name, number in numbers().items()}


@pytest.mark.slow
def test_the_metadata_may_lie_among_the_images(faces: Path) -> None:
    """Then the names are those beside it, and the keys have no folder."""
    os.rename("data/metadata.csv", "data/images/metadata.csv")
    argv = ["--images", "data/images", "--name", "d", "--writers=0", NONE_BAD]
    assert convert(*argv, "--output", "found") == 0
    assert set(read_all("found")) == {f"{name}.png" for name in numbers()}
    assert convert(*argv, "--labels", "data/images/metadata.csv", "--output", "named") == 0
    found, named = digests("found"), digests("named")
    # All that names the layout.
    differ = {name for name in found if found[name] != named[name]}
    assert differ == {"manifest.json", "README.md", "report.html"}


@pytest.mark.slow
def test_the_published_rows_are_exact(tmp_path: Path) -> None:
    """A number that a person published, and whole ones among them, as the nearest float32."""
    write_pictures(f"{tmp_path}/data", ["0000971160_1.png", "0000971160_2.png", "0000971160_3.png"])
    rows = "0000971160_1, 6.094467065223975\n0000971160_2, 7\n0000971160_3, -1e-3\n"
    write_files(f"{tmp_path}/data", {"metadata.csv": f"filename,label\n{rows}"})
    output = tmp_path / "out"
    argv = ["--images", f"{tmp_path}/data", "--output", str(output), "--writers=0", NONE_BAD]
    assert convert(*argv) == 0
    assert {key: f["image/label"] for key, f in read_all(output).items()} == {
        "0000971160_1.png": [6.0944671630859375],
        "0000971160_2.png": [7.0],
        "0000971160_3.png": [-0.0010000000474974513],
    }


@pytest.mark.slow
def test_several_numbers_are_features_of_their_own(faces: Path) -> None:
    """The label is one of them, or none; empty cells are features left out."""
    write_files("data", {"metadata.csv": "filename,label,age,height\na,0.5,31,1.75\nb,1.5,,1.5\n"})
    write_pictures("data", ["a.png", "b.png"])
    argv = ["--images", "data/*.png", "--writers=0", NONE_BAD]
    keys = ("image/label", "label/label", "label/age", "label/height")

    def said(folder: str) -> dict[str, dict[str, list[float]]]:
        return {
            key: {name: features[name] for name in keys if name in features}
            for key, features in read_all(folder).items()
        }

    assert convert(*argv, "--output", "one") == 0
    assert said("one") == {
        "a.png": {"image/label": [0.5], "label/age": [31], "label/height": [1.75]},
        "b.png": {"image/label": [1.5], "label/height": [1.5]},
    }
    assert convert(*argv, "--label_column=none", "--columns=age:float", "--output", "none") == 0
    assert said("none") == {
        "a.png": {"label/label": [0.5], "label/age": [31.0], "label/height": [1.75]},
        "b.png": {"label/label": [1.5], "label/height": [1.5]},
    }


@pytest.mark.slow
def test_a_label_that_is_no_number_is_a_dead_letter(tmp_path: Path) -> None:
    """With its place; an image without a row and a row without an image are others."""
    names = [f"{i}.png" for i in range(8)]
    write_pictures(f"{tmp_path}/data", names)
    rows = ["0, 1.5", "1, 2.5", "2, n/a", "3, tall", "4, inf", "5, 3.5", "6, 4.25", "nobody, 5.5"]
    table = "filename,label\n" + "\n".join(rows)
    write_files(f"{tmp_path}/data", {"metadata.csv": table})
    argv = ["--images", f"{tmp_path}/data", "--output", f"{tmp_path}/out", "--writers=0"]
    assert convert(*argv, "--max_bad_fraction=1") == 0
    assert set(read_all(tmp_path / "out")) == {"0.png", "1.png", "5.png", "6.png"}
    assert problems_of(tmp_path / "out") == [
        ("7.png", "unlabelled", 0, "no label row names this image"),
        ("2.png", "bad_label_value", 4, "column 'label': is empty"),
        ("3.png", "bad_label_value", 5, "column 'label': 'tall' is not a number"),
        ("4.png", "bad_label_value", 6, "column 'label': 'inf' is not a number"),
        (
            "nobody",
            "missing_image",
            9,
            "no listed image has this name, with or without folder or extension",
        ),
    ]
