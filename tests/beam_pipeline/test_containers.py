"""Conversions to each container: the same samples in the same order, and every command works."""

from __future__ import annotations

import json
import os
import re
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_pipeline import RandomAccess, cli, convert_samples
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.records.formats import FORMATS, recorded_format
from tests import harness
from tests.pictures import write_files, write_pictures

SHARDS = 3
OTHERS = [name for name in FORMATS if name != "tfrecord"]


@pytest.fixture(params=OTHERS)
def container(request: pytest.FixtureRequest) -> str:
    """Each format but TFRecord, where its package is installed."""
    try:
        FORMATS[request.param]().check_installed()
    except UsageError as error:
        pytest.skip(str(error))
    return str(request.param)


@pytest.fixture
def argv(tmp_path: Path) -> list[str]:
    """Options of a conversion of 12 images in two classes, one of them broken."""
    write_pictures(f"{tmp_path}/photos", [f"{'ab'[i % 2]}/{i}.jpg" for i in range(12)])
    write_files(f"{tmp_path}/photos", {"a/bad.jpg": "no image"})
    options = ["--images", f"{tmp_path}/photos", "--name", "d", "--num_shards", str(SHARDS)]
    return [*options, harness.ALL_BAD]


def records_of(folder: Path, split: str = "train") -> Iterator[bytes]:
    """The serialized examples of a split, in order."""
    manifest = harness.manifest_of(folder)
    for shard in manifest["splits"][split]["shards"]:
        with (folder / shard["path"]).open("rb") as file:
            yield from recorded_format(manifest["options"]).records(file, shard["path"])


def shards_of(folder: Path) -> list[str]:
    return [shard["path"] for shard in harness.manifest_of(folder)["splits"]["train"]["shards"]]


def test_a_container_holds_the_examples_of_the_tfrecords(
    container: str, argv: list[str], tmp_path: Path
) -> None:
    """Bit for bit and in the same order; the manifests differ in the files alone. All is well."""
    for name in ("tfrecord", container):
        output = ["--output", f"{tmp_path}/{name}", "--format", name]
        assert harness.convert(*argv, *output) == 0
        assert cli.main(["verify", output[1]]) == 0
    folders = [tmp_path / "tfrecord", tmp_path / container]
    expected, found = (list(records_of(folder)) for folder in folders)
    assert len(expected) == 12
    assert found == expected
    manifests = [harness.manifest_of(folder) for folder in folders]
    assert manifests[1]["options"].pop("record_format") == container
    for manifest in manifests:
        manifest.pop("crc32c", None)  # of the manifest itself
        for entry in manifest["splits"].values():
            del entry["bytes"]
            for shard in entry["shards"]:
                assert shard.keys() >= {"path", "bytes", "crc32c"}
                for name in ("path", "bytes", "crc32c"):
                    del shard[name]
    assert manifests[0] == manifests[1]
    letters = [(folder / "dead_letters.jsonl").read_text() for folder in folders]
    assert letters[0] == letters[1] != ""
    assert sorted(os.listdir(folders[0] / ".receipts")) == sorted(
        name.replace(".json", "-of-00003.json") if container == "webdataset" else name
        for name in os.listdir(folders[1] / ".receipts")
    )


@pytest.mark.slow
def test_a_killed_run_is_resumed(container: str, argv: list[str], tmp_path: Path) -> None:
    """It ends in the same bytes; so does one whose shards were lost or cut."""
    argv += ["--format", container]
    assert harness.convert(*argv, "--output", f"{tmp_path}/whole") == 0
    whole = harness.digests(tmp_path / "whole")
    killed = tmp_path / "killed"
    argv += ["--output", str(killed), "--resume"]
    assert harness.convert_killed_before(14, *argv, folder=killed) < 0
    assert not (killed / "manifest.json").exists()
    assert harness.convert(*argv) == 0
    assert harness.digests(killed) == whole
    gone, cut, _ = shards_of(killed)
    os.unlink(killed / gone)
    os.truncate(killed / cut, 100)
    assert harness.convert(*argv) == 0
    assert harness.digests(killed) == whole


