"""Layouts and record formats of other packages: the example that is installed by pip, and packages that are bad."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_pipeline.core import plugins
from tests import harness
from tests.pictures import write_files, write_pictures
from tests.rows import in_rows

EXAMPLE = Path(harness.REPOSITORY, "examples/plugin")
MAIN = "import sys\nfrom beam_pipeline.cli import main\n"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which pip installed the example."""
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("installed")
    source = shutil.copytree(EXAMPLE, folder / "source")
    options = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target")
    command = [sys.executable, "-m", "pip", "install", *options, folder / "site", source]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "site"


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    """Python's path changes from test to test, and the tests of other files have no plugins."""
    _forget()
    yield
    _forget()


def _forget() -> None:
    plugins._entry_points.cache_clear()
    plugins.load.cache_clear()


def with_plugins(site: Path, code: str, *argv: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a Python of its own, to which the packages of a folder are installed."""
    return harness.python(
        "-c",
        MAIN + code,
        *argv,
        env={**os.environ, "PYTHONPATH": f"{site}:{harness.REPOSITORY}"},
        timeout=120,
    )


# --- the example ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_layout_of_the_example_is_recognised(installed: Path, tmp_path: Path) -> None:
    """Without being named; labels are in the examples; a broken file is a dead letter with its place."""
    cameras, output = tmp_path / "cameras", tmp_path / "out"
    write_pictures(str(cameras), [f"cam{i}/000{j}.jpg" for i in (1, 2) for j in (1, 2)])
    labels = {
        "cam1/0001.json": '{"weather": "rain", "temperature": 7.5}',
        "cam1/0002.json": '{"weather": "sun", "temperature": 21}',
        "cam2/0001.json": '{"weather": "sun"}',
    }
    write_files(str(cameras), labels)
    argv = ("--images", str(cameras), "--output", str(output))
    code = f"sys.exit(main(['convert', *sys.argv[1:], {harness.ALL_BAD!r}, '--yes', '--writers', '2']))"
    done = with_plugins(installed, code, *argv)
    assert done.returncode == 0, done.stderr
    assert f"Layout sidecar: 0001.json beside 0001.jpg in {cameras}/cam" in done.stdout
    keys = ("image/class/label", "image/class/text", "label/temperature")
    assert {
        name: [features[key] for key in keys] for name, features in harness.read_all(output).items()
    } == {
        "cam1/0001.jpg": [[0], [b"rain"], [7.5]],
        "cam1/0002.jpg": [[1], [b"sun"], [21.0]],
    }
    letters = [
        (d["key"], d["reason"], d.get("file"), d.get("line"))
        for d in harness.dead_letters_of(output)
    ]
    assert letters == [
        ("cam2/0002.jpg", "unlabelled", None, None),
        ("cam2/0001.jpg", "bad_label_value", f"{cameras}/cam2/0001.json", 1),
    ]
    assert harness.manifest_of(output)["options"]["layout"] == "sidecar"
    assert (
        "sidecars', expected one of auto, file_names, "
        in harness.run_convert(
            "--layout", "sidecars", "--images", str(cameras), "--output", "x", code=2
        ).err
    )


@pytest.fixture(scope="module")
def converted(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set in the example's record format."""
    folder = tmp_path_factory.mktemp("lines")
    write_pictures(str(folder / "photos"), [f"{kind}/{i}.jpg" for kind in "ab" for i in range(6)])
    done = with_plugins(
        installed,
        "sys.exit(main(['convert', *sys.argv[1:]]))",
        *("--images", f"{folder}/photos", "--output", f"{folder}/out"),
        *("--format", "base64_lines", "--num_shards", "3", "--writers", "2"),
    )
    assert done.returncode == 0, done.stderr
    return folder / "out"


@pytest.mark.slow
def test_the_format_of_the_example_is_verified_and_replaced(
    installed: Path, converted: Path
) -> None:
    """Under its own names, which the manifest records; damage is found; --overwrite knows its files."""
    names = [f"out-train.lines-{i:05d}-of-00003" for i in range(3)]
    assert sorted(name for name in os.listdir(converted) if "lines" in name) == names
    assert harness.manifest_of(converted)["options"]["record_format"] == "base64_lines"
    verify = "sys.exit(main(['verify', sys.argv[1]]))"
    assert with_plugins(installed, verify, str(converted)).returncode == 0
    shard = converted / names[1]
    sound = shard.read_bytes()
    shard.write_bytes(sound.replace(sound[:4], b"!!!!", 1))
    done = with_plugins(installed, verify, str(converted))
    shard.write_bytes(sound)
    assert done.returncode == 1
    assert "record 0 is not base64" in done.stderr
    done = with_plugins(Path("nowhere"), verify, str(converted))
    assert done.returncode != 0
    assert "expected one of tfrecord, array_record, webdataset, or of a plugin" in done.stderr
    again = shutil.copytree(converted, converted.parent / "again")
    argv = ("--images", f"{converted.parent}/photos", "--output", str(again), "--overwrite")
    done = with_plugins(installed, "sys.exit(main(['convert', *sys.argv[1:]]))", *argv)
    assert done.returncode == 0, done.stderr
    assert not [name for name in os.listdir(again) if "lines" in name]


@pytest.mark.slow
def test_the_format_of_the_example_is_inspected_and_loaded(
    installed: Path, converted: Path
) -> None:
    """Its statistics, a sample by its key, and each example once, although tf.data has no reader of such files."""
    inspect = "sys.exit(main(['inspect', *sys.argv[1:]]))"
    done = with_plugins(
        installed, inspect, str(converted), "--where", "image/class/text=b", "--num", "0"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "6 of 12 examples found" in done.stdout
    done = with_plugins(installed, inspect, str(converted), "--key", "a/3.jpg")
    assert done.stdout.startswith("a/3.jpg, out-train.lines-0000")
    code = """
import beam_pipeline, json
ids = []
for shuffle in (False, True):
    elements = beam_pipeline.load(sys.argv[1], shuffle=shuffle, seed=1, as_dict=True)
    ids.append([element["image/source_id"].numpy().decode() for element in elements])
print(json.dumps(ids))
"""
    done = with_plugins(installed, code, str(converted))
    assert done.returncode == 0, done.stderr
    stored, shuffled = json.loads(done.stdout)
    assert len(set(stored)) == 12
    assert sorted(shuffled) == sorted(stored) != shuffled


# --- bad packages ---------------------------------------------------------------------------------


@in_rows
def test_a_bad_package_is_an_error(
    group: str,
    points: str,
    module: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With its name and version, where the plugin is named and where all are asked; other layouts can be named."""
    content = {
        "bad_plugin.py": module,
        "bad_plugin-2.1.dist-info/METADATA": "Name: bad-plugin\nVersion: 2.1\n",
        "bad_plugin-2.1.dist-info/entry_points.txt": f"[{group}]\n{points}\n",
    }
    write_files(str(tmp_path / "site"), content)
    write_pictures(str(tmp_path / "photos"), ["a/1.jpg", "b/1.jpg"])
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    sys.modules.pop("bad_plugin", None)
    argv = ("--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out")
    asked = ["--format=bad"] if group == plugins.FORMAT_GROUP else ["--layout=auto", "--layout=bad"]
    for option in asked:
        assert message in harness.run_convert(*argv, option, code=2).err
    if group == plugins.LAYOUT_GROUP:
        assert harness.convert(*argv, "--layout", "class_folders") == 0


def test_entry_points_cost_nothing_where_there_are_none() -> None:
    """`importlib.metadata` is not imported for a known layout, and neither for `auto` without plugins."""
    code = """
from beam_pipeline.layouts.registry import all_layouts, layout_named
sys.modules.pop("importlib.metadata", None)
layout_named("voc")
assert len([*all_layouts()]) > 10
print("importlib.metadata" in sys.modules)
"""
    if any(importlib.metadata.entry_points(group=plugins.LAYOUT_GROUP)):
        pytest.skip("a plugin is installed here")
    done = with_plugins(Path("nowhere"), code)
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr
