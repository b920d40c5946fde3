"""`report.html`: what a data set holds, for people. One page that loads nothing."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from beam_pipeline.core.dead_letters import EXPLANATIONS, DeadLetter, Reason
from beam_pipeline.core.records.image_statistics import (
    MORE_SIZES,
    NOTHING_COUNTED,
    ImageStatistics,
)
from beam_pipeline.core.records.number_histogram import histogram_of
from beam_pipeline.core.report.assets import SCRIPT, STYLE
from beam_pipeline.core.report.charts import (
    aspect_chart,
    bar,
    boxes_over,
    heat_map,
    length_chart,
    number_chart,
    share_bars,
)
from beam_pipeline.core.report.markup import number, share, size, table, text
from beam_pipeline.core.report.report_file import MOST_BYTES, sealed
from beam_pipeline.core.report.samples import MOST_BOXES, ShownSample
from beam_pipeline.core.report.thumbnails import Thumbnail
from beam_pipeline.core.text import counted

MOST_CLASSES = 2000
MOST_SPLITS = 50
_SPLIT_COLUMNS = 6
_MOST_FEATURES = 100
_MOST_QUESTIONS = 20
_FEW_CLASSES = 12  # are not searched
_PIXELATED = 64  # pixels; smaller thumbnails are shown larger
_COMMAND = 4_000  # characters
_MESSAGE = 400
_TURNS = {
    1: "1: upright",
    2: "2: mirrored",
    3: "3: upside down",
    4: "4: upside down, mirrored",
    5: "5: a quarter turn, mirrored",
    6: "6: a quarter turn",
    7: "7: a quarter turn, mirrored",
    8: "8: a quarter turn",
}
_CHANNELS = {1: "1: grey", 2: "2: grey, alpha", 3: "3: RGB", 4: "4: RGB, alpha"}
_EVENTS = {
    "unchanged": "written as they were",
    "encoded": "encoded anew",
    "resized": "resized",
    "turned": "turned upright",
    "left_turned": "not upright, and not turned",
    "first_frame": "first frames of animations",
    "objects_outside": "objects left out, outside of what a crop keeps",
}


class Tile(NamedTuple):
    """A sample of the grid; the thumbnail is None if its image cannot be drawn."""

    sample: ShownSample
    thumbnail: Thumbnail | None


class LeftOut(NamedTuple):
    """A dead letter that is shown; the thumbnail is None if there is no image that can be drawn."""

    letter: DeadLetter
    thumbnail: Thumbnail | None


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a report shows.

    Attributes:
      manifest: of the data set.
      statistics: of its images and labels.
      tiles: split -> some of its samples.
      left_out: some of the dead letters, in any order.
      command: made the data set; empty if it is not known.
      duplicates: what is known of images that occur several times: name -> count, text or list of
        texts. Empty if nothing is.
    """

    manifest: Mapping[str, Any]
    statistics: ImageStatistics = NOTHING_COUNTED
    tiles: Mapping[str, Sequence[Tile]] = field(default_factory=dict)
    left_out: Sequence[LeftOut] = ()
    command: str = ""
    duplicates: Mapping[str, Any] = field(default_factory=dict)


def report_page(report: Report) -> bytes:
    """The file of a report; the same report has the same bytes, fewer than `MOST_BYTES`."""
    page = sealed(_page(report))
    if len(page) < MOST_BYTES:
        return page
    tiles = {
        split: [tile._replace(thumbnail=None) for tile in found]
        for split, found in report.tiles.items()
    }
    return sealed(_page(Report(**{**vars(report), "tiles": tiles, "left_out": ()})))


def _page(report: Report) -> bytes:
    sections = [(name, title, "".join(body)) for name, title, body in _sections(report)]
    sections = [section for section in sections if section[2]]
    name = text(report.manifest["name"])
    links = "".join(f'<li><a href="#{key}">{title}</a></li>' for key, title, _ in sections)
    policy = (
        f"default-src 'none'; style-src '{_hash(STYLE)}'; script-src '{_hash(SCRIPT)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    parts = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
        '<meta name="generator" content="beam-tfrecord">\n',
        f"<title>{name}: data set report</title>\n<style>{STYLE}</style>\n</head>\n<body>\n",
        f"<header><h1>{name}</h1>{_head(report)}</header>\n",
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n<main>\n',
        *(
            f'<section aria-labelledby="{key}"><h2 id="{key}">{title}</h2>{body}</section>\n'
            for key, title, body in sections
        ),
        f"</main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
    ]
    return "".join(parts).encode()


