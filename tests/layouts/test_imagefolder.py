"""Hugging Face's image folders: metadata.csv or metadata.jsonl among the images or in split folders."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import harness, pictures
from tests.layouts.make_tables import make_imagefolder


@pytest.fixture
def folders(working_folder: Path) -> Path:
    """A folder with pets/, cppe/ and captions/ in it, which is the working directory."""
    make_imagefolder(str(working_folder))
    return working_folder


def json_lines(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


# --- classes of objects -------------------------------------------------------------------------


def write_objects(*categories: Sequence[Any]) -> None:
    """pics/ with an image a list of categories, each object in a box of its own."""
    pictures.write_pictures("pics", [f"{i}.png" for i in range(len(categories))])
    pictures.write_files(
        "pics",
        {
            "metadata.jsonl": json_lines(
                *(
                    {
                        "file_name": f"{i}.png",
                        "objects": {"bbox": [[1, 1, 3, 3]] * len(found), "categories": found},
                    }
                    for i, found in enumerate(categories)
                )
            )
        },
    )


@pytest.mark.parametrize(
    ("categories", "options", "classes"),
    [
        (([10, 2], [2], []), [], [("2", 2), ("10", 10)]),
        (([10, 2], [2], []), ["--label_base=0"], [("2", 0), ("10", 1)]),
        (([10, 2], [2], []), ["--label_base=1"], [("2", 1), ("10", 2)]),
        ((["10", "2"], ["cat"]), [], [("10", 1), ("2", 2), ("cat", 3)]),
        ((["10", "2"], ["cat"]), ["--label_order=numeric"], [("2", 1), ("10", 2), ("cat", 3)]),
        ((["dog"], ["cat"]), ["--label_base=0"], [("cat", 0), ("dog", 1)]),
    ],
)
def test_ids_of_the_classes_of_objects(
    folders: Path,
    categories: Sequence[Sequence[Any]],
    options: list[str],
    classes: list[tuple[str, int]],
) -> None:
    """Integers are ids, unless the person says where ids begin; names are counted from 1."""
    write_objects(*categories)
    assert harness.convert("--images", "pics", "--output", "out", "--writers=0", *options) == 0
    assert [(c["name"], c["id"]) for c in harness.manifest_of("out")["classes"]] == classes
    ids = dict(classes)
    for key, features in harness.read_all("out").items():
        names = [str(name) for name in categories[int(key[0])]]
        assert features["image/object/class/text"] == [name.encode() for name in names]
        assert features["image/object/class/label"] == [ids[name] for name in names]
    from_one = classes[0][1] > 0
    assert ("label_map.pbtxt" in os.listdir("out")) == from_one
