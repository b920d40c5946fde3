"""PyTorch reads what a conversion wrote: real loaders, workers and ranks, each in its own process.

They run outside of this process because a `DataLoader` forks, which threads of Beam and TensorFlow
do not survive.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.beam_pipeline.readers.by_hand import IMAGE, OBJECTS, feature, pictures, write_by_hand
from tests.harness import (
    REPOSITORY,
    convert,
    documented,
    manifest_of,
    python,
    read_shard,
    shard_names,
)
from tests.pictures import picture, write_pictures

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="needs PyTorch: pip install torch"
    ),
]

needs_torchdata = pytest.mark.skipif(
    importlib.util.find_spec("torchdata") is None, reason="needs torchdata: pip install torchdata"
)

NAMES = [f"{'ab'[i % 2]}/{i}.{'jpg' if i % 3 else 'png'}" for i in range(23)]

# For each pass that the command line describes, reads a data set and notes what came of it.
READER = """
import hashlib, json, sys
from torch.utils.data import DataLoader
from beam_pipeline.readers.torch_dataset import TFRecordDataset
from beam_pipeline.core.errors import ConversionError

def decode(example):
    digest = hashlib.sha256(example["image/encoded"]).hexdigest()
    return example["image/source_id"].decode(), digest, example["image/class/label"]

def read(folder, loader, epochs=(0,), **options):
    dataset = TFRecordDataset(folder, decode=decode, **options)
    batches = DataLoader(dataset, batch_size=4, **loader)
    for epoch in epochs:
        dataset.set_epoch(epoch)
        samples = [list(one) for keys, digests, labels in batches
                   for one in zip(keys, digests, labels.tolist())]
        assert len(samples) == dataset.examples
        yield samples

if __name__ == "__main__":
    found = []
    for options in json.loads(sys.argv[1]):
        try:
            found.append(list(read(**options)))
        except ConversionError as error:
            found.append(f"{type(error).__name__}: {error}")
    print(json.dumps(found))
