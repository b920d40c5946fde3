"""`report.html`: what a data set contains, for people. One page that loads nothing."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from beam_pipeline.core.card.contents import feature_rows
from beam_pipeline.core.card.seal import PLACEHOLDER, sealed
from beam_pipeline.core.dataset.duplicates import NO_DUPLICATES, Duplicates
from beam_pipeline.core.dataset.manifest import Manifest
from beam_pipeline.core.dead_letters import EXPLANATIONS, DeadLetter
from beam_pipeline.core.records.alteration import EVENT_PHRASES
from beam_pipeline.core.records.image_statistics import (
    MORE_SIZES,
    NOTHING_COUNTED,
    ImageStatistics,
    histogram_of,
)
from beam_pipeline.core.report.charts import (
    aspect_chart,
    bar,
    heat_map,
    length_chart,
    number_chart,
    share_bars,
)
from beam_pipeline.core.report.markup import number, share, table, text
from beam_pipeline.core.report.samples import Tile, framed, sample_grids, tile_grid
from beam_pipeline.core.report.thumbnails import Thumbnail
from beam_pipeline.core.text import counted, enumerated, human_size

MOST_BYTES = 5_000_000
"""No report is larger."""

MOST_CLASSES = 2000
MOST_SPLITS = 50
_SPLIT_COLUMNS = 6
_MOST_FEATURES = 100
_MOST_QUESTIONS = 20
_FEW_CLASSES = 12  # are not searched
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
_FIND = (
    '<div class="find" hidden=""><label>Find a class <input type="search" autocomplete="off"/></label>'
    '<span role="status"></span></div>'
)


class LeftOut(NamedTuple):
    """A dead letter that is shown; the thumbnail is None without an image that can be drawn."""

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
      duplicates: the images that occur several times, as far as they were looked for.
    """

    manifest: Manifest
    statistics: ImageStatistics = NOTHING_COUNTED
    tiles: Mapping[str, Sequence[Tile]] = field(default_factory=dict)
    left_out: Sequence[LeftOut] = ()
    command: str = ""
    duplicates: Duplicates = NO_DUPLICATES


def report_page(report: Report) -> bytes:
    """The file of a report; the same report has the same bytes, fewer than `MOST_BYTES`."""
    page = _page(report)
    if len(page) < MOST_BYTES:
        return page
    tiles = {
        split: [tile._replace(thumbnail=None) for tile in of_split]
        for split, of_split in report.tiles.items()
    }
    return _page(replace(report, tiles=tiles, left_out=()))


def _page(report: Report) -> bytes:
    template, style, script = (
        Path(__file__).with_name(f"page.{kind}").read_text(encoding="utf-8")
        for kind in ("html", "css", "js")
    )
    sections = [(key, title, "".join(make(report))) for key, title, make in _SECTIONS]
    sections = [section for section in sections if section[2]]
    page = Template(template).substitute(
        policy=f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'",
        name=text(report.manifest.name),
        style=style,
        script=script,
        head=_head(report.manifest),
        links="".join(f'<li><a href="#{key}">{title}</a></li>' for key, title, _ in sections),
        sections="".join(
            f'<section aria-labelledby="{key}"><h2 id="{key}">{title}</h2>{body}</section>\n'
            for key, title, body in sections
        ),
        seal=PLACEHOLDER,
    )
    return sealed(page.encode())


