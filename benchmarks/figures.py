"""Makes all figures of the README and the benchmarks' page: one table per set of images, and the chart.

    python benchmarks/figures.py --work /tmp/bench --output /dev/shm/bench --into docs/benchmarks.svg

The folder of work keeps images, environments and results (15 GB), so a second run begins with measuring.
It takes half a day, on a machine that does nothing else. Other options are those of compare.py.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SETS = ("imagenet", "small", "large")


def run(script: str, *arguments: str) -> None:
    """Runs a script of this folder; raises CalledProcessError if it fails."""
    subprocess.run([sys.executable, os.path.join(HERE, script), *arguments], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--work", required=True, help="folder of images, environments and results")
    parser.add_argument(
        "--output", required=True, help="folder that may be removed, see compare.py"
    )
    parser.add_argument("--into", required=True, help="SVG file to write")
    arguments, more = parser.parse_known_args()
    environments = os.path.join(arguments.work, "environments")
    run("environments.py", "--into", environments)
    reports = []
    for name in SETS:
        images = os.path.join(arguments.work, name)
        if not os.path.isdir(images):
            run("make_images.py", f"{images}.part", "--set", name)
            os.rename(f"{images}.part", images)
        reports.append(f"{images}.json")
        folders = ["--images", images, "--output", arguments.output, "--environments", environments]
        run("compare.py", *folders, "--json", reports[-1], *more)
    run("chart.py", *reports, "--into", arguments.into)


if __name__ == "__main__":
    main()