def _hash(content: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"


def _sections(report: Report) -> Iterator[tuple[str, str, Iterator[str]]]:
    """Yields the id, title and body of each section; empty ones are left out."""
    yield "samples", "Random samples", _samples(report)
    yield "splits", "Splits and shards", _splits(report.manifest)
    yield "classes", "Classes", _classes(report.manifest)
    yield "images", "Images", _images(report)
    yield "objects", "Objects", _objects(report)
    yield "labels", "Labels that are numbers", _numbers(report)
    yield "duplicates", "Duplicates", _duplicates(report.duplicates)
    yield "left-out", "Left out", _left_out(report)
    yield "made", "How it was made", _made(report)


def _head(report: Report) -> str:
    manifest = report.manifest
    counts, splits = manifest["counts"], manifest["splits"]
    total = sum(split["bytes"] for split in splits.values())
    shards = sum(len(split["shards"]) for split in splits.values())
    facts = [
        ("Samples", number(counts["examples"])),
        ("Splits", number(len(splits))),
        ("Shards", number(shards)),
        ("Size", size(total)),
        ("Classes", number(len(manifest["classes"]))),
        ("Left out", number(counts["dead_letters"])),
    ]
    said = [
        ("images listed", counts["listed_images"]),
        ("samples written", counts["examples"]),
        ("label rows read", counts["label_rows"]),
        ("samples kept without a label", counts.get("unlabelled", 0)),
    ]
    line = "; ".join(f"{what}: {number(count)}" for what, count in said if count)
    return f"<p>{line.capitalize()}</p>{_facts(facts)}"


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    items = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts)
    return f'<dl class="facts">{items}</dl>'


# --- splits ---------------------------------------------------------------------------------------


def _splits(manifest: Mapping[str, Any]) -> Iterator[str]:
    splits = manifest["splits"]
    examples = manifest["counts"]["examples"]
    rows = []
    for name, split in [*splits.items()][:MOST_SPLITS]:
        sizes = [shard["bytes"] for shard in split["shards"]]
        held = [shard["examples"] for shard in split["shards"]]
        rows.append(
            [
                text(name),
                number(split["examples"]),
                share(split["examples"], examples),
                size(split["bytes"]),
                number(len(sizes)),
                _range(*_ends(held), number),
                _range(*_ends(sizes), size),
            ]
        )
    heads = ["Split", "Samples", "Share", "Size", "Shards", "Samples per shard", "Size of a shard"]
    yield table(heads, rows)
    if len(splits) > MOST_SPLITS:
        yield f"<p>Splits that are not shown: {number(len(splits) - MOST_SPLITS)}</p>"
    charts = [
        number_chart(
            f"Samples per shard, {text(name)}",
            histogram_of([shard["examples"] for shard in split["shards"]]),
            of="shards",
        )
        for name, split in [*splits.items()][:_SPLIT_COLUMNS]
        if len(split["shards"]) > 1
    ]
    if charts:
        yield f'<h3>Balance of shards</h3><div class="charts">{"".join(charts)}</div>'


def _ends(values: Sequence[int]) -> tuple[int, int]:
    return min(values, default=0), max(values, default=0)


def _range(low: float, high: float, shown: Callable[[float], str]) -> str:
    return shown(low) if low == high else f"{shown(low)} to {shown(high)}"


# --- classes --------------------------------------------------------------------------------------