def _hash(content: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"


def _head(manifest: Manifest) -> str:
    counts = manifest.counts
    figures = [
        ("images listed", counts.listed_images),
        ("samples written", counts.examples),
        ("label rows read", counts.label_rows),
        ("objects dropped", counts.dropped_objects),
        ("samples kept without a label", counts.unlabelled),
    ]
    line = "; ".join(f"{name}: {number(count)}" for name, count in figures if count)
    return f"<p>{line.capitalize()}</p>" + _facts(
        Samples=number(counts.examples),
        Splits=number(len(manifest.splits)),
        Shards=number(len(manifest.shards)),
        Size=human_size(manifest.bytes),
        Classes=number(len(manifest.classes)),
        Left_out=number(counts.dead_letters),
    )


def _facts(**facts: str) -> str:
    """A list of names and values, both as HTML; a `_` in a name is a space."""
    items = "".join(
        f"<div><dt>{name.replace('_', ' ')}</dt><dd>{value}</dd></div>"
        for name, value in facts.items()
    )
    return f'<dl class="facts">{items}</dl>'


def _charts(charts: Iterable[str]) -> str:
    drawn = "".join(charts)
    return f'<div class="charts">{drawn}</div>' if drawn else ""


def _counted(count: int, noun: str) -> str:
    """`1 class`, `1,000 classes`."""
    return counted(count, noun).replace(str(count), number(count), 1)


# --- splits ---------------------------------------------------------------------------------------


def _splits(report: Report) -> Iterator[str]:
    splits = [*report.manifest.splits.items()]
    rows, charts = [], []
    for name, split in splits[:MOST_SPLITS]:
        sizes = [shard.bytes for shard in split.shards] or [0]
        held = [shard.examples for shard in split.shards] or [0]
        rows.append(
            [
                text(name),
                number(split.examples),
                share(split.examples, report.manifest.counts.examples),
                human_size(split.bytes),
                number(len(split.shards)),
                _range(min(held), max(held), number),
                _range(min(sizes), max(sizes), human_size),
            ]
        )
        if len(held) > 1 and len(rows) <= _SPLIT_COLUMNS:
            histogram = histogram_of(held)
            charts.append(number_chart(f"Samples per shard, {text(name)}", histogram, of="shards"))
    heads = ["Split", "Samples", "Share", "Size", "Shards", "Samples per shard", "Size of a shard"]
    yield table(heads, rows)
    if len(splits) > MOST_SPLITS:
        yield f"<p>Splits that are not shown: {number(len(splits) - MOST_SPLITS)}</p>"
    if charts:
        yield f"<h3>Balance of shards</h3>{_charts(charts)}"


def _range(low: float, high: float, form: Callable[[float], str]) -> str:
    return form(low) if low == high else f"{form(low)} to {form(high)}"


# --- classes --------------------------------------------------------------------------------------


def _classes(report: Report) -> Iterator[str]:
    classes, unit = report.manifest.classes, report.manifest.unit
    if not classes:
        return
    if not unit:
        yield "<p>Pixels of masks are not counted.</p>"
        rows = [[text(entry.name), number(entry.id)] for entry in classes[:MOST_CLASSES]]
        yield table(["Class", "Id"], rows)
        return
    unit_name = "objects" if unit == "objects" else "samples"
    ordered = sorted(classes, key=lambda entry: (-entry.count, entry.id))
    largest, smallest = ordered[0], ordered[-1]
    sentence = f"{_counted(len(classes), 'class/classes')}."
    if len(classes) > 1:
        sentence += (
            f" The largest, {text(largest.name)}, has {_counted(largest.count, unit_name[:-1])}; the "
            f"smallest, {text(smallest.name)}, has {number(smallest.count)}."
        )
    yield f"<p>{sentence}</p>"
    for split, names in [*report.manifest.absent_classes.items()][:_SPLIT_COLUMNS]:
        some = enumerated([text(name, 40) for name in names], 5)
        yield f"<p>{text(split)} has none of {some}.</p>"
    half = MOST_CLASSES // 2
    if len(ordered) > MOST_CLASSES:
        ordered = [*ordered[:half], *ordered[-half:]]
        yield (
            f"<p>The table has the {number(half)} largest and the {number(half)} smallest; the others "
            "are in <code>manifest.json</code>.</p>"
        )
    splits = [*largest.splits][:_SPLIT_COLUMNS] if len(largest.splits) > 1 else []
    rows = [
        [
            *(text(entry.name, 100), str(entry.id), number(entry.count)),
            bar(entry.count, largest.count),
            *(number(entry.splits.get(split, 0)) for split in splits),
        ]
        for entry in ordered
    ]
    heads = ["Class", "Id", unit_name.capitalize(), "", *map(text, splits)]
    many = len(ordered) > _FEW_CLASSES
    by_class = table(heads, rows, label="Classes", tall=many)
    yield f'<div data-table="2">{_FIND if many else ""}{by_class}</div>'


# --- images, objects, numbers ---------------------------------------------------------------------


def _coverage(report: Report) -> str:
    """Says of how many samples there are figures, if not of all."""
    images, examples = report.statistics.images, report.manifest.counts.examples
    if images >= examples:
        return ""
    if not images:
        return "<p>Figures of images are missing: the samples were given as finished examples.</p>"
    return f"<p>Figures are of {number(images)} of {number(examples)} samples.</p>"


def _images(report: Report) -> Iterator[str]:
    statistics = report.statistics
    yield _coverage(report)
    if not statistics.images:
        return
    counts, lengths = statistics.counts, statistics.lengths
    width, height, sizes = (lengths[name] for name in ("width", "height", "bytes"))
    yield _facts(
        Width=f"{_range(width.low, width.high, number)} px",
        Height=f"{_range(height.low, height.high, number)} px",
        File_size=_range(sizes.low, sizes.high, human_size),
    )
    charts = [] if MORE_SIZES in counts["size"] else [_bars("Width x height", counts["size"])]
    if width.low < width.high or height.low < height.high:
        charts += [
            length_chart("Width", counts["width"], unit="pixels", equal=width),
            length_chart("Height", counts["height"], unit="pixels", equal=height),
            aspect_chart(counts["aspect"]),
        ]
    charts += [
        length_chart("File size", counts["bytes"], unit="bytes", equal=sizes),
        _bars("Format", counts["format"]),
        _bars("Channels", counts["channels"], _CHANNELS),
        _bars("EXIF orientation", counts["orientation"], _TURNS),
    ]
    events = report.manifest.counts.images
    rows = [[EVENT_PHRASES.get(name, text(name)), number(count)] for name, count in events.items()]
    if rows:
        charts.append(f"<figure>{table(['What was done', 'Number'], rows)}</figure>")
    yield _charts(charts)


def _bars(title: str, counts: Mapping[int | str, int], names: Mapping[Any, str] = {}) -> str:
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], str(pair[0])))
    return share_bars(title, [(names.get(key, text(key)), count) for key, count in ordered])


