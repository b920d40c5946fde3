"""`report.html`: what a data set contains, for people. One page that loads nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from beam_pipeline.core.dataset.duplicates import NO_DUPLICATES, Duplicates, described
from beam_pipeline.core.dataset.manifest import Manifest
from beam_pipeline.core.dead_letters import EXPLANATIONS, DeadLetter
from beam_pipeline.core.records import alteration, image_statistics
from beam_pipeline.core.report import contents, markup, thumbnails
from beam_pipeline.core.report.markup import Html, grouped, html, joined, number, share, table, text
from beam_pipeline.core.report.samples import ShownSample, framed, sample_grids, tile_grid
from beam_pipeline.core.text import enumerated, human_size, span

MOST_BYTES = 5_000_000
"""A report is smaller; sections beyond that are left out, with a sentence in their place."""
_HEAD_BYTES = 100_000  # at least what is around the sections

MOST_CLASSES = 2000
MOST_SPLITS = 50
_SPLIT_COLUMNS = 6
_COMMAND = 4_000  # characters
_MESSAGE = 400
_TURNS = (
    *("", "upright", "mirrored", "upside down", "upside down, mirrored"),
    *("a quarter turn, mirrored", "a quarter turn", "a quarter turn, mirrored", "a quarter turn"),
)
_FEW_VALUES = (
    ("Format", "format", ()),
    ("Channels", "channels", ("", "grey", "grey, alpha", "RGB", "RGB, alpha")),
    ("EXIF orientation", "orientation", _TURNS),
)
"""Title of a table, what it counts, and the names of its values."""

_LENGTHS = (
    ("Width in pixels", "width", number),
    ("Height in pixels", "height", number),
    ("File size", "bytes", human_size),
)
"""Title of a table, the lengths that it counts, and how one is written."""


class LeftOut(NamedTuple):
    """A dead letter that is shown; the thumbnail is None without an image that can be drawn."""

    letter: DeadLetter
    thumbnail: thumbnails.Thumbnail | None


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a report shows.

    Attributes:
      manifest: of the data set.
      statistics: of its images and labels.
      samples: split -> some of its samples.
      left_out: some of the dead letters, in any order.
      command: made the data set; empty if it is not known.
      duplicates: the images that occur several times, as far as they were looked for.
    """

    manifest: Manifest
    statistics: image_statistics.ImageStatistics = image_statistics.NOTHING_COUNTED
    samples: Mapping[str, Sequence[ShownSample]] = field(default_factory=dict)
    left_out: Sequence[LeftOut] = ()
    command: str = ""
    duplicates: Duplicates = NO_DUPLICATES


def report_page(report: Report) -> bytes:
    """The file of a report; the same report has the same bytes."""
    style, script = (contents.template(f"page.{kind}").template for kind in ("css", "js"))
    sections, room = [], MOST_BYTES - _HEAD_BYTES
    for key, title, make in _SECTIONS:
        section = joined(make(report))
        if len(section.encode()) > room:
            section = Html("<p>Left out, as the page would be larger than 5 MB.</p>")
        room -= len(section.encode())
        sections += [(key, title, section)] if section else []
    page = contents.template("page.html").substitute(
        policy=f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'",
        name=text(report.manifest.name),
        style=style,
        script=script,
        head=_head(report.manifest),
        links=joined(html('<li><a href="#{}">{}</a></li>', *section[:2]) for section in sections),
        sections=joined(
            html('<section aria-labelledby="{0}"><h2 id="{0}">{1}</h2>{2}</section>\n', *section)
            for section in sections
        ),
        seal=contents.PLACEHOLDER,
    )
    return contents.sealed(page.encode())