def _classes(manifest: Mapping[str, Any]) -> Iterator[str]:
    classes = manifest["classes"]
    if not classes:
        return
    if "splits" not in classes[0]:
        yield "<p>Pixels of masks are not counted.</p>"
        rows = [[text(entry["name"]), number(entry["id"])] for entry in classes[:MOST_CLASSES]]
        yield table(["Class", "Id"], rows)
        return
    figure = "objects" if "objects" in classes[0] else "examples"
    what = "objects" if figure == "objects" else "samples"
    ordered = sorted(classes, key=lambda entry: (-entry[figure], entry["id"]))
    largest, smallest = ordered[0], ordered[-1]
    said = f"{_counted(len(classes), 'class/classes')}."
    if len(classes) > 1:
        said += (
            f" The largest, {text(largest['name'])}, has {_counted(largest[figure], what[:-1])}; the "
            f"smallest, {text(smallest['name'])}, has {number(smallest[figure])}."
        )
    yield f"<p>{said}</p>"
    yield from _missing(classes)
    shown = ordered
    if len(ordered) > MOST_CLASSES:
        half = MOST_CLASSES // 2
        shown = [*ordered[:half], *ordered[-half:]]
        yield (
            f"<p>The table has the {number(half)} largest and the {number(half)} smallest; the others "
            "are in <code>manifest.json</code>.</p>"
        )
    yield _class_table(shown, figure, what)


def _counted(count: int, noun: str) -> str:
    """`1 class`, `1,000 classes`."""
    return counted(count, noun).replace(str(count), number(count), 1)


