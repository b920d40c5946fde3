"""The parts of `inspect`: examples of any TFRecords, conditions, statistics, and how they are shown."""

from __future__ import annotations

import gzip
import io
import math
import tracemalloc
import zlib
from typing import Any

import pytest

from beam_pipeline.core.errors import DamagedRecordError, UsageError
from beam_pipeline.core.records.example_view import MOST_FEATURES, FeatureList, Features
from beam_pipeline.core.records.tfrecord import frame_header
from beam_pipeline.inspection import select, show, sources
from tests.beam_pipeline.readers.by_hand import framed
from tests.core.records.fixtures import record_of
from tests.pictures import picture
from tests.rows import in_rows

EXAMPLE: dict[str, Any] = {"b": [b"x", b"y"], "f": [0.5], "i": [3, -1], "none": []}
PNG = picture(file_format="PNG")
compressions = pytest.mark.parametrize("compress", [bytes, gzip.compress])


def of(*values: Any) -> FeatureList:
    """A list of the kind of its values."""
    kinds = {bytes: "bytes", float: "float", int: "int64"}
    return FeatureList(kinds[type(values[0])] if values else "", list(values))


def read(content: bytes, most: int = 1 << 20) -> list[tuple[int, dict[str, tuple[str, list[Any]]]]]:
    return [
        (len(record), {key: (found.kind, list(found.values)) for key, found in features.items()})
        for number, record in enumerate(sources.records_of(io.BytesIO(content), "f", most))
        for features in [sources.parsed(record, "f", number)]
    ]


@compressions
def test_each_compression_is_known_by_the_first_bytes(compress: Any) -> None:
    """File names say nothing reliable about it; an empty file has no example."""
    assert read(b"") == []
    record = record_of(EXAMPLE)
    content = compress(framed(record) + framed(record_of({"i": [4]})))
    lists = {"b": ("bytes", [b"x", b"y"]), "f": ("float", [0.5]), "i": ("int64", [3, -1])}
    expected = {**lists, "none": ("bytes", [])}
    assert read(content) == [(len(record), expected), (14, {"i": ("int64", [4])})]


def test_a_record_whose_length_begins_like_gzip_is_plain() -> None:
    """The first bytes of its header are those of a gzip file."""
    content = framed(record_of({"b": [b"x" * (0x8B1F - 23)]}))
    assert content[:2] == b"\x1f\x8b"
    assert len(read(content)) == 1


@compressions
def test_a_file_that_is_cut_short_is_damaged(compress: Any) -> None:
    """Wherever it is cut, and in every compression."""
    content = compress(framed(record_of(EXAMPLE)))
    for end in range(13, len(content)):
        with pytest.raises(DamagedRecordError):
            read(content[:end])


NO_FILE = "f is not a TFRecord file, plain or compressed with gzip, or its first record is damaged"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"x", NO_FILE),
        (b"PK\x03\x04 a zip file", NO_FILE),
        (zlib.compress(framed(record_of(EXAMPLE))), NO_FILE),
        (
            framed(record_of(EXAMPLE)) + framed(b"some text"),
            "f: record 1 is not a tf.train.Example",
        ),
        (framed(b"\x1a\x02xy"), "it lacks features"),
        (frame_header(3 << 30) + bytes(99), "it claims 3221225472 bytes, expected 1048576 at"),
        (frame_header((1 << 20) + 1), "it claims 1048577 bytes, expected 1048576 at"),
    ],
)
def test_what_is_no_example_is_named(content: bytes, message: str) -> None:
    """By its number; one that claims too much is not read."""
    with pytest.raises(DamagedRecordError) as raised:
        read(content)
    assert message in str(raised.value)