def _objects(report: Report) -> Iterator[str]:
    statistics = report.statistics
    boxes = statistics.counts.get("boxes")
    if not boxes:
        return
    yield _coverage(report)
    sizes, lengths = statistics.counts["box_size"], statistics.lengths["boxes"]
    total, empty = sum(sizes.values()), boxes.get(0, 0)
    each = f"{total / statistics.images:.3g} on average, {number(lengths.high)} at most"
    yield _facts(
        Boxes=number(total),
        Per_image=each,
        Images_without=f"{number(empty)}, {share(empty, statistics.images)}",
    )
    note = "The side of a square of the same area"
    yield _charts(
        [
            length_chart("Boxes per image", boxes, unit="", equal=lengths),
            length_chart("Sizes of boxes", sizes, unit="pixels", of="boxes", note=note),
            heat_map(statistics.counts["box_place"]),
        ]
    )


def _numbers(report: Report) -> Iterator[str]:
    charts = []
    for feature, histogram in sorted(report.statistics.numbers.items()):
        ends = f"{number(histogram.low)} to {number(histogram.high)}" if histogram.bins else ""
        note = f"{_counted(histogram.values, 'value')}, {ends}"
        if histogram.not_finite:
            note += f"; not finite: {number(histogram.not_finite)}"
        charts.append(number_chart(text(feature), histogram, note=note))
    yield _charts(charts)


def _duplicates(report: Report) -> Iterator[str]:
    duplicates = report.duplicates
    if duplicates.groups:
        groups = (
            ", ".join(f"{image.key} ({image.split})" for image in group.shown)
            for group in duplicates.examples
        )
        rows = [
            ["Images compared", number(duplicates.images_compared)],
            ["Images that occur several times", number(duplicates.images)],
            ["Groups of the same bytes", number(duplicates.groups)],
            ["Groups across splits", number(duplicates.groups_across_splits)],
            ["Groups with different labels", number(duplicates.groups_with_different_labels)],
            ["Examples", "<br/>".join(map(text, groups))],
        ]
        yield table(["Duplicates", "Number"], rows, numeric=False)