def _missing(classes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Says of which classes a split has nothing."""
    present = [entry for entry in classes if any(entry["splits"].values())]
    for split in [*classes[0]["splits"]][:_SPLIT_COLUMNS]:
        names = [entry["name"] for entry in present if not entry["splits"][split]]
        if names and len(names) < len(present):
            some = ", ".join(text(name, 40) for name in names[:5])
            more = f" and {number(len(names) - 5)} more" if len(names) > 5 else ""
            yield f"<p>{text(split)} has none of {some}{more}.</p>"


def _class_table(shown: Sequence[Mapping[str, Any]], figure: str, what: str) -> str:
    most = max(entry[figure] for entry in shown)
    splits = [*shown[0]["splits"]]
    splits = splits[:_SPLIT_COLUMNS] if len(splits) > 1 else []
    rows = "".join(
        f'<tr><th scope="row">{text(entry["name"], 100)}</th><td class="n">{entry["id"]}</td>'
        f'<td class="n">{number(entry[figure])}</td><td>{bar(entry[figure], most)}</td>'
        + "".join(f'<td class="n">{number(entry["splits"][split])}</td>' for split in splits)
        + "</tr>\n"
        for entry in shown
    )
    heads = (
        '<th scope="col" data-sort="text">Class</th><th scope="col" data-sort="number" class="n">Id</th>'
        f'<th scope="col" data-sort="number" class="n" aria-sort="descending">{what.capitalize()}</th>'
        "<td></td>"
        + "".join(
            f'<th scope="col" data-sort="number" class="n">{text(split)}</th>' for split in splits
        )
    )
    find = (
        '<div class="find" hidden=""><label>Find a class <input type="search" autocomplete="off"/></label>'
        '<span role="status"></span></div>'
    )
    many = len(shown) > _FEW_CLASSES
    tall = "tall" if many else "wide"
    return (
        f'<div data-table="">{find if many else ""}<div class="{tall}" tabindex="0" role="group" aria-label="Classes">'
        f"<table><thead><tr>{heads}</tr></thead><tbody>\n{rows}</tbody></table></div></div>"
    )


# --- images, objects, numbers ---------------------------------------------------------------------


def _coverage(report: Report) -> str:
    """Says of how many samples there are figures, if not of all."""
    images, examples = report.statistics.images, report.manifest["counts"]["examples"]
    if images >= examples:
        return ""
    if not images:
        return (
            "<p>There are no figures of images: the samples were given as finished examples, or their "
            "shards were written by an older version.</p>"
        )
    return (
        f"<p>Figures are of {number(images)} of {number(examples)} samples. The others are in shards "
        "written by an older version, which did not keep them.</p>"
    )


def _images(report: Report) -> Iterator[str]:
    statistics = report.statistics
    yield _coverage(report)
    if not statistics.images:
        return
    counts, lengths = statistics.counts, statistics.lengths
    width, height, sizes = (lengths[name] for name in ("width", "height", "bytes"))
    yield _facts(
        [
            ("Width", f"{_range(width.low, width.high, number)} px"),
            ("Height", f"{_range(height.low, height.high, number)} px"),
            ("File size", _range(sizes.low, sizes.high, size)),
        ]
    )
    charts = [_sizes(counts["size"])]
    if width.low < width.high or height.low < height.high:
        charts += [
            length_chart("Width", counts["width"], unit="pixels", equal=width),
            length_chart("Height", counts["height"], unit="pixels", equal=height),
            aspect_chart(counts["aspect"]),
        ]
    charts.append(length_chart("File size", counts["bytes"], unit="bytes", equal=sizes))
    charts.append(share_bars("Format", _named(counts["format"], {})))
    charts.append(share_bars("Channels", _named(counts["channels"], _CHANNELS)))
    charts.append(share_bars("EXIF orientation", _named(counts["orientation"], _TURNS)))
    events = report.manifest["counts"].get("images", {})
    rows = [[_EVENTS.get(name, text(name)), number(count)] for name, count in events.items()]
    if rows:
        charts.append(f"<figure>{table(['What was done', 'Number'], rows)}</figure>")
    yield f'<div class="charts">{"".join(charts)}</div>'


def _sizes(sizes: Mapping[int | str, int]) -> str:
    """The sizes of images, where there are few of them."""
    if MORE_SIZES in sizes:
        return ""
    ordered = sorted(sizes.items(), key=lambda pair: (-pair[1], str(pair[0])))
    return share_bars("Width x height", [(text(name), count) for name, count in ordered])


def _named(counts: Mapping[int | str, int], names: Mapping[Any, str]) -> Sequence[tuple[str, int]]:
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], str(pair[0])))
    return [(names.get(key, text(key)), count) for key, count in ordered]


def _objects(report: Report) -> Iterator[str]:
    statistics = report.statistics
    boxes = statistics.counts.get("boxes")
    if not boxes:
        return
    yield _coverage(report)
    total = sum(statistics.counts["box_size"].values())
    empty = boxes.get(0, 0)
    lengths = statistics.lengths["boxes"]
    yield _facts(
        [
            ("Boxes", number(total)),
            (
                "Per image",
                f"{total / statistics.images:.3g} on average, {number(lengths.high)} at most",
            ),
            ("Images without", f"{number(empty)}, {share(empty, statistics.images)}"),
        ]
    )
    charts = (
        length_chart("Boxes per image", boxes, unit="", equal=lengths),
        length_chart(
            "Sizes of boxes",
            statistics.counts["box_size"],
            unit="pixels",
            of="boxes",
            note="The side of a square of the same area",
        ),
        heat_map(statistics.counts["box_place"]),
    )
    yield f'<div class="charts">{"".join(charts)}</div>'


def _numbers(report: Report) -> Iterator[str]:
    charts = []
    for feature, histogram in sorted(report.statistics.numbers.items()):
        if not histogram.bins:
            continue
        ends = f"{number(histogram.low)} to {number(histogram.high)}"
        note = f"{_counted(histogram.values, 'value')}, {ends}"
        if histogram.others:
            note += f"; not finite: {number(histogram.others)}"
        charts.append(number_chart(text(feature), histogram, note=note))
    if charts:
        yield f'<div class="charts">{"".join(charts)}</div>'


def _duplicates(found: Mapping[str, Any]) -> Iterator[str]:
    rows = []
    for name, value in found.items():
        if isinstance(value, list | tuple):
            shown = "<br/>".join(text(item) for item in value[:20])
        else:
            shown = number(value) if isinstance(value, int) else text(value)
        rows.append([text(name.replace("_", " ").capitalize()), shown])
    if rows:
        yield table(["Duplicates", "Number"], rows, numeric=False)


# --- samples and dead letters ---------------------------------------------------------------------


def _samples(report: Report) -> Iterator[str]:
    for split, tiles in report.tiles.items():
        if not tiles:
            continue
        yield f'<h3>{text(split)}</h3><ul class="tiles">'
        for tile in tiles:
            yield f'<li class="tile">{_picture(tile)}{_caption(tile.sample)}</li>'
        yield "</ul>"


def _picture(tile: Tile) -> str:
    sample, found = tile
    if found is None:
        return '<span class="none">no picture</span>'
    boxes = boxes_over(sample.boxes, found.width, found.height) if sample.boxes else ""
    return _framed(found, sample.key, boxes)


def _framed(found: Thumbnail, key: str, over: str = "") -> str:
    small = ' class="px"' if max(found.width, found.height) <= _PIXELATED else ""
    return (
        f'<span class="frame"><img{small} src="{found.uri}" width="{found.width}" '
        f'height="{found.height}" alt="Image {text(key)}"/>{over}</span>'
    )


def _caption(sample: ShownSample) -> str:
    lines = [
        f"{text(value)}" if name == "class" else f"{text(name, 40)}: {text(value)}"
        for name, value in sample.labels[:8]
    ]
    if sample.boxes:
        names = sorted({box.name for box in sample.boxes})
        some = ", ".join(text(name, 30) for name in names[:4] if name)
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        boxes = _counted(sample.objects, "box/boxes")
        if sample.objects > MOST_BOXES:
            boxes += f", {MOST_BOXES} drawn"
        lines.append(f"{boxes}: {some}{more}" if some else boxes)
    return f"{'<br/>'.join(lines)}<small>{text(sample.key)}</small>"


def _left_out(report: Report) -> Iterator[str]:
    manifest = report.manifest
    reasons = manifest["dead_letters"]
    if not reasons:
        yield "<p>Nothing was left out.</p>"
    else:
        yield (
            f"<p>{_counted(sum(reasons.values()), 'image or label row/images or label rows')} became no "
            "sample. <code>dead_letters.jsonl</code> lists all of them.</p>"
        )
        ordered = sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))
        yield _reasons(ordered)
        for reason, _ in ordered:
            examples = [one for one in report.left_out if one.letter.reason == reason]
            if examples:
                yield f'<h3><code>{text(reason)}</code></h3><ul class="tiles letters">'
                yield from map(_dead_letter, examples)
                yield "</ul>"
    ignored = manifest["counts"]["ignored_files"]
    if ignored:
        some = [*ignored.items()][:20]
        passed = ", ".join(f"{number(count)} {text(what, 40)}" for what, count in some)
        yield f"<p>Files that were not listed, by extension: {passed}.</p>"
    if manifest["counts"]["label_rows_repeated"]:
        yield f"<p>Label rows that repeat others: {number(manifest['counts']['label_rows_repeated'])}.</p>"


def _reasons(reasons: Sequence[tuple[str, int]]) -> str:
    """Counts of dead letters by reason, with what each means."""
    known = {reason.value: said for reason, said in EXPLANATIONS.items()}
    most = max(count for _, count in reasons)
    rows = [
        [
            f"<code>{text(reason)}</code>",
            text(known.get(reason, ""), 200),
            number(count),
            bar(count, most),
        ]
        for reason, count in reasons[: len(Reason)]
    ]
    return table(["Reason", "Meaning", "Number", ""], rows, numeric=False)


def _dead_letter(example: LeftOut) -> str:
    letter, found = example
    picture = _framed(found, letter.key) if found else ""
    place = ""
    if letter.file:
        line = f", line {letter.line}" if letter.line else ""
        place = f"<small>{text(letter.file)}{line}</small>"
    return (
        f'<li class="tile">{picture}{text(letter.key)}<small>{text(letter.message, _MESSAGE)}</small>'
        f"{place}</li>"
    )


# --- how it was made ------------------------------------------------------------------------------


def _made(report: Report) -> Iterator[str]:
    manifest = report.manifest
    if report.command:
        yield f'<pre tabindex="0"><code>{text(report.command, _COMMAND)}</code></pre>'
    for question in manifest.get("questions", ())[:_MOST_QUESTIONS]:
        yield f"<p>Accepted with --yes: {text(question, _MESSAGE)}</p>"
    options = {
        name: value
        for name, value in manifest["options"].items()
        if name != "columns" and value not in (None, {}, [], "")
    }
    rows = [["seed", text(manifest["seed"])]]
    rows += [[text(name), text(_value(value))] for name, value in options.items()]
    if "codec" in manifest:
        rows.append(["codec", text(manifest["codec"], 300)])
    yield f"<details><summary>Options</summary>{table(['Option', 'Value'], rows, numeric=False)}</details>"
    features = [
        [
            f"<code>{text(key)}</code>",
            text(entry["kind"]),
            "list" if entry["shape"] else "one value",
            "in some examples" if entry["optional"] else "in every example",
        ]
        for key, entry in [*manifest["features"].items()][:_MOST_FEATURES]
    ]
    heads = ["Feature", "Kind", "Shape", ""]
    yield (
        f"<details><summary>Features of an example</summary>{table(heads, features, numeric=False)}"
        "</details>"
    )


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
