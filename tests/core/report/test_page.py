"""The page of a report and its tables: what they say, and that text from data stays in its place."""

from __future__ import annotations

import dataclasses
import html as escapes
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from beam_pipeline.core.dataset.duplicates import Duplicates
from beam_pipeline.core.dataset.manifest import Manifest
from beam_pipeline.core.dead_letters import DeadLetter, Reason
from beam_pipeline.core.images.header import ImageHeader
from beam_pipeline.core.labels import roles
from beam_pipeline.core.labels.schema import ColumnKind, further_column, object_columns
from beam_pipeline.core.records.image_statistics import (
    ImageStatistics,
    StatisticsGatherer,
    histogram_of,
)
from beam_pipeline.core.report import contents, thumbnails
from beam_pipeline.core.report.markup import (
    MOST_BINS,
    Html,
    counts_table,
    html,
    in_bins,
    text,
)
from beam_pipeline.core.report.page import MOST_CLASSES, LeftOut, Report, report_page
from beam_pipeline.core.report.samples import MOST_BOXES, ShownBox, ShownSample
from tests.core.dataset.fixtures import group, manifest_with

DOT = thumbnails.Thumbnail("data:image/png;base64,aa", 9, 7)
LETTER = DeadLetter("join", "b.jpg", "/photos/b.jpg", "unlabelled", "no row")