@pytest.mark.slow
def test_damage_is_found_and_repaired(container: str, argv: list[str], tmp_path: Path) -> None:
    """`verify` names the shards, and `repair` writes them again as they were."""
    out = tmp_path / "out"
    assert harness.convert(*argv, "--format", container, "--output", str(out)) == 0
    whole = harness.digests(out)
    first, second, third = shards_of(out)
    content = bytearray((out / first).read_bytes())
    content[700] ^= 1
    (out / first).write_bytes(content)
    os.truncate(out / second, 1000)
    os.unlink(out / third)
    err = harness.run("verify", str(out), code=1).err
    assert all(name in err for name in (first, second, third))
    assert cli.main(["repair", str(out)]) == 0
    assert harness.digests(out) == whole


def test_what_makes_no_sense_in_a_container_is_refused(
    container: str, argv: list[str], tmp_path: Path
) -> None:
    """The message has the way out."""
    argv += ["--format", container, "--output", f"{tmp_path}/out"]
    error = harness.run_convert(*argv, "--compression", "gzip", code=2).err
    assert f"expected none for {container}; leave it out" in error
    assert harness.convert(*argv) == 0
    shards = {
        name: digest
        for name, digest in harness.digests(f"{tmp_path}/out").items()
        if "train" in name
    }
    assert harness.convert(*argv, "--overwrite", "--shuffle", "records") == 0
    assert shards.items() <= harness.digests(f"{tmp_path}/out").items()
    assert (
        "an index needs TFRecords whose records can be found"
        in harness.run("index", f"{tmp_path}/out", code=2).err
    )
    with pytest.raises(UsageError, match=f"in the format {container}, .* --format tfrecord"):
        RandomAccess(f"{tmp_path}/out", "train")


def test_samples_from_python_are_files_of_their_keys(tmp_path: Path) -> None:
    """An image is one, an array of bytes another, numbers are in the JSON."""
    pixels = write_pictures(f"{tmp_path}/photos", ["1.jpg"])["1.jpg"]
    bits = bytes(range(9))
    samples = [
        {"id": "a/1", "image/encoded": pixels, "image/class/label": 2, "bits": bits},
        {"id": "a/2", "image/encoded": pixels, "image/class/label": 0, "bits": bits},
    ]
    out = tmp_path / "out"
    convert_samples(samples, output=str(out), key="id", format="webdataset", writers=0)
    with tarfile.open(out / "out-train-00000.tar") as tar:
        found = {name: tar.extractfile(name).read() for name in tar.getnames()}  # type: ignore[union-attr]
    assert sorted(found) == sorted(
        f"a/{number}.{name}" for number in (1, 2) for name in ("jpg", "bits.bin", "cls", "json")
    )
    assert (found["a/1.jpg"], found["a/1.bits.bin"], found["a/1.cls"]) == (pixels, bits, b"2")
    assert json.loads(found["a/2.json"])["id"] == "a/2"


@pytest.mark.slow
def test_the_documented_webdataset(tmp_path: Path) -> None:
    """The commands and the code of docs/grain.md, from the demo's images to decoded samples."""
    pytest.importorskip("webdataset")
    convert_it, list_it = harness.documented("docs/grain.md", "bash", "WebDataset")
    (code,) = harness.documented("docs/grain.md", "python", "WebDataset")
    harness.run_shell("beam-tfrecord demo", tmp_path)
    harness.run_shell(convert_it, tmp_path)
    listed = harness.run_shell(list_it, tmp_path).stdout.splitlines()
    assert [line[-4:] for line in listed[:3]] == [".png", ".cls", "json"]
    assert json.loads(listed[3])["image/filename"] == "shape_0000.png"
    printed = harness.run_shell(f"{sys.executable} - <<'END'\n{code}\nEND\n", tmp_path).stdout
    assert re.fullmatch(r"\(\d+, \d+, 3\) [012] \w+\n", printed)
