"""Draws the results of compare.py: one panel of bars for each of its JSON files.

    python benchmarks/chart.py small.json imagenet.json large.json --into docs/benchmarks.svg

A bar shows the median wall time of the rounds, its dark part the start-up, and the line on it their
span. Labels beside it give the time and the peak memory of all processes. A note below names the machine and the versions.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from textwrap import wrap
from typing import Any

import measure
from inputs import size_text

WIDTH = 820
NAMES = 190  # where bars start
BARS = 430  # length of the longest
LINE = 24
BAR = 14
HEADING = 52
MARGIN = 16
NOTE_LINE = 15
NOTE_LETTERS = 135

OURS_COLOUR = "#1a73e8"
FLOOR_COLOUR = "#bdc1c6"
PEER_COLOUR = "#80868b"
OURS = ("references", "records")
LABELS = {
    "references": "beam-tfrecord convert",
    "references, one worker": "convert, in one thread",
    "references, one writer": "convert, one writer process",
    "references, threads": "convert, Beam's threads",
    "records": "convert --shuffle=records",
}


def text(x: float, y: float, content: str, *, size: int = 12, more: str = "") -> str:
    """Draws a line of text; y is its base line."""
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" {more}>{escape(content)}</text>'


def colour(name: str) -> str:
    """Returns the colour of a way's bar."""
    if name.startswith(OURS):
        return OURS_COLOUR
    return FLOOR_COLOUR if name.startswith("cat") else PEER_COLOUR


def bar(way: Mapping[str, Any], y: float, scale: float) -> Iterator[str]:
    """Draws a way's line: name, bar, figures. scale: pixels per second."""
    name = way["name"]
    weight = 'font-weight="bold"' if name == OURS[0] else ""
    middle = y + LINE / 2
    yield text(NAMES - 8, middle + 4, LABELS.get(name, name), more=f'text-anchor="end" {weight}')
    if not way["runs"]:
        yield text(NAMES + 4, middle + 4, "failed")
        return
    walls = [run["wall"] for run in way["runs"]]
    wall = statistics.median(walls)
    start_up = min(wall, statistics.median(way["start_ups"]))
    length = max(1.0, wall * scale)
    yield (
        f'<rect x="{NAMES}" y="{middle - BAR / 2:.1f}" width="{length:.1f}" height="{BAR}" '
        f'fill="{colour(name)}"/>'
    )
    yield (
        f'<rect x="{NAMES}" y="{middle - BAR / 2:.1f}" width="{start_up * scale:.1f}" '
        f'height="{BAR}" fill="#000" fill-opacity="0.25"/>'
    )
    low, high = (NAMES + edge * scale for edge in (min(walls), max(walls)))
    yield f'<path d="M{low:.1f} {middle:.1f}H{high:.1f}" stroke="#202124"/>'
    figures = f"{wall:.{2 if wall < 10 else 1}f} s, {size_text(way['memory'] * 1e6)}"
    yield text(max(NAMES + length, high) + 6, middle + 4, figures, more=weight)


def panel(report: Mapping[str, Any], y: float) -> Iterator[str]:
    """Draws the heading and bars of one JSON file, fastest first."""
    images = report["images"]
    cpus = "1 CPU" if report["workers"] == 1 else f"{report['workers']} CPUs"
    yield text(MARGIN, y + 20, report["title"], size=15, more='font-weight="bold"')
    conditions = (
        f"{size_text(images['bytes'])}, {report['cache']} page cache, {cpus}, "
        f"{report['shards']} shards, output on {report['output']}: wall time and peak memory"
    )
    yield text(MARGIN, y + 38, conditions, more='fill="#5f6368"')
    ways = sorted(report["ways"], key=_median_wall)
    longest = max((run["wall"] for way in ways for run in way["runs"]), default=1.0)
    for number, way in enumerate(ways):
        yield from bar(way, y + HEADING + number * LINE, BARS / longest)


def _median_wall(way: Mapping[str, Any]) -> float:
    """Sort key of a panel's bars; failed ways come last."""
    return statistics.median(run["wall"] for run in way["runs"]) if way["runs"] else float("inf")


def notes(reports: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns machines, rounds and versions, as lines of text."""
    machines = dict.fromkeys(measure.sentence(report["machine"]) for report in reports)
    rounds = sorted({len(way["runs"]) for report in reports for way in report["ways"]} - {0})
    versions: dict[str, dict[str, None]] = {}
    for report in reports:
        for way in report["ways"]:
            for name, version in way["versions"].items():
                versions.setdefault(name, {})[version] = None
    packages = ", ".join(f"{name} {' and '.join(each)}" for name, each in versions.items())
    counts = " or ".join(str(count) for count in rounds)
    lines = [f"Medians of interleaved rounds ({counts}) of whole processes; dark: start-up."]
    return [part for line in [*lines, *machines, packages] for part in wrap(line, NOTE_LETTERS)]


def draw(reports: Sequence[Mapping[str, Any]]) -> str:
    """Returns the chart as SVG."""
    parts: list[str] = []
    y = float(MARGIN)
    for report in reports:
        parts += panel(report, y)
        y += HEADING + len(report["ways"]) * LINE + MARGIN
    for line in notes(reports):
        y += NOTE_LINE
        parts.append(text(MARGIN, y, line, size=11, more='fill="#5f6368"'))
    height = y + MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'width="{WIDTH}" height="{height:.0f}" font-family="Helvetica, Arial, sans-serif" '
        'fill="#202124">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="#fff"/>', *parts, "</svg>\n"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("reports", nargs="+", help="files that compare.py wrote with --json")
    parser.add_argument("--into", required=True, help="SVG file to write")
    arguments = parser.parse_args()
    reports = []
    for path in arguments.reports:
        with open(path, encoding="utf-8") as file:
            reports.append(json.load(file))
    with open(arguments.into, "w", encoding="utf-8") as file:
        file.write(draw(reports))


if __name__ == "__main__":
    main()
