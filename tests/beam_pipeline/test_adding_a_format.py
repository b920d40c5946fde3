"""Another record format is one file and one line in the registry."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import REPOSITORY, manifest_of
from tests.pictures import write_pictures

WITH_THE_FORMAT = """
import importlib.util, json, sys
from tests.beam_pipeline.toy_format import ToyFormat

name = "beam_pipeline.core.records.formats"
spec = importlib.util.find_spec(name)
source = spec.loader.get_source(name)
line = "        TFRecordFormat,  # the first is the default\\n"
assert source.count(line) == 1
sys.modules[name] = registry = importlib.util.module_from_spec(spec)
registry.ToyFormat = ToyFormat
exec(compile(source.replace(line, line + "        ToyFormat,\\n"), name, "exec"), vars(registry))

from beam_pipeline.cli import main
"""
"""Adds the line to the registry before anything imports it."""


def with_the_format(code: str, *argv: str) -> subprocess.CompletedProcess[str]:
    """Runs code, which has `main`, in a Python of its own whose registry has the format."""
    return subprocess.run(
        [sys.executable, "-c", WITH_THE_FORMAT + code, *argv],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set in the format."""
    folder = tmp_path_factory.mktemp("toy")
    write_pictures(str(folder / "photos"), [f"{kind}/{i}.jpg" for kind in "ab" for i in range(6)])
    done = with_the_format(
        "sys.exit(main(['convert', *sys.argv[1:]]))",
        *("--images", f"{folder}/photos", "--output", f"{folder}/out"),
        *("--format", "toy", "--num_shards", "3", "--writers", "0"),
    )
    assert done.returncode == 0, done.stderr
    return folder / "out"


@pytest.mark.slow
def test_it_is_converted_and_verified(converted: Path) -> None:
    """Under its own names, which the manifest records; damage is found."""
    names = [f"out-train.lines-{i:05d}-of-00003" for i in range(3)]
    assert sorted(name for name in os.listdir(converted) if "lines" in name) == names
    manifest = manifest_of(converted)
    assert manifest["options"]["record_format"] == "toy"
    assert manifest["splits"]["train"]["examples"] == 12
    verify = "sys.exit(main(['verify', sys.argv[1]]))"
    done = with_the_format(verify, str(converted))
    assert (done.returncode, done.stderr) == (0, "")
    shard = converted / names[1]
    sound = shard.read_bytes()
    shard.write_bytes(sound.replace(sound[:4], b"!!!!", 1))
    done = with_the_format(verify, str(converted))
    shard.write_bytes(sound)
    assert done.returncode == 1
    assert "record 0 is no base64" in done.stderr


@pytest.mark.slow
def test_it_is_inspected(converted: Path) -> None:
    """Its figures, and a sample by its key."""
    inspect = "sys.exit(main(['inspect', *sys.argv[1:]]))"
    done = with_the_format(inspect, str(converted), "--where", "image/class/text=b", "--num", "0")
    assert (done.returncode, done.stderr) == (0, "")
    assert "6 of 12 examples found" in done.stdout
    done = with_the_format(inspect, str(converted), "--key", "a/3.jpg")
    assert done.stdout.startswith("a/3.jpg, out-train.lines-0000")


@pytest.mark.slow
def test_it_is_loaded(converted: Path) -> None:
    """Each example once, shuffled or not, although tf.data has no reader of such files."""
    code = """
import beam_pipeline
ids = {}
for shuffle in (False, True):
    elements = beam_pipeline.load(sys.argv[1], shuffle=shuffle, seed=1, as_dict=True)
    assert len(elements) == 12
    ids[shuffle] = [one["image/source_id"].numpy().decode() for one in elements]
print(json.dumps([ids[False], ids[True]]))
"""
    done = with_the_format(code, str(converted))
    assert done.returncode == 0, done.stderr
    stored, shuffled = json.loads(done.stdout)
    assert len(set(stored)) == 12
    assert sorted(shuffled) == sorted(stored) != shuffled


@pytest.mark.slow
def test_a_sink_of_beams_does_not_write_it(tmp_path: Path) -> None:
    """`--shuffle=records` is refused, and the help has the option where there is a choice."""
    write_pictures(str(tmp_path / "photos"), ["a/1.jpg", "b/1.jpg"])
    done = with_the_format(
        "sys.exit(main(['convert', *sys.argv[1:]]))",
        *("--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out"),
        *("--format", "toy", "--shuffle", "records"),
    )
    assert done.returncode == 2
    assert "--shuffle=records writes TFRecords only, not toy" in done.stderr
    done = with_the_format("main(['convert', '--help', 'all'])")
    assert "--format tfrecord|toy" in done.stdout