def _hash(content: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"


def _head(manifest: Manifest) -> Html:
    counts = manifest.counts
    figures = {
        "Samples": counts.examples,
        "Splits": len(manifest.splits),
        "Shards": len(manifest.shards),
        "Size": human_size(manifest.bytes),
        "Classes": len(manifest.classes),
        "Images listed": counts.listed_images,
        "Label rows read": counts.label_rows,
        "Samples without a label": counts.unlabelled,
        "Objects dropped": counts.dropped_objects,
        "Left out": counts.dead_letters,
    }
    return _facts({name: figure for name, figure in figures.items() if figure or name == "Samples"})


def _facts(facts: Mapping[str, object]) -> Html:
    """A list of names and values."""
    items = (html("<div><dt>{}</dt><dd>{}</dd></div>", *item) for item in facts.items())
    return html('<dl class="facts">{}</dl>', joined(items))


def _figures(figures: Iterable[object]) -> Html:
    drawn = joined(figures)
    return html('<div class="figures">{}</div>', drawn) if drawn else drawn


# --- splits ---------------------------------------------------------------------------------------


def _splits(report: Report) -> Iterator[Html]:
    splits, examples = [*report.manifest.splits.items()], report.manifest.counts.examples
    rows = [
        (
            *(name, split.examples, share(split.examples, examples)),
            *(human_size(split.bytes), len(split.shards)),
            span(number, [shard.examples for shard in split.shards]),
            span(human_size, [shard.bytes for shard in split.shards]),
        )
        for name, split in splits[:MOST_SPLITS]
    ]
    heads = ["Split", "Samples", "Share", "Size", "Shards", "Samples per shard", "Size of a shard"]
    yield table(heads, rows)
    if len(splits) > MOST_SPLITS:
        yield html("<p>Splits that are not shown: {}</p>", len(splits) - MOST_SPLITS)


# --- classes --------------------------------------------------------------------------------------


def _classes(report: Report) -> Iterator[Html]:
    classes, unit = report.manifest.classes, report.manifest.unit
    if not classes:
        return
    if not unit:
        yield Html("<p>Pixels of masks are not counted.</p>")
        yield table(["Class", "Id"], [(entry.name, entry.id) for entry in classes[:MOST_CLASSES]])
        return
    ordered = sorted(classes, key=lambda entry: (-entry.count, entry.id))
    largest, ends = ordered[0], {"Largest": ordered[0], "Smallest": ordered[-1]}
    yield _facts({name: html("{}: {}", entry.name, entry.count) for name, entry in ends.items()})
    for split, names in [*report.manifest.absent_classes.items()][:_SPLIT_COLUMNS]:
        some = Html(enumerated([text(name, 40) for name in names], 5))
        yield html("<p>{} has none of {}.</p>", split, some)
    half = MOST_CLASSES // 2
    if len(ordered) > MOST_CLASSES:
        ordered = [*ordered[:half], *ordered[-half:]]
        yield html(
            "<p>The table has the {0} largest and the {0} smallest; the others are in "
            "<code>manifest.json</code>.</p>",
            half,
        )
    splits = [*largest.splits][:_SPLIT_COLUMNS] if len(largest.splits) > 1 else []
    rows = [
        (
            *(text(entry.name, 100), str(entry.id), entry.count),
            markup.length_bar(entry.count, largest.count),
            *(entry.splits.get(name, 0) for name in splits),
        )
        for entry in ordered
    ]
    heads = ["Class", "Id", "Objects" if unit == "objects" else "Samples", "", *splits]
    yield html('<div data-table="2">{}</div>', table(heads, rows))


# --- images, objects, numbers ---------------------------------------------------------------------


def _coverage(report: Report) -> Html:
    """Tells how many samples the statistics are about, if not about all."""
    images, examples = report.statistics.images, report.manifest.counts.examples
    note = html("<p>Figures are of {} of {} samples.</p>", images, examples)
    return note if images < examples else Html("")


def _images(report: Report) -> Iterator[Html]:
    statistics = report.statistics
    yield _coverage(report)
    if not statistics.images:
        return
    counts, equal = statistics.counts, statistics.lengths
    yield _facts(
        {title: span(form, (equal[name].low, equal[name].high)) for title, name, form in _LENGTHS}
    )
    sizes = {} if image_statistics.MORE_SIZES in counts["size"] else counts["size"]
    aspects, events = counts["aspect"], report.manifest.counts.images
    done = [(alteration.EVENT_PHRASES.get(name, name), count) for name, count in events.items()]
    figures = [
        markup.counts_table("Width x height", markup.frequent_first(sizes)),
        *(
            markup.counts_table(title, markup.lengths(counts[name], equal[name], form))
            for title, name, form in _LENGTHS
        ),
        markup.counts_table("Width / height", markup.aspects(aspects), note=_shapes(aspects)),
        *(
            markup.counts_table(title, markup.frequent_first(counts[name], names))
            for title, name, names in _FEW_VALUES
        ),
        html("<figure>{}</figure>", table(["What was done", "Number"], done)) if done else "",
    ]
    yield _figures(figures)


def _shapes(aspect_counts: Mapping[int | str, int]) -> str:
    """`60 % wide, 30 % about square, 10 % tall`."""
    total, square = sum(aspect_counts.values()), len(image_statistics.ASPECTS) // 2
    bins = [(key, count) for key, count in aspect_counts.items() if isinstance(key, int)]
    wide = sum(count for key, count in bins if key > square)
    tall = sum(count for key, count in bins if key < square)
    shares = [share(part, total) for part in (wide, total - wide - tall, tall)]
    return "{} wide, {} about square, {} tall".format(*shares)


def _objects(report: Report) -> Iterator[Html]:
    statistics = report.statistics
    boxes = statistics.counts.get("boxes")
    if not boxes:
        return
    yield _coverage(report)
    sizes, per_image = statistics.counts["box_size"], statistics.lengths["boxes"]
    total, empty = sum(sizes.values()), boxes.get(0, 0)
    facts = {
        "Boxes": total,
        "Per image": f"{total / statistics.images:.3g} on average, {number(per_image.high)} at most",
        "Images without": f"{number(empty)}, {share(empty, statistics.images)}",
    }
    yield _facts(facts)
    note = "In pixels: the side of a square of the same area"
    figures = [
        markup.counts_table("Boxes per image", markup.lengths(boxes, per_image)),
        markup.counts_table("Sizes of boxes", markup.lengths(sizes), of="boxes", note=note),
        markup.heat_map(statistics.counts["box_place"]),
    ]
    yield _figures(figures)


def _numbers(report: Report) -> Iterator[Html]:
    figures = []
    for feature, histogram in sorted(report.statistics.numbers.items()):
        if histogram.bins:
            note = f"{grouped(histogram.values, 'value')}, {span(number, (histogram.low, histogram.high))}"
            if histogram.not_finite:
                note += f"; not finite: {number(histogram.not_finite)}"
            bins = markup.in_bins(histogram)
            figures.append(markup.counts_table(feature, bins, of="values", note=note))
    yield _figures(figures)


def _duplicates(report: Report) -> Iterator[Html]:
    duplicates = report.duplicates
    if duplicates.groups:
        compared = f"{grouped(duplicates.images_compared, 'image')} compared."
        for line in (compared, *described(duplicates)):
            yield html("<p>{}</p>", text(line, _MESSAGE))
        groups = (
            html("<li>{}</li>", ", ".join(f"{image.key} ({image.split})" for image in group.shown))
            for group in duplicates.examples
        )
        yield html("<ul>{}</ul>", joined(groups))


# --- dead letters ---------------------------------------------------------------------------------


def _left_out(report: Report) -> Iterator[Html]:
    reasons, counts = report.manifest.dead_letters, report.manifest.counts
    if not reasons:
        yield Html("<p>Nothing was left out.</p>")
    else:
        dropped = counts.dropped_objects
        rows_and_images = sum(reasons.values()) - dropped
        yield html(
            "<p>{} became no sample.{} <code>dead_letters.jsonl</code> lists all of them.</p>",
            grouped(rows_and_images, "image or label row/images or label rows"),
            f" {grouped(dropped, 'object')} of samples had no area." if dropped else "",
        )
        ordered = sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))
        rows = [
            (html("<code>{}</code>: {}", reason, text(EXPLANATIONS.get(reason, ""), 200)), count)
            for reason, count in ordered
        ]
        yield markup.counts_table("Reason", rows, of="number")
        for reason, _ in ordered:
            items = [
                _dead_letter(*item) for item in report.left_out if item.letter.reason == reason
            ]
            if items:
                yield html("<h3><code>{}</code></h3>{}", reason, tile_grid(items, 4, "letters"))
    if counts.ignored_files:
        some = [*counts.ignored_files.items()][:20]
        passed = joined((html("{} {}", count, text(kind, 40)) for kind, count in some), ", ")
        yield html("<p>Files that were not listed, by extension: {}.</p>", passed)
    if counts.label_rows_repeated:
        yield html("<p>Label rows that repeat others: {}.</p>", counts.label_rows_repeated)


def _dead_letter(letter: DeadLetter, thumbnail: thumbnails.Thumbnail | None) -> Html:
    line = f", line {letter.line}" if letter.line else ""
    place = html("<small>{}{}</small>", letter.file, line) if letter.file else ""
    picture = framed(thumbnail, letter.key) if thumbnail else ""
    message = text(letter.message, _MESSAGE)
    return html("{}{}<small>{}</small>{}", picture, letter.key, message, place)


# --- how it was made ------------------------------------------------------------------------------


def _made(report: Report) -> Iterator[Html]:
    manifest = report.manifest
    if report.command:
        yield html('<pre tabindex="0"><code>{}</code></pre>', text(report.command, _COMMAND))
    for question in manifest.questions:
        yield html("<p>Accepted with --yes: {}</p>", text(question, _MESSAGE))
    if manifest.roles:
        parts = [(row.subject, row.values, row.role) for row in manifest.roles]
        yield table(["Part of the input", "Values", "Role"], parts, numeric=False)


_SECTIONS: Sequence[tuple[str, str, Callable[[Report], Iterator[Html]]]] = (
    ("samples", "Random samples", lambda report: sample_grids(report.samples, report.manifest)),
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
