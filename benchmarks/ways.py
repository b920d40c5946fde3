"""The ways to convert that are compared: their commands, and how to read their output."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import outputs
from environments import PEERS, interpreter

OURS = "references"

_KEYS = ("image/encoded", "image/class/label")


@dataclass(frozen=True)
class Way:
    """A way to convert.

    Attributes:
      name: name in tables.
      command: (images, output, shards, workers) -> command line.
      read: output folder -> the samples of each file; see `outputs`.
      python: interpreter that runs it.
      packages: packages whose versions are reported with its figures.
      missing: why it cannot run here; empty if it can.
    """

    name: str
    command: Callable[[str, str, int, int], Sequence[str]]
    read: Callable[[str], Iterator[list[outputs.Sample]]]
    python: str
    packages: Sequence[str] = ()
    missing: str = ""


def _ours(name: str, *options: str) -> Way:
    def command(images: str, output: str, shards: int, workers: int) -> Sequence[str]:
        convert = [sys.executable, "-m", "beam_pipeline", "convert", "--images", images]
        return [*convert, "--output", output, "--num_shards", str(shards), "--yes", *options]

    read = outputs.tfrecords(*_KEYS)
    return Way(
        name=name,
        command=command,
        read=read,
        python=sys.executable,
        packages=("beam-tfrecord", "apache-beam", "pillow"),
    )


def _script(name: str, script: str, packages: Sequence[str], *options: str) -> Way:
    """A script of `peers` that runs in the project's own environment, with TensorFlow."""

    def command(images: str, output: str, shards: int, workers: int) -> Sequence[str]:
        return [sys.executable, f"{PEERS}/{script}", images, output, str(shards), *options]

    there = importlib.util.find_spec("tensorflow") is not None
    missing = "" if there else "TensorFlow is not installed: pip install '.[tensorflow]'"
    return Way(
        name=name,
        command=command,
        read=outputs.tfrecords(*_KEYS),
        python=sys.executable,
        packages=packages,
        missing=missing,
    )


def _peer(
    name: str,
    peer: str,
    script: str,
    read: Callable[[str], Iterator[list[outputs.Sample]]],
    packages: Sequence[str],
    environments: str,
) -> Way:
    """A script of `peers` that runs in a separate environment."""
    python = interpreter(environments, peer)

    def command(images: str, output: str, shards: int, workers: int) -> Sequence[str]:
        assert python is not None
        return [python, f"{PEERS}/{script}", images, output, str(shards)]

    make = f"python benchmarks/environments.py --into {environments or 'DIR'} {peer}"
    missing = f"no environment, or one of other versions; make it with {make}"
    missing += "" if environments else " and give --environments DIR"
    return Way(
        name=name,
        command=command,
        read=read,
        python=python or "",
        packages=packages,
        missing="" if python else missing,
    )


def _cat(name: str, processes: Callable[[int], int]) -> Way:
    """Copies the same bytes into the same number of files: the floor."""

    def command(images: str, output: str, shards: int, workers: int) -> Sequence[str]:
        source, target = shlex.quote(images), shlex.quote(output)
        script = f"""
            set -e
            mkdir -p {target}
            find {source} -type f -print0 | sort -z |
                split -t '\\0' -n r/{shards} -a 3 - {target}/list.
            find {target} -name 'list.*' -size +0 -print0 |
                xargs -0 -P {processes(workers)} -I F sh -c 'xargs -0 cat < "$1" > "$1.all"' - F
        """
        return ["sh", "-c", script]

    return Way(name, command, outputs.concatenations, sys.executable)


def all_ways(environments: str) -> dict[str, Way]:
    """Returns name -> way, ours first; some may be unable to run here."""
    ways = [
        _ours(OURS),
        _ours("references, one writer", "--writers=1"),
        _ours("references, one worker", "--writers=0"),
        _ours("references, threads", "--direct_running_mode=multi_threading"),
        _ours("records", "--shuffle=records"),
        _cat("cat", lambda workers: 1),
        _cat("cat, one process per core", lambda workers: workers),
        _script("plain loop", "plain_loop.py", ["tensorflow", "pillow"]),
        _script(
            "textbook Beam",
            "textbook_beam.py",
            ["apache-beam", "tensorflow", "pillow"],
            "--runner=FnApiRunner",
        ),
        _peer(
            name="TFDS",
            peer="tfds",
            script="tfds_builder.py",
            read=outputs.tfrecords("image", "label"),
            packages=["tensorflow-datasets", "tensorflow"],
            environments=environments,
        ),
        _peer(
            name="WebDataset",
            peer="webdataset",
            script="webdataset_shards.py",
            read=outputs.tars,
            packages=["webdataset"],
            environments=environments,
        ),
        _peer(
            name="MosaicML Streaming",
            peer="mds",
            script="mosaic_mds.py",
            read=outputs.mds,
            packages=["mosaicml-streaming", "torch"],
            environments=environments,
        ),
        _peer(
            name="Ray Data",
            peer="ray",
            script="ray_data.py",
            read=outputs.tfrecords("bytes", "label", ".tar"),  # Ray 2.60 names its TFRecords so
            packages=["ray", "pyarrow", "tensorflow"],
            environments=environments,
        ),
    ]
    return {way.name: way for way in ways}


def choose(names: Sequence[str] | None, environments: str) -> tuple[list[Way], list[Way]]:
    """Returns the ways with these names, or all: those that can run here, and those that cannot.

    Raises:
      ValueError: a name is unknown, or a requested way cannot run here.
    """
    ways = all_ways(environments)
    if unknown := set(names or ()) - ways.keys():
        raise ValueError(f"no such way: {'; '.join(sorted(unknown))}. There are: {'; '.join(ways)}")
    chosen = [ways[name] for name in names or ways]
    missing = [way for way in chosen if way.missing]
    if names and missing:
        raise ValueError("\n".join(f"{way.name} cannot run: {way.missing}" for way in missing))
    return [way for way in chosen if not way.missing], missing