"""


def _run(*argv: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs Python with this package beside whatever is installed."""
    path = os.pathsep.join([REPOSITORY, *filter(None, [os.environ.get("PYTHONPATH")])])
    return python(*argv, cwd=folder, env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"})


def _read(script_folder: Path, *passes: Mapping[str, Any]) -> list[Any]:
    """What each pass found: for each epoch the samples (key, sha256, class), or the error."""
    script = script_folder / "reader.py"  # a file, because workers that are spawned import it
    script.write_text(READER)
    done = _run(str(script), json.dumps(passes))
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found


class Converted(NamedTuple):
    """Attributes: folder; samples, the (key, sha256, class) of each, sorted."""

    folder: Path
    samples: list[list[Any]]

    def copy(self, folder: Path) -> Converted:
        """One to damage."""
        shutil.copytree(self.folder, folder / "copy")
        return self._replace(folder=folder / "copy")

    def pass_over(self, **options: Any) -> dict[str, Any]:
        """A pass over it, with all in this process if nothing else is said."""
        return {"folder": str(self.folder), "loader": {}, **options}

    @property
    def first_shard(self) -> tuple[Path, int]:
        """The first shard, and how many examples it has."""
        entry = manifest_of(self.folder)["splits"]["train"]["shards"][0]
        return self.folder / entry["path"], entry["examples"]


def _converted(folder: Path, *argv: str) -> Converted:
    contents = write_pictures(str(folder / "photos"), NAMES)
    out = folder / "out"
    argv = ("--images", f"{folder}/photos", "--num_shards", "3", "--output", str(out), *argv)
    assert convert(*argv) == 0
    samples = [
        [name, hashlib.sha256(data).hexdigest(), "ab".index(name[0])]
        for name, data in contents.items()
    ]
    return Converted(out, sorted(samples))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Converted:
    """23 images in three shards."""
    return _converted(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def compressed(tmp_path_factory: pytest.TempPathFactory) -> Converted:
    """The same in compressed shards."""
    return _converted(tmp_path_factory.mktemp("compressed"), "--compression", "gzip")


def test_every_sample_comes_once_with_any_number_of_workers(
    plain: Converted, compressed: Converted, tmp_path: Path
) -> None:
    """Bytes and labels are right with no worker, with two and with more than shards, shuffled or not."""
    passes = [
        data_set.pass_over(loader={"num_workers": workers}, shuffle_buffer=buffer)
        for data_set in (plain, compressed)
        for workers in (0, 2, 5)
        for buffer in (0, 6, 100)
    ]
    assert [sorted(samples) for (samples,) in _read(tmp_path, *passes)] == [plain.samples] * 18


def test_without_shuffling_the_order_is_that_of_the_shards(
    plain: Converted, tmp_path: Path
) -> None:
    """One process reads shard after shard, as they stand."""
    stored = [
        features["image/source_id"][0].decode()
        for name in shard_names(plain.folder)
        for features in read_shard(plain.folder, name)
    ]
    (((*samples,),),) = _read(tmp_path, plain.pass_over())
    assert [key for key, _, _ in samples] == stored


RESUMER = """
import io, json, sys, torch
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader
from beam_pipeline import RandomAccess
from beam_pipeline.readers.torch_dataset import TFRecordDataset
from beam_pipeline.core.errors import UsageError

def name(example):
    return example["image/source_id"].decode()

def kept(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file)

def loader_of(folder, kind, workers, buffer, **options):
    if kind == "map":
        dataset = RandomAccess(folder, decode=name)
        return StatefulDataLoader(dataset, 3, shuffle=True, num_workers=workers)
    dataset = TFRecordDataset(folder, decode=name, shuffle_buffer=buffer, **options)
    dataset.set_epoch(1)
    return StatefulDataLoader(dataset, 3, num_workers=workers)

def rest(after, arguments):
    torch.manual_seed(7)
    loader = loader_of(**arguments)
    batches = iter(loader)
    first = [next(batches) for _ in range(after)]
    state = kept(loader.state_dict())
    rest = list(batches)
    other = loader_of(**arguments)
    other.load_state_dict(state)
    assert list(other) == rest, (after, arguments, list(other), rest)
    return sorted(sum(first + rest, []))

if __name__ == "__main__":
    folder, all_workers = sys.argv[1], json.loads(sys.argv[2])
    for workers in all_workers:
        for kind, buffer in json.loads(sys.argv[3]):
            for after in json.loads(sys.argv[4]):
                arguments = {"folder": folder, "kind": kind, "workers": workers, "buffer": buffer}
                print(json.dumps(rest(after, arguments)))
    loader = loader_of(folder, "iterable", 0, 5)
    next(iter(loader))
    other = loader_of(folder, "iterable", 0, 5, seed=1)
    other.load_state_dict(loader.state_dict())
    try:
        next(iter(other))
    except UsageError as error:
        print(json.dumps(str(error)))
"""


@needs_torchdata
@pytest.mark.parametrize("workers", [0, 1, 4])
def test_a_saved_position_is_restored_in_the_middle_of_an_epoch(
    plain: Converted, compressed: Converted, tmp_path: Path, workers: int
) -> None:
    """The rest of the epoch is the same, in order, whether records are drawn from a buffer or not.

    Positions lie before the first batch, within the buffer, behind it, and in the epoch's last batches.
    With other settings a position means nothing and is refused.
    """
    script = tmp_path / "resumer.py"
    script.write_text(RESUMER)
    names = json.dumps(sorted(NAMES))
    after = [0, 1, 3, 6, 7] if workers < 2 else [2, 5]
    for data_set, kinds in (
        (plain, [("iterable", 0), ("iterable", 4), ("iterable", 100), ("map", 0)]),
        (compressed, [("iterable", 4), ("iterable", 100)]),
    ):
        arguments = [json.dumps(one) for one in ([workers], kinds, after)]
        done = _run(str(script), str(data_set.folder), *arguments)
        assert done.returncode == 0, done.stderr
        *found, refused = done.stdout.splitlines()
        assert found == [names] * len(kinds) * len(after)
        assert "other settings: seed was 0, is 1; expected" in refused


BEGIN = """
import sys
from beam_pipeline import RandomAccess
from beam_pipeline.readers.torch_dataset import TFRecordDataset
from torch.utils.data import DataLoader
"""
LENGTHS = """
whole = TFRecordDataset(sys.argv[1])
part = TFRecordDataset(sys.argv[1], rank=1, ranks=4)
print(len(whole), len(list(whole)), len(part), len(list(part)), len(DataLoader(whole, 4)))
"""
TENSORS = """
for kind in (TFRecordDataset, RandomAccess):
    for batch in DataLoader(kind(sys.argv[2], decode=True, image_size=(4, 5)), 3):
        print({key: (value.dtype, list(value.shape)) for key, value in batch.items()})
"""
BATCH = "{'image/label': (torch.float32, [3, 2]), 'image': (torch.uint8, [3, 4, 5, 3])}\n"


@pytest.mark.parametrize(("code", "printed"), [(LENGTHS, "23 23 6 6 6\n"), (TENSORS, BATCH * 2)])
def test_lengths_and_tensors(plain: Converted, tmp_path: Path, code: str, printed: str) -> None:
    """Of the split, or of the share of a rank; with `decode=True`, PyTorch's own collation makes batches of pixels and
    of numbers of 32 bits."""
    features = {**IMAGE, "image/label": feature("float", 2)}
    write_by_hand(tmp_path / "d", features, pictures([{"image/label": [0.1, 2]}] * 3))
    done = _run("-c", BEGIN + code, str(plain.folder), f"{tmp_path}/d")
    assert done.stdout == printed, done.stderr


def test_ranks_share_the_samples(plain: Converted, tmp_path: Path) -> None:
    """Over all ranks and their workers each sample comes once, in shares that differ by one."""
    share = {"loader": {"num_workers": 2}, "ranks": 4, "epochs": [7]}
    passes = [
        plain.pass_over(**share, rank=rank, shuffle_buffer=buffer)
        for buffer in (0, 6)
        for rank in range(4)
    ]
    found = _read(tmp_path, *passes)
    for ranks in (found[:4], found[4:]):
        assert [len(samples) for (samples,) in ranks] == [5, 6, 6, 6]
        assert sorted(sample for (samples,) in ranks for sample in samples) == plain.samples


def test_even_ranks_have_the_same_number_of_samples(plain: Converted, tmp_path: Path) -> None:
    """Of 23 samples each of 4 ranks has 5; none comes twice, and others are left out next time."""
    share = {"loader": {"num_workers": 2}, "ranks": 4, "even": True, "epochs": [0, 1]}
    passes = [plain.pass_over(**share, rank=rank, shuffle_buffer=6) for rank in range(4)]
    left_out = []
    for ranks in zip(*_read(tmp_path, *passes), strict=True):
        assert [len(samples) for samples in ranks] == [5, 5, 5, 5]
        keys = {key for samples in ranks for key, _, _ in samples}
        assert len(keys) == 20
        left_out.append(set(NAMES) - keys)
    assert left_out[0] != left_out[1]


def test_the_order_depends_on_seed_and_epoch(plain: Converted, tmp_path: Path) -> None:
    """Workers that persist follow `set_epoch`, however they start; the same numbers, the same order."""
    workers = {"num_workers": 2, "persistent_workers": True}
    forked = plain.pass_over(
        loader={**workers, "multiprocessing_context": "fork"}, shuffle_buffer=10, epochs=[0, 1, 0]
    )
    spawned = plain.pass_over(
        loader={**workers, "multiprocessing_context": "spawn"}, shuffle_buffer=10, epochs=[1, 0]
    )
    other_seed = {**forked, "seed": 1, "epochs": [0]}
    (first, second, third), (fourth, fifth), (other,) = _read(tmp_path, forked, spawned, other_seed)
    assert [sorted(order) for order in (first, second, other)] == [plain.samples] * 3
    assert first == third == fifth
    assert second == fourth
    assert first != second
    assert first != other


def test_a_flipped_bit_is_found(plain: Converted, tmp_path: Path) -> None:
    """The checksum of the record tells, and the message says where, counted from where it read."""
    damaged = plain.copy(tmp_path)
    shard, examples = damaged.first_shard
    data = bytearray(shard.read_bytes())
    data[-10] ^= 1
    shard.write_bytes(data)
    whole, part = _read(tmp_path, damaged.pass_over(), damaged.pass_over(rank=1, ranks=4))
    wrong = "the checksum of the record's data is wrong"
    where = rf"{shard}: record {examples - 1} at byte \d+"
    assert re.fullmatch(f"DamagedRecordError: {where}: {wrong}", whole)
    where = rf"{shard} from record 5 at byte \d+ on: record {examples - 6} at byte \d+"
    assert re.fullmatch(f"DamagedRecordError: {where}: {wrong}", part)


def test_what_is_not_there_is_an_error_that_says_what_is(plain: Converted, tmp_path: Path) -> None:
    """A split, a rank or a data set that does not exist is named, beside those that do."""
    no_split, no_rank, no_buffer, no_manifest = _read(
        tmp_path,
        plain.pass_over(split="test"),
        plain.pass_over(rank=2, ranks=2),
        plain.pass_over(shuffle_buffer=True),
        plain.pass_over(folder=str(tmp_path)),
    )
    assert no_split == f"UsageError: {plain.folder} has no split 'test'; it has train"
    assert no_rank == "UsageError: rank is 2, expected 0 to 1 of 2 ranks"
    assert no_buffer == "UsageError: shuffle_buffer is True, expected a whole number from 0 on"
    assert no_manifest == (
        f"ConversionError: {tmp_path}/manifest.json cannot be read (No such file or directory): "
        "the folder does not contain a complete data set"
    )


@pytest.fixture
def shapes(tmp_path: Path) -> Path:
    """A folder with `out/shapes`, a data set of three classes as the README has it, and `out/boxes`."""
    write_pictures(str(tmp_path / "images"), [f"{'abc'[i % 3]}/{i}.png" for i in range(40)])
    argv = ("--images", f"{tmp_path}/images", "--output", f"{tmp_path}/out/shapes")
    assert convert(*argv, "--num_shards", "3") == 0
    objects = ([0.0, 0.5], [0.25, 0.5], [0.75, 1.0], [0.5, 1.0], [2, 1])
    two = {"image/encoded": [picture(size=(8, 4))], **dict(zip(OBJECTS, objects, strict=True))}
    none = {"image/encoded": [picture(size=(9, 7))]}
    write_by_hand(tmp_path / "out" / "boxes", {**IMAGE, **OBJECTS}, [two, none])
    return tmp_path


TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3")
DOCUMENTED = {
    "Images and labels": ((), [f"epoch {epoch}: 40 samples" for epoch in (0, 1)]),
    "Random access": ((), [f"[{size}, 64, 64, 3] torch.int64" for size in (16, 16, 8)]),
    "Saving the position": ((), ["5 batches were left"]),
    "Boxes": (
        (),
        ["[3, 4, 8] [[2.0, 0.0, 4.0, 3.0], [4.0, 2.0, 8.0, 4.0]] [2, 1]", "[3, 7, 9] [] []"],
    ),
    "Several processes": (
        TORCHRUN,
        [f"epoch {epoch}: [13, 13, 13] samples, 39 different" for epoch in (0, 1)],
    ),
}
"""Section -> how its code is run, and what it prints of 40 samples, or of an image with boxes and one without."""


@pytest.mark.parametrize("section", DOCUMENTED)
def test_the_documented_code_runs(shapes: Path, section: str) -> None:
    """Each process or worker sees its share, and none that another sees."""
    if section == "Saving the position":
        pytest.importorskip("torchdata")
    options, expected = DOCUMENTED[section]
    (code,) = documented("docs/pytorch.md", "python", section)
    (shapes / "train.py").write_text(code)
    done = _run(*options, "train.py", folder=shapes)
    assert sorted(done.stdout.splitlines()) == sorted(expected), done.stderr
