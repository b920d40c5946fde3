"""The cards of a data set: facts, YAML that its readers understand, code that runs, and mlcroissant."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml as pyyaml
from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.dataset.manifest import Manifest, ShardEntry, SplitEntry
from beam_pipeline.core.report.card import code, markdown, readme, yaml
from beam_pipeline.core.report.contents import shard_pattern
from beam_pipeline.core.report.metadata import croissant
from tests.core.report.cases import CASES, content_of, manifest_of
from tests.harness import convert, dead_letters_of, run_shell
from tests.pictures import write_files, write_pictures


@pytest.mark.parametrize(
    ("first", "pattern"),
    [
        ("pets-train.tfrecord-00000-of-00016", "pets-train.tfrecord-*-of-00016"),
        ("pets-train.tfrecord-00000-of-00016.gz", "pets-train.tfrecord-*-of-00016.gz"),
        ("a-00001-of-00002-x.tfrecord-000000-of-100000", "a-00001-of-00002-x.tfrecord-*-of-100000"),
        ("[a]?.tfrecord-00000-of-00001", "[[]a][?].tfrecord-*-of-00001"),
        ("pets-train-00000.tar", "pets-train-[0-9]*.tar"),
        ("shard.bin", "shard.bin"),
    ],
)
def test_a_wildcard_finds_the_shards_of_a_split(first: str, pattern: str) -> None:
    """It finds neither indexes nor shards of another number, and takes other wildcards as text."""
    assert shard_pattern(SplitEntry(1, 9, (ShardEntry(first, 1, 9),))) == pattern


@given(st.text())
def test_yaml_reads_any_text_back(text: str) -> None:
    """Line ends, quotes, colons and control characters come back as they were, from one line."""
    scalar = yaml(text)
    assert "\n" not in scalar
    assert pyyaml.safe_load(f"- {scalar}\n- 1\n") == [text, 1]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cat", "cat"),
        ("a | b", r"a \| b"),
        ("<script>", r"\<script\>"),
        ("*x* [y](z) `w`", r"\*x\* \[y\](z) \`w\`"),
        ("a\nb\u202ec", r"a\\nb\\u202ec"),
        (" www.example.org ", r"www\.example.org"),
        ("https://x @me #1 &amp;", r"https\://x \@me \#1 \&amp;"),
    ],
)
def test_markdown_shows_the_text(text: str, shown: str) -> None:
    """On one line of a table's cell, without markup, links or entities."""
    assert markdown(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("image/encoded", "`image/encoded`"),
        ("a`b", r"a\`b"),
        ("a|b", r"a\|b"),
        ("", ""),
        (" a", "a"),
    ],
)
def test_code_is_a_span_where_it_can_be(text: str, shown: str) -> None:
    """A backtick or a bar cannot stand in a span in a table."""
    assert code(text) == shown


def front_matter(card: bytes) -> dict[str, Any]:
    """The YAML at the top, as a YAML reader has it."""
    _, text, _ = card.decode().split("---\n", 2)
    found: dict[str, Any] = pyyaml.safe_load(text)
    return found


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


def records(folder: Path, name: str) -> list[dict[str, Any]]:
    """The records of a record set, as mlcroissant reads them, by the names of their fields."""
    import mlcroissant

    dataset = mlcroissant.Dataset(jsonld=folder / "croissant.json")
    assert dataset.metadata.ctx.issues.errors == set()
    return [
        {
            key.partition("/")[2]: value.decode() if isinstance(value, bytes) else value
            for key, value in record.items()
        }
        for record in dataset.records(name)
    ]


@pytest.mark.croissant
def test_mlcroissant_reads_what_a_conversion_wrote(tmp_path: Path) -> None:
    """It finds no error; splits, classes, features and dead letters are those of the data set."""
    folder = tmp_path / "out"
    write_pictures(f"{tmp_path}/photos", ["train/cat/1.jpg", "train/dog/2.png", "test/dog/3.jpg"])
    write_files(f"{tmp_path}/photos", {"train/cat/empty.jpg": b"", "test/cat/text.jpg": "no image"})
    argv = ("--images", f"{tmp_path}/photos", "--max_bad_fraction", "1")
    assert convert(*argv, "--output", str(folder)) == 0
    manifest = json.loads((folder / "manifest.json").read_bytes())
    assert records(folder, "splits") == [
        {
            "name": name,
            "examples": split["examples"],
            "shards": len(split["shards"]),
            "bytes": split["bytes"],
        }
        for name, split in manifest["splits"].items()
    ]
    assert records(folder, "classes") == [
        {key: entry[key] for key in ("id", "name", "examples")} for entry in manifest["classes"]
    ]
    assert [one["key"] for one in records(folder, "features")] == sorted(manifest["features"])
    expected = [
        {key: one[key] for key in ("stage", "key", "uri", "reason", "message")}
        for one in dead_letters_of(folder)
    ]
    assert records(folder, "dead_letters") == expected != []


@pytest.mark.croissant
@pytest.mark.parametrize("case", CASES)
def test_mlcroissant_finds_no_error(case: str, tmp_path: Path) -> None:
    """Nor in hostile names of classes."""
    (tmp_path / "croissant.json").write_bytes(croissant(manifest_of(case)))
    keys = [one["key"] for one in records(tmp_path, "features")]
    assert keys == sorted(manifest_of(case).features)
