"""Measures how listing, joining and planning grow with the number of references, without images.

    python benchmarks/plan_growth.py --counts 10000 100000 1000000 --work /tmp/plan

Each run is a whole `beam-tfrecord plan` on synthetic references in 1,000 class folders: rows of an
inventory (`uri,size`), which need no files at all, or, for `files`, empty files that are listed. With
`table`, CSV files name each image's path and class, and rows are joined with images. For `one name`,
each image is `rgb.png` in a folder of its own. For `Parquet`, inventory and table are one Parquet file
each.

To measure another engine, start its job server by hand:

    python benchmarks/plan_growth.py ... --job_endpoint localhost:8099 --job_server_pid PID
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import shutil
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field

import machine
import measure
from compare import table
from measure import Figures

WAYS = ("folders", "table", "files, folders", "files, table", "one name, table")
WAYS += ("Parquet, folders", "Parquet, table")
HEAD = [
    "engine",
    "references",
    "count",
    "wall s, median (span)",
    "CPU s",
    "wall µs each",
    "CPU µs each",
]
HEAD += ["peak MB", "B each"]
_FOLDERS = 1000
_ROWS_A_FILE = 1_000_000  # inventory reports of a bucket come in several files, too
_ROW_GROUP = 1 << 18  # rows
_LIMIT_S = 3600


@dataclass
class Run:
    """A way, an engine, a count and their figures."""

    way: str
    engine: str
    count: int
    command: Sequence[str]
    figures: list[Figures] = field(default_factory=list)


def names(first: int, end: int) -> Iterator[str]:
    """Yields keys of references, each with a unique bare file name."""
    return (f"class_{i % _FOLDERS:04d}/image_{i:08d}.jpg" for i in range(first, end))


def same_names(first: int, end: int) -> Iterator[str]:
    """Yields keys of references that all have one bare file name."""
    return (f"{i:08d}/rgb.png" for i in range(first, end))


def make(folder: str, count: int, empty_files: bool, one_name: bool = False) -> None:
    """Writes an inventory and tables, or files to list."""
    images = f"{folder}/images"
    os.makedirs(images)
    if one_name:
        make_tables(f"{folder}/one", images, count, same_names)
    make_tables(folder, images, count, names)
    if empty_files:
        for i in range(min(count, _FOLDERS)):
            os.makedirs(f"{images}/class_{i:04d}")
        for name in names(0, count):
            os.close(os.open(f"{images}/{name}", os.O_CREAT | os.O_WRONLY))


def make_tables(
    folder: str, images: str, count: int, names: Callable[[int, int], Iterator[str]]
) -> None:
    """Writes an inventory and tables of some names; a label is one of 1,000 classes."""
    os.makedirs(folder, exist_ok=True)
    for part, first in enumerate(range(0, count, _ROWS_A_FILE)):
        end = min(first + _ROWS_A_FILE, count)
        with open(f"{folder}/inventory-{part:03d}.csv", "w", encoding="ascii") as file:
            file.write("uri,size\n")
            file.writelines(
                f"{images}/{name},{100_000 + i % 5000}\n"
                for i, name in enumerate(names(first, end))
            )
        with open(f"{folder}/labels-{part:03d}.csv", "w", encoding="ascii") as file:
            file.write("filename,label\n")
            file.writelines(
                f"{name},class_{i % _FOLDERS:04d}\n"
                for i, name in enumerate(names(first, end), first)
            )


def make_parquet(folder: str) -> None:
    """Writes the rows of the inventories and of the tables to one Parquet file each."""
    from pyarrow import csv, parquet  # not imported where its memory would count

    for kind in ("inventory", "labels"):
        writer = None
        for path in sorted(glob.glob(f"{folder}/{kind}-*.csv")):
            rows = csv.read_csv(path)
            writer = writer or parquet.ParquetWriter(f"{folder}/{kind}-all.parquet", rows.schema)
            writer.write_table(rows, _ROW_GROUP)
        if writer:
            writer.close()


def command(way: str, folder: str, engine: Sequence[str]) -> list[str]:
    """Returns the plan command of a way, on the engine that Beam's options name."""
    plan = [sys.executable, "-m", "beam_pipeline", "plan", "--images", f"{folder}/images"]
    plan += ["--output", f"{folder}/out"]
    folder = f"{folder}/one" if way.startswith("one name") else folder
    ending = "parquet" if way.startswith("Parquet") else "csv"
    if not way.startswith("files"):
        plan += ["--inventory", f"{folder}/inventory-*.{ending}"]
    if way.endswith("table"):
        plan += ["--labels", f"{folder}/labels-*.{ending}"]
    else:
        plan += ["--layout", "class_folders"]
    return [*plan, *engine]


def row(run: Run) -> list[str]:
    """Makes one row of the table."""
    walls = [figures.wall for figures in run.figures]
    wall, cpu = statistics.median(walls), statistics.median(f.cpu for f in run.figures)
    memory = max(figures.memory for figures in run.figures)
    return [
        *(run.engine, run.way, f"{run.count:,}"),
        f"{wall:.1f} ({min(walls):.1f}-{max(walls):.1f})",
        *(f"{cpu:.1f}", f"{wall / run.count * 1e6:.1f}", f"{cpu / run.count * 1e6:.1f}"),
        *(f"{memory:.0f}", f"{memory / run.count * 1e6:.0f}"),
    ]


def peak_mb(pid: int) -> float:
    """Returns the largest resident set size that a process has had."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        (line,) = (line for line in file if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024 / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--work", required=True, help="folder for the synthetic references")
    parser.add_argument("--counts", required=True, nargs="+", type=int)
    parser.add_argument("--ways", nargs="+", default=WAYS[:2], choices=WAYS)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--job_endpoint", default="", help="address of a job server to use instead of FnApiRunner"
    )
    parser.add_argument(
        "--job_server_pid", type=int, help="process id of the job server, to measure its memory"
    )
    parser.add_argument("--json", default="", help="file for the figures")
    arguments = parser.parse_args()
    engine, options = "FnApiRunner", []
    if arguments.job_endpoint:
        engine = "job server"
        options = ["--runner=PortableRunner", f"--job_endpoint={arguments.job_endpoint}"]
        options += ["--environment_type=LOOPBACK"]
    found = machine.describe()
    print(machine.sentence(found), flush=True)
    runs = []
    for count in arguments.counts:
        folder = os.path.join(os.path.abspath(arguments.work), str(count))
        make(
            folder,
            count,
            empty_files=any(way.startswith("files") for way in arguments.ways),
            one_name=any(way.startswith("one name") for way in arguments.ways),
        )
        if any(way.startswith("Parquet") for way in arguments.ways):
            make_parquet(folder)
        try:
            of_count = [
                Run(way, engine, count, command(way, folder, options)) for way in arguments.ways
            ]
            for _ in range(arguments.rounds):
                for run in of_count:
                    run.figures.append(
                        measure.run(
                            run.command,
                            cpus=os.sched_getaffinity(0),
                            limit_s=_LIMIT_S,
                            limit_bytes=0.8 * machine.available_bytes(),
                        )
                    )
                    print(row(run), flush=True)
        finally:
            shutil.rmtree(folder)
        runs += of_count
    print(f"\n{table(HEAD, [row(run) for run in runs])}")
    if arguments.job_server_pid:
        print(f"\nthe job server itself: at most {peak_mb(arguments.job_server_pid):.0f} MB")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(
                {"machine": found, "plan_growth": [asdict(run) for run in runs]}, file, indent=1
            )


if __name__ == "__main__":
    main()