# --- dead letters ---------------------------------------------------------------------------------


def _left_out(report: Report) -> Iterator[str]:
    reasons, counts = report.manifest.dead_letters, report.manifest.counts
    if not reasons:
        yield "<p>Nothing was left out.</p>"
    else:
        dropped = counts.dropped_objects
        number_of = _counted(
            sum(reasons.values()) - dropped, "image or label row/images or label rows"
        )
        objects = f" {_counted(dropped, 'object')} of samples had no area." if dropped else ""
        yield (
            f"<p>{number_of} became no sample.{objects} <code>dead_letters.jsonl</code> lists all of "
            "them.</p>"
        )
        ordered = sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))
        rows = [
            [
                f"<code>{text(reason)}</code>",
                text(_MEANINGS.get(reason, ""), 200),
                number(count),
                bar(count, ordered[0][1]),
            ]
            for reason, count in ordered[: len(_MEANINGS)]
        ]
        yield table(["Reason", "Meaning", "Number", ""], rows, numeric=False)
        for reason, _ in ordered:
            items = [*map(_dead_letter, (x for x in report.left_out if x.letter.reason == reason))]
            if items:
                yield f"<h3><code>{text(reason)}</code></h3>{tile_grid(items, 4, 'letters')}"
    if counts.ignored_files:
        some = [*counts.ignored_files.items()][:20]
        passed = ", ".join(f"{number(count)} {text(kind, 40)}" for kind, count in some)
        yield f"<p>Files that were not listed, by extension: {passed}.</p>"
    if counts.label_rows_repeated:
        yield f"<p>Label rows that repeat others: {number(counts.label_rows_repeated)}.</p>"


_MEANINGS = {reason.value: meaning for reason, meaning in EXPLANATIONS.items()}


def _dead_letter(example: LeftOut) -> str:
    letter, image = example
    picture = framed(image, letter.key) if image else ""
    line = f", line {letter.line}" if letter.line else ""
    place = f"<small>{text(letter.file)}{line}</small>" if letter.file else ""
    return f"{picture}{text(letter.key)}<small>{text(letter.message, _MESSAGE)}</small>{place}"


# --- how it was made ------------------------------------------------------------------------------


def _made(report: Report) -> Iterator[str]:
    manifest = report.manifest
    if report.command:
        yield f'<pre tabindex="0"><code>{text(report.command, _COMMAND)}</code></pre>'
    for question in manifest.questions[:_MOST_QUESTIONS]:
        yield f"<p>Accepted with --yes: {text(question, _MESSAGE)}</p>"
    if manifest.roles:
        cells = [[text(row.subject), text(row.values), text(row.role)] for row in manifest.roles]
        yield table(["Part of the input", "Values", "Role"], cells, numeric=False)
    rows = [["seed", text(manifest.seed)]]
    for name, value in manifest.content["options"].items():
        if name != "columns" and value not in (None, {}, [], ""):
            as_text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            rows.append([text(name), text(as_text)])
    if manifest.codec:
        rows.append(["codec", text(manifest.codec, 300)])
    yield _details("Options", table(["Option", "Value"], rows, numeric=False))
    features = [
        [f"<code>{text(row.key)}</code>", row.kind, row.values, text(row.content)]
        for row in islice(feature_rows(manifest), _MOST_FEATURES)
    ]
    heads = ["Feature", "Kind", "Values", "Content"]
    yield _details("Features of an example", table(heads, features, numeric=False))


def _details(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>{body}</details>"


_SECTIONS: Sequence[tuple[str, str, Callable[[Report], Iterator[str]]]] = (
    ("samples", "Random samples", lambda report: sample_grids(report.tiles, report.manifest)),
    ("splits", "Splits and shards", _splits),
    ("classes", "Classes", _classes),
    ("images", "Images", _images),
    ("objects", "Objects", _objects),
    ("labels", "Labels that are numbers", _numbers),
    ("duplicates", "Duplicates", _duplicates),
    ("left-out", "Left out", _left_out),
    ("made", "How it was made", _made),
)
"""Id, title and body of each section; empty ones are left out."""
