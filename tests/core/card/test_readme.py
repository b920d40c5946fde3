"""The data card: exact contents, YAML that its readers understand, and code that runs."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from beam_pipeline.core.card.readme import readme
from beam_pipeline.core.card.seal import is_unchanged
from beam_pipeline.core.dataset.manifest import Manifest
from tests.core.card.cases import CASES, content_of, golden, manifest_of
from tests.harness import convert, run_shell
from tests.pictures import write_files, write_pictures


def front_matter(card: bytes) -> dict[str, Any]:
    """The YAML at the top, as a YAML reader has it."""
    _, text, _ = card.decode().split("---\n", 2)
    found: dict[str, Any] = yaml.safe_load(text)
    return found


@pytest.mark.parametrize("case", CASES)
def test_the_card_of_a_data_set(case: str) -> None:
    """All its bytes, made from nothing but the manifest."""
    card = readme(manifest_of(case))
    assert card == golden(f"{case}.md")
    assert is_unchanged(card)


def test_the_yaml_says_tasks_features_and_splits() -> None:
    """In the form of Hugging Face's Hub; the names of classes come with the feature of their ids."""
    found = front_matter(readme(manifest_of("class_folders")))
    assert found["pretty_name"] == "pets"
    assert found["task_categories"] == ["image-classification"]
    assert found["size_categories"] == ["n<1K"]
    features = {one["name"]: one["dtype"] for one in found["dataset_info"]["features"]}
    assert features["image/class/label"] == {"class_label": {"names": {"0": "cat", "1": "dog"}}}
    assert features["image/encoded"] == "image"
    assert found["dataset_info"]["splits"] == [
        {"name": "test", "num_bytes": 1817, "num_examples": 2},
        {"name": "train", "num_bytes": 2169, "num_examples": 3},
    ]


def test_lists_of_classes_are_sequences() -> None:
    """Their ids must count from 0 for it, as a list of names says no ids."""
    manifest = content_of("boxes")
    for number, entry in enumerate(manifest["classes"]):
        entry["id"] = number
    features = {
        one["name"]: one
        for one in front_matter(readme(Manifest.of(manifest)))["dataset_info"]["features"]
    }
    assert features["image/object/class/label"]["sequence"] == {
        "class_label": {"names": {"0": "*x* [y](z)", "1": "<script>", "2": "a | b", "3": "www.example.org"}}
    }  # fmt: skip
    assert features["image/object/bbox/xmin"]["sequence"] == "float32"


def test_many_classes_are_listed_in_part() -> None:
    """A hundred in the table; the YAML has a plain integer from a thousand on."""
    manifest = content_of("class_folders")
    splits = {"test": 0, "train": 1}
    manifest["classes"] = [
        {"id": i, "name": f"c{i}", "examples": 1, "splits": splits} for i in range(1001)
    ]
    card = readme(Manifest.of(manifest))
    assert b"\n| 99 | c99 | 1 | 0 | 1 |\n\nAnd 901 more, which `manifest.json` lists.\n" in card
    features = {one["name"]: one["dtype"] for one in front_matter(card)["dataset_info"]["features"]}
    assert features["image/class/label"] == "int64"


@pytest.mark.parametrize(
    ("examples", "category"),
    [(0, "n<1K"), (999, "n<1K"), (1000, "1K<n<10K"), (10**12 - 1, "100B<n<1T"), (10**12, "n>1T")],
)
def test_the_size_is_one_of_the_hubs(examples: int, category: str) -> None:
    """Its bounds are powers of ten."""
    manifest = content_of("regression")
    manifest["counts"]["examples"] = examples
    assert front_matter(readme(Manifest.of(manifest)))["size_categories"] == [category]


def test_masks_and_bare_pixels() -> None:
    """Neither has a class to count or an image to decode."""
    manifest = content_of("regression")
    manifest["options"].update(
        image_encoding="raw",
        columns=[
            {"name": "class", "kind": "segmentation", "feature": "image/segmentation/class"},
        ],
    )
    manifest["classes"] = [{"id": 3, "name": "road"}]
    card = readme(Manifest.of(manifest))
    found = front_matter(card)
    assert found["task_categories"] == ["image-segmentation"]
    features = {one["name"]: one["dtype"] for one in found["dataset_info"]["features"]}
    assert features["image/encoded"] == "binary"
    assert b"bare pixels, height x width x channels bytes" in card
    assert b"\n| id | class |\n|---:|---|\n| 3 | road |\n" in card
    assert b"as_dict=True" in card


@pytest.mark.slow
def test_the_code_of_a_card_reads_its_data_set(tmp_path: Path) -> None:
    """Run in the output folder, each block reads every example: compressed, with boxes and lists."""
    write_pictures(f"{tmp_path}/photos", ["1.jpg", "2.png"])
    table = "image,xmin,ymin,xmax,ymax,class,note\n1.jpg,0,0,2,2,a,x\n2.png,1,1,3,3,b,\n"
    write_files(str(tmp_path), {"boxes.csv": table})
    argv = ("--images", f"{tmp_path}/photos", "--labels", f"{tmp_path}/boxes.csv")
    assert convert(*argv, "--compression", "gzip", "--output", f"{tmp_path}/out") == 0
    text = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    ours, plain = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    script = f"{ours}\nprint(sum(len(images) for images, _ in dataset))\n{plain}\n"
    script += 'print(sorted(one["image/filename"].numpy() for one in examples))'
    done = run_shell(f"{sys.executable} - <<'END'\n{script}\nEND\n", tmp_path / "out")
    assert done.stdout == "2\n[b'1.jpg', b'2.png']\n"