@pytest.mark.promise("bombs")
def test_a_compressed_record_takes_no_more_memory_than_one_may_have() -> None:
    """50 MB of zeros, in 50 kB, after the header of a record that may have 1 MiB."""
    content = gzip.compress(frame_header(1 << 20) + bytes(50_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(DamagedRecordError):
            read(content)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_a_large_record_of_many_features_is_refused() -> None:
    """Each feature of ten bytes would take a hundred in memory."""
    features = {f"f{i:0200}": [i] for i in range(MOST_FEATURES + 1)}
    with pytest.raises(DamagedRecordError, match="f: record 7 has more than 10000 features"):
        sources.parsed(record_of(features), "f", 7)
    del features[f"f{0:0200}"]
    assert len(sources.parsed(record_of(features), "f", 7)) == MOST_FEATURES
    with pytest.raises(
        DamagedRecordError, match=r"f: record 0 is not a .*: a field of wire type 0"
    ):
        sources.parsed(b"\x08\x01" * (1 << 20), "f", 0)
    with pytest.raises(DamagedRecordError, match="f: record 0 is not a "):
        sources.parsed(b"\xff" * (2 << 20), "f", 0)


# --- select ----------------------------------------------------------------------------------


SELECT_EXAMPLE = {
    "image/width": of(200),
    "score": of(0.5),
    "big": of(2**60 + 1),
    "format": of(b"png"),
    "colour": of(b"light blue"),
    "tags": of(b"a", b"b"),
    "x": of(1.0, 9.0),
    "empty": of(),
    "a b": of(1),
}


@in_rows
def test_a_condition_holds_or_fails(text: str, holds: bool) -> None:
    """Numbers are compared as numbers, texts as texts; one value of a list is enough, and no value meets nothing."""
    found = all(condition.holds(SELECT_EXAMPLE) for condition in select.parse_conditions(text))
    assert found == holds


def test_quotes_keep_operators_and_the_word_and() -> None:
    """They are taken off; nothing else in a value has a meaning."""
    assert select.parse_conditions("a='x and y<3' and b>=$(id)") == (
        select.Condition("a", "=", "x and y<3"),
        select.Condition("b", ">=", "$(id)"),
    )


@in_rows
def test_what_cannot_be_read_is_shown(text: str, message: str) -> None:
    """With what was expected instead."""
    with pytest.raises(UsageError) as raised:
        select.parse_conditions(text)
    assert message in str(raised.value)


def test_conditions_of_very_many_characters_are_refused() -> None:
    """Before they are taken apart."""
    message = r"^--where has 10002 characters; expected 10000 at most$"
    with pytest.raises(UsageError, match=message):
        select.parse_conditions("a=" + "x" * 10_000)


def figures_of(*lists: FeatureList) -> select.FeatureFigures:
    figures = select.FeatureFigures()
    for found in lists:
        figures.add(found)
    return figures


def test_statistics_of_numbers() -> None:
    """A range and a mean over all values of all examples; what is not finite is counted apart, as one NaN would make
    all of it NaN; a feature of other programs may have two kinds, or none."""
    found = figures_of(of(3, -1), FeatureList("int64", []), of(10))
    assert (found.low, found.high, found.mean, found.kinds.total()) == (-1, 10, 4.0, 3)
    assert (found.shortest, found.longest) == (0, 2)
    found = figures_of(of(0.5, math.nan, math.inf, 1.5))
    assert (found.low, found.high, found.mean, found.not_finite) == (0.5, 1.5, 1.0, 2)
    nothing = figures_of(of(math.nan))
    assert (nothing.values, nothing.not_finite) == (0, 1)
    assert math.isnan(nothing.mean)
    assert figures_of(of(1), of(b"one"), of()).kinds == {"int64": 1, "bytes": 1, "": 1}


def test_statistics_of_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are kept up to a number; other bytes have a length alone."""
    monkeypatch.setattr(select, "MOST_TEXTS", 2)
    few = figures_of(of(b"b"), of(b"a"), of(b"b"))
    assert (few.texts, few.text) == ({b"a", b"b"}, "b")
    assert figures_of(*(of(b"%d" % i) for i in range(100))).texts == {b"0", b"1", b"2"}
    for odd in (b"\xff\xd8", b"x" * 201, b"a\0b"):
        found = figures_of(of(b"a"), of(odd))
        assert (found.texts, found.text, found.low, found.high) == (None, "", 1, len(odd))


def test_features_and_classes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are left out are counted."""
    monkeypatch.setattr(select, "MOST_FEATURES", 2)
    monkeypatch.setattr(select, "MOST_CLASSES", 1)
    figures = select.Scan()
    for number in range(3):
        figures.add("train", {f"{number}{i}": of(1) for i in range(2)}, [str(number)])
    assert set(figures.features) == {"00", "01"}
    assert figures.classes == {"0": {"train": 1}}
    assert figures.left_out == {"features": 4, "classes": 2}
    assert figures.examples == {"train": 3}


def test_classes_are_named_by_texts_ids_or_a_list_of_names() -> None:
    """As ours, TFDS's and other programs' examples have them."""
    naming = sources.Source("", (), {1: "cat"})
    ids = {"label": of(1, 2, 1)}
    for features, names in (
        ({"image/class/text": of(b"dog")}, ["dog"]),
        ({"image/object/class/text": of(b"a", b"b", b"a")}, ["a", "b"]),
        (ids, ["cat", "2"]),
        ({"label": of(0.5)}, []),
        ({"label": of(b"\xff")}, []),
    ):
        assert naming.classes_of(features) == names
    assert [n for n in ("cat", "1", "2", "dog") if naming.has_class(ids, n)] == ["cat", "1", "2"]


def test_keys_are_found_under_usual_names() -> None:
    """Ours first."""
    features = {"id": of(7), "image/source_id": of(b"a.jpg"), "filename": of(b"x", b"y")}
    assert sources.Source("", ()).keys_of(features) == ["a.jpg", "7"]


@pytest.mark.parametrize(
    ("key", "heading"),
    [(b"cat.jpg", "cat.jpg, a.tfrecord, record 3"), (b"", "a.tfrecord, record 3")],
)
def test_an_example_is_headed_by_its_key_if_it_has_one(
    key: bytes, heading: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other programs write empty keys."""
    file = sources.RecordFile("/data/a.tfrecord", "", 9)
    example = select.FoundExample(file, 3, 9, {"image/source_id": of(key)})
    show.Screen().example(sources.Source("", (file,)), example)
    assert capsys.readouterr().out.splitlines()[0] == heading


# --- show ------------------------------------------------------------------------------------


PIXELS = {"image/encoded": of(bytes(18)), "image/height": of(2), "image/width": of(3)}


@in_rows
def test_bare_pixels_are_known_by_their_number(changes: dict[str, Any], found: Any) -> None:
    """height x width x 3 bytes, as --image_encoding raw writes them."""
    changed = {f"image/{key}": of(*values) for key, values in changes.items()}
    assert show.bare_pixels_of({**PIXELS, **changed}) == found


def test_the_image_of_an_example() -> None:
    """In a usual feature, or in the first that is one; a mask beside it is not shown in its place."""
    assert show.image_of({"a_mask": of(b"x"), "image": of(PNG)}) == PNG
    assert show.image_of({"x": of(1), "y": of(PNG)}) == PNG
    assert show.image_of({"x": of(PNG, PNG)}) is None
    assert show.bare_pixels_of({}) is None
    assert show.value_text(of(PNG)) == f"{len(PNG)} bytes (png)"


@in_rows
def test_values_are_shown(values: list[Any], text: str) -> None:
    """Texts as they are, other bytes by their number, long lists cut."""
    assert show.value_text(of(*values)) == text


@in_rows
def test_values_in_json(kind: str, values: list[Any], value: Any) -> None:
    """One value is itself; JSON has no bytes, NaN and infinities."""
    assert show.json_value(FeatureList(kind, values)) == value
    assert show.json_value(of(math.nan)) == "nan"


@in_rows
def test_a_key_names_a_file_of_the_folder_itself(key: str, name: str) -> None:
    """Whatever it contains; the number makes it unique."""
    assert show.safe_name(7, key, "jpg") == name


@in_rows
def test_tables_fit_a_terminal(
    headings: tuple[str, ...], rows: Any, align: str, columns: int, lines: list[str]
) -> None:
    """Numbers at the right; no space at the end of a line; control characters do not move the cursor; wide characters
    take two columns; the last cell is cut where the line ends, and not in a pipe, which has 0 columns."""
    assert show.table_lines(show.Table(headings, rows, align), columns) == lines


@in_rows
def test_a_text_is_cut_to_a_number_of_columns(text: str, columns: int, cut: str) -> None:
    """Never in the middle of a wide character; accents that follow a letter take none."""
    assert show.fitted(text, columns) == cut
    assert show.display_width(cut) <= columns


@in_rows
def test_terminals_are_told_by_their_variables(
    variables: dict[str, str], encoding: str, colour: str | None
) -> None:
    """In doubt, 256 colours; no picture without colours or in another encoding."""
    function = show.colour_of(variables, encoding)
    assert (function and function(250, 1, 2)) == colour


def example(data: bytes, **more: list[int]) -> Features:
    return {"image/encoded": of(data), **{f"image/{key}": of(*n) for key, n in more.items()}}


def pixels(*rows: list[tuple[int, int, int]]) -> Features:
    """An example of bare pixels."""
    data = b"".join(bytes(pixel) for row in rows for pixel in row)
    return example(data, height=[len(rows)], width=[len(rows[0])])


BLOCK = "\N{UPPER HALF BLOCK}"


def test_half_blocks_show_two_pixels_each() -> None:
    """The upper one in the foreground's colour, the lower one in the background's; text beside keeps its column."""
    red, blue, grey = (255, 0, 0), (0, 0, 255), (95, 95, 95)
    picture = pixels([red, blue], [blue, red], [grey, grey])
    space = " " * (show.COLUMNS - 2)
    assert show.beside(picture, ["a"], show.true_colour) == [
        f"\x1b[38;2;255;0;0;48;2;0;0;255m{BLOCK}\x1b[38;2;0;0;255;48;2;255;0;0m{BLOCK}\x1b[0m{space}  a",
        f"\x1b[38;2;95;95;95m{BLOCK}\x1b[38;2;95;95;95m{BLOCK}\x1b[0m",
    ]
    lines = show.beside(pixels([red], [grey]), ["a", "b"], show.cube_colour)
    assert lines[0].startswith(f"\x1b[38;5;196;48;5;59m{BLOCK}\x1b[0m")
    assert lines[1] == " " * show.COLUMNS + "  b"


@pytest.mark.parametrize(
    ("size", "cells"), [((200, 10), (24, 1)), ((10, 200), (1, 12)), ((1, 1), (1, 1))]
)
def test_images_are_scaled_into_the_picture(size: tuple[int, int], cells: tuple[int, int]) -> None:
    """In their own shape, 24 pixels wide or high."""
    lines = show.beside(example(picture(3, size=size)), [], show.true_colour)
    assert (lines[0].count(BLOCK), len(lines)) == cells


def test_what_cannot_be_decoded_has_no_picture() -> None:
    """Half a file, a bomb, no image: the text is shown alone."""
    png = picture(file_format="PNG", size=(50, 50))
    bomb = png[:16] + (60_000).to_bytes(4, "big") * 2 + png[24:]
    for data in (png[: len(png) // 2], bomb, b"cat", b""):
        assert show.beside(example(data), ["a"], show.true_colour) == ["a"]