def manifest_of(
    splits: Mapping[str, int],
    classes: Mapping[str, int] | None = None,
    dead: Mapping[str, int] | None = None,
    shards: int = 1,
    **more: Any,
) -> Manifest:
    """The manifest of a data set: split -> samples, class -> samples, reason -> dead letters."""
    dead = dead or {}
    entries = {}
    for name, count in splits.items():
        held = [{"path": f"x-{i}", "examples": count // shards, "bytes": 9} for i in range(shards)]
        entries[name] = {"examples": count, "bytes": 9 * shards, "shards": held}
    first = next(iter(splits))
    counted = [
        {
            "id": number,
            "name": name,
            "examples": count,
            "splits": {split: count if split == first else 0 for split in splits},
        }
        for number, (name, count) in enumerate((classes or {}).items())
    ]
    entries_of_all = {
        "options": {"compression": "none", "layout": "table", "splits": None},
        "features": {"image/encoded": {"kind": "bytes", "optional": False, "shape": []}},
        "splits": entries,
        "classes": counted,
        "counts": {
            "listed_images": sum(splits.values()) + sum(dead.values()),
            "examples": sum(splits.values()),
            "dead_letters": sum(dead.values()),
        },
        "dead_letters": dict(dead),
    }
    return manifest_with(**{**entries_of_all, **more})


def statistics_of(images: int, boxes: int = 0) -> ImageStatistics:
    """Statistics of some images, each with so many boxes and a number."""
    gatherer = StatisticsGatherer(
        (*object_columns(pixels=True), further_column("score", ColumnKind.FLOAT))
    )
    for i in range(images):
        found = tuple((x % 90, i % 90, x % 90 + 9.5, i % 90 + 5, 1) for x in range(boxes))
        gatherer.add(ImageHeader("png", 100 + i, 100, 3), 99 + i, (found, (), i / 3))
    return gatherer.statistics()


def repeated(key: str) -> Duplicates:
    """Twenty groups of two images of the same bytes, in two splits."""
    return Duplicates(99, 40, 20, 20, 20, 0, (group(("test", key), ("train", key)),) * 20)


def body(page: bytes) -> ElementTree.Element:
    """The body of a page, which is well-formed XML: no text from data has opened or closed an element."""
    text = page.decode()
    start, end = text.index("<body>"), text.index("</body>")
    return ElementTree.fromstring(text[start : end + len("</body>")])


def whole() -> Report:
    """A report with something in every section."""
    options: dict[str, Any] = {"layout": "table", "splits": None, "shards": {"train": 2}}
    options["columns"] = [{"name": "y", "kind": "int64", "feature": "label/y"}]
    manifest = manifest_of(
        {"train": 5, "test": 1},
        {"cat": 3, "dog": 1, "<b>": 2},
        {"unlabelled": 2, "bad_row": 1, "empty_box": 3},
        shards=2,
        options={"compression": "none", **options},
        counts={
            "listed_images": 9,
            "label_rows": 8,
            "label_rows_repeated": 1,
            "dropped_objects": 3,
            "examples": 6,
            "dead_letters": 6,
            "unlabelled": 1,
            "ignored_files": {".txt": 1200},
            "images": {"resized": 4, "unheard_of": 1},
        },
        questions=["one folder is 2/3 of all"],
        codec="Pillow 1",
    )
    boxes = (ShownBox(0.1, 0.2, 0.5, 0.9, "cat"), ShownBox(-1.0, 0.0, 2.0, 1.0, "dog"))
    labels = (("class", "cat"), ("y", "7"))
    sample = ShownSample("a.jpg", DOT, labels, boxes, 1002, [DOT])
    row = DeadLetter("labels", "", "", "bad_row", "3 fields", "/l.csv", 7)
    return Report(
        manifest=dataclasses.replace(
            manifest, roles=(roles.RoleRow("folder 1", "folders", 2, "cat", "class"),)
        ),
        statistics=statistics_of(5, boxes=2),
        samples={"train": [sample] * 4, "test": [ShownSample("b")]},
        left_out=[LeftOut(LETTER, DOT), LeftOut(row, None)],
        command="beam-tfrecord convert --images photos",
        duplicates=repeated("b.jpg"),
    )


GOLDEN = Path(__file__).with_name("report_body.html")


def test_a_report_is_this_page() -> None:
    """All of its body but the script; to write it anew: `python -m tests.core.report.test_page`."""
    assert shown(whole()) == GOLDEN.read_text(encoding="utf-8")


def shown(report: Report) -> str:
    """The body of a page without its script, a line for each element."""
    text = report_page(report).decode()
    return text[text.index("<body>") : text.index("<script>")].replace("><", ">\n<")


@given(st.text(min_size=1))
def test_text_from_data_stays_text(name: str) -> None:
    """Of classes, splits, keys, messages, commands and duplicates."""
    evil = f"<script>{name}</script>&'\""
    letter = DeadLetter("join", evil, evil, "unlabelled", evil, evil, 3)
    boxes = (ShownBox(0.0, 0.0, 1.0, 1.0, evil),)
    sample = ShownSample(evil, DOT, ((evil, evil), ("class", evil)), boxes, 1)
    options = {"compression": "none", "name": evil}
    more = {"name": evil, "options": options, "questions": [evil]}
    report = Report(
        manifest=manifest_of({evil: 2}, {evil: 2}, {"unlabelled": 1}, **more),
        samples={evil: [sample]},
        left_out=[LeftOut(letter, DOT)],
        command=evil,
        duplicates=repeated(evil),
    )
    page = report_page(report)
    scripts = body(page).findall(".//script")
    assert len(scripts) == 1
    assert not re.search(rb"[\x00-\x09\x0b-\x1f]", page)
    assert page.count(b"<script") == page.count(b"</script>") == 1


def test_secrets_of_urls_are_left_out() -> None:
    """In commands and in keys."""
    signed = "https://me:pw@host/a.csv?X-Goog-Signature=5e3c"
    letter = LETTER._replace(key=signed, message=f"see {signed}", file=signed)
    report = Report(
        manifest=manifest_of({"train": 1}, dead={"unlabelled": 1}),
        left_out=[LeftOut(letter, None)],
        command=f"beam-tfrecord convert --labels '{signed}'",
    )
    page = report_page(report)
    assert b"5e3c" not in page
    assert b"pw@" not in page
    assert page.count(b"https://...@host/a.csv?...") == 4


def test_a_page_allows_nothing_but_what_it_holds() -> None:
    """Its policy names its own script and style sheet; there is no address in it."""
    report = Report(manifest=manifest_of({"train": 1}), statistics=statistics_of(1))
    page = report_page(report).decode()
    (policy,) = re.findall('Content-Security-Policy" content="(.*?)"', page)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "http" not in page.replace("http-equiv", "")
    assert contents.is_unchanged(report_page(report))


def test_all_texts_of_a_page_can_be_reached() -> None:
    """What scrolls takes the focus; headings of columns have their role; pictures have texts."""
    classes = {f"class {i}": i for i in range(30)}
    report = Report(
        manifest=manifest_of({"train": 9, "test": 2}, classes),
        statistics=statistics_of(30, boxes=2),
        samples={"train": [ShownSample("a.jpg", DOT)]},
    )
    found = body(report_page(report))
    assert all(div.get("tabindex") == "0" for div in found.findall(".//div[@class='wide']"))
    assert all(th.get("scope") for th in found.findall(".//th"))
    assert all(img.get("alt") for img in found.findall(".//img"))
    svgs = found.findall(".//svg")
    assert svgs
    assert all(svg.get("aria-label") or svg.get("aria-hidden") == "true" for svg in svgs)


def full(classes: int, splits: int, evil: str, boxes: int) -> Report:
    """A report with as much of everything as a data set can have."""
    names = {f"{i}{evil * 20}": classes - i for i in range(classes)}
    split_names = [f"s{i}{evil}" for i in range(splits)]
    drawn = tuple(ShownBox(0.1, 0.1, 0.9, 0.9, f"{i}{evil * 9}") for i in range(MOST_BOXES))
    picture = thumbnails.Thumbnail(f"data:image/jpeg;base64,{'a' * 32_000}", 160, 120)
    sample = ShownSample(evil * 99, picture, ((evil * 9, evil * 99),) * 9, drawn, 10**6)
    letter = LeftOut(LETTER._replace(message=evil * 999), picture)
    shown = [letter._replace(letter=letter.letter._replace(reason=r.value)) for r in Reason]
    return Report(
        manifest=manifest_of(
            dict.fromkeys(split_names, 99), names, {r.value: 9 for r in Reason}, shards=50
        ),
        statistics=statistics_of(60, boxes),
        samples={name: [sample] * 4 for name in split_names[:6]},
        left_out=shown[:16],
        command=evil * 9999,
        duplicates=repeated(evil * 99),
    )


def test_a_page_is_small_whatever_the_data_set() -> None:
    """1,000 classes and 100,000 boxes; and far more of everything, of text that takes most room."""
    many = report_page(full(1000, 2, "x", boxes=1700))
    assert len(many) < 2_500_000
    assert many.count(b"data:image/jpeg") == 2 * 3 + 16
    most = report_page(full(5000, 60, '"', boxes=0))
    assert len(most) < 5_000_000
    assert most.count(b"<tr><th") < MOST_CLASSES + 1500


def test_a_section_that_would_make_the_page_too_large_is_left_out() -> None:
    """A sentence tells so in its place; the other sections are there."""
    report = full(10, 2, "x", boxes=0)
    questions = tuple(f"{i}{'x' * 300}" for i in range(20_000))
    manifest = dataclasses.replace(report.manifest, questions=questions)
    page = report_page(dataclasses.replace(report, manifest=manifest))
    assert len(page) < 2_000_000
    assert page.count(b"Left out, as the page would be larger than 5 MB.") == 1
    assert page.count(b"<section") == report_page(report).count(b"<section")


@given(st.integers(0, 3), st.integers(0, 3))
def test_small_data_sets_have_a_page(samples: int, dead: int) -> None:
    """Nothing is divided by the number of nothing."""
    report = Report(
        manifest=manifest_of(
            {"train": samples}, {"cat": samples}, {"unlabelled": dead} if dead else {}
        ),
        statistics=statistics_of(samples, boxes=dead),
    )
    body(report_page(report))


def test_a_page_has_the_same_bytes_whatever_the_order_of_counts() -> None:
    """Shards end in any order."""
    one = statistics_of(30, boxes=2)
    other = ImageStatistics(
        one.images,
        *(
            {
                name: dict(reversed(part.items())) if isinstance(part, dict) else part
                for name, part in reversed(parts.items())
            }
            for parts in (one.counts, one.lengths, one.numbers)
        ),
    )
    manifest = manifest_of({"train": 30})
    pages = [report_page(Report(manifest=manifest, statistics=found)) for found in (one, other)]
    assert pages[0] == pages[1]


# --- Tables and text in HTML: well-formed; nothing from data is markup


def cells(figure: str) -> list[list[str]]:
    """The texts of the table in a figure, a row each."""
    rows = ElementTree.fromstring(figure).findall(".//tbody/tr")
    return [["".join(cell.itertext()) for cell in row] for row in rows]


def test_numbers_that_are_not_finite_are_counted_below_a_table() -> None:
    """A column of them alone has no table."""
    numbers = {"label/a": histogram_of([1.0, 4.0, math.nan]), "label/b": histogram_of([math.nan])}
    usual = statistics_of(3)
    statistics = ImageStatistics(3, usual.counts, usual.lengths, numbers)
    page = report_page(Report(manifest=manifest_of({"train": 3}, {}), statistics=statistics))
    assert b"2 values, 1 to 4; not finite: 1" in page
    assert b"label/b" not in page


def test_numbers_are_counted_in_few_bins() -> None:
    """Whole numbers one by one while there are few, with a gap where none is."""
    table = counts_table("A", in_bins(histogram_of([1, 2, 2, 4])))
    assert cells(table)[1:] == [
        ["2", "2", "50 %", ""],
        ["3", "0", "0 %", ""],
        ["4", "1", "25 %", ""],
    ]
    assert 10 < len(in_bins(histogram_of([i / 7 for i in range(1000)]))) <= MOST_BINS


def test_values_are_escaped_once_where_they_enter() -> None:
    """Those that are HTML already are not."""
    assert html("<b>{}{}</b>", "<", Html("<i/>")) == html("{}", html("<b>{}<i/></b>", "<"))
    assert html("{} {}", 12345, 0.25) == "12,345 0.25"


@given(st.text())
def test_no_text_leaves_its_place(value: str) -> None:
    """Nothing of it is markup, nor moves a cursor, nor turns the reading direction."""
    shown = text(value)
    assert not set(shown) & set("<>\"'\x00\x1b\n\r\u202e\u2028")
    assert len(escapes.unescape(shown)) <= 120


def test_how_texts_are_shown() -> None:
    """Escaped, on one line, without secrets, shortened."""
    assert text("<script>") == "&lt;script&gt;"
    assert text('a"b\x1b[2J') == "a&quot;b\\x1b[2J"
    assert text("https://me:pw@host/a.jpg?X-Goog-Signature=5e3c") == "https://...@host/a.jpg?..."
    assert text("x" * 5000, 10) == "x" * 9 + "…"
    assert text("\udc80") == "\\udc80"


if __name__ == "__main__":
    GOLDEN.write_text(shown(whole()), encoding="utf-8")
