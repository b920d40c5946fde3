"""The parts of `inspect`: examples of any TFRecords, conditions, figures, and how they are shown."""

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
from beam_pipeline.core.records.tfrecord import (
    crc32c_extend,
    frame_footer,
    frame_header,
)
from beam_pipeline.inspection import select, show, sources
from beam_pipeline.inspection.select import (
    Condition,
    FeatureFigures,
    FoundExample,
    Scan,
    parse_conditions,
)
from tests.core.records.fixtures import record_of
from tests.pictures import picture

EXAMPLE: dict[str, Any] = {"b": [b"x", b"y"], "f": [0.5], "i": [3, -1], "none": []}


def framed(data: bytes) -> bytes:
    return frame_header(len(data)) + data + frame_footer(crc32c_extend(0, data))


def read(content: bytes, most: int = 1 << 20) -> list[tuple[int, dict[str, tuple[str, list[Any]]]]]:
    return [
        (size, {key: (found.kind, list(found.values)) for key, found in features.items()})
        for size, features in sources.read_examples(io.BytesIO(content), "f", most)
    ]


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zlib.compress])
def test_each_compression_is_known_by_the_first_bytes(compress: Any) -> None:
    """File names say nothing reliable about it; an empty file holds no example."""
    assert read(b"") == []
    record = record_of(EXAMPLE)
    content = compress(framed(record) + framed(record_of({"i": [4]})))
    lists = {"b": ("bytes", [b"x", b"y"]), "f": ("float", [0.5]), "i": ("int64", [3, -1])}
    expected = {**lists, "none": ("bytes", [])}
    assert read(content) == [(len(record), expected), (14, {"i": ("int64", [4])})]


@pytest.mark.parametrize("content", [b"x", b"PK\x03\x04 a zip file", b"id,label\n1,cat\n"])
def test_other_files_are_told_apart(content: bytes) -> None:
    """The message shows how they begin."""
    with pytest.raises(DamagedRecordError, match="f is no TFRecord file, or its first record is"):
        read(content)


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zlib.compress])
def test_a_file_that_is_cut_short_is_damaged(compress: Any) -> None:
    """Wherever it is cut, and in every compression."""
    content = compress(framed(record_of(EXAMPLE)))
    for end in range(13, len(content)):
        with pytest.raises(DamagedRecordError):
            read(content[:end])


def test_records_that_are_no_examples_are_named_by_their_number() -> None:
    """Text in TFRecord framing, say."""
    with pytest.raises(DamagedRecordError, match=r"f: record 1 is not a tf\.train\.Example"):
        read(framed(record_of(EXAMPLE)) + framed(b"some text"))
    with pytest.raises(DamagedRecordError, match=r"record 0 .* it lacks features"):
        read(framed(b"\x1a\x02xy"))


def test_a_record_that_claims_too_much_is_not_read() -> None:
    """Neither 3 GiB nor, where less is allowed, a megabyte."""
    with pytest.raises(DamagedRecordError, match="it claims 3221225472 bytes, an example has less"):
        read(frame_header(3 << 30) + b"x" * 100, most=3 << 20)
    with pytest.raises(DamagedRecordError, match="it claims 1048577 bytes, expected 1048576 at"):
        read(frame_header((1 << 20) + 1))


@pytest.mark.promise("bombs")
@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress])
def test_a_compressed_record_takes_no_more_memory_than_one_may_have(compress: Any) -> None:
    """50 MB of zeros, in 50 kB, behind the header of a record that may have 1 MiB."""
    content = compress(frame_header(1 << 20) + bytes(50_000_000))
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
    with pytest.raises(DamagedRecordError, match="f: record 0 is not a "):
        sources.parsed(b"\xff" * (2 << 20), "f", 0)


# --- select ----------------------------------------------------------------------------------


SELECT_EXAMPLE = {
    "image/width": FeatureList("int64", [200]),
    "score": FeatureList("float", [0.5]),
    "big": FeatureList("int64", [2**60 + 1]),
    "format": FeatureList("bytes", [b"png"]),
    "colour": FeatureList("bytes", [b"light blue"]),
    "tags": FeatureList("bytes", [b"a", b"b"]),
    "x": FeatureList("float", [1.0, 9.0]),
    "empty": FeatureList("", []),
    "a b": FeatureList("int64", [1]),
}


HOLD = (
    "image/width=200",
    "image/width == 200",
    "image/width>=200 and image/width<=200",
    "image/width<200.5",
    "score>.25 and score != 1",
    f"big={2**60 + 1}",
    "format=png",
    "format!=jpeg",
    "format>jpeg",
    "colour='light blue'",
    'colour = "light blue" and format = "png"',
    "tags=b",
    "tags!=c",
    "x>8",
    "x<2",
    "'a b'=1",
)
FAIL = (
    "image/width<200",
    "image/width=200 and format=jpeg",
    f"big={2**60}",
    "format=PNG",
    "tags!=b",
    "x>9",
    "missing=1",
    "missing!=1",
    "empty!=1",
    "empty=1",
)


@pytest.mark.parametrize("text", [*HOLD, *FAIL])
def test_a_condition_holds_or_fails(text: str) -> None:
    """Numbers are compared as numbers, texts as texts; one value of a list is enough, and no value meets nothing."""
    found = all(condition.holds(SELECT_EXAMPLE) for condition in parse_conditions(text))
    assert found == (text in HOLD)


def test_quotes_keep_operators_and_the_word_and() -> None:
    """They are taken off; nothing else in a value has a meaning."""
    assert parse_conditions("a='x and y<3' and b>=$(id)") == (
        Condition("a", "=", "x and y<3"),
        Condition("b", ">=", "$(id)"),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found '', expected FEATURE OPERATOR VALUE"),
        ("image/width", "found 'image/width', expected"),
        ("image/width<", "expected FEATURE OPERATOR VALUE"),
        ("<3", "expected FEATURE OPERATOR VALUE"),
        ("a=1 and", "expected FEATURE OPERATOR VALUE"),
        ("a=1 or b=2", "found 'a = 1 or', expected"),
        ("a=1 b=2", "found 'a = 1 b', expected"),
        ("a=1, b=2", "expected FEATURE OPERATOR VALUE"),
        ("a<<3", "found 'a << 3', expected"),
        ("a!3", "found 'a ! 3', expected"),
        ("a='x", "cannot be read: no closing quotation"),
        ("a=" + "x" * 10_000, "--where has 10002 characters"),
    ],
)
def test_what_cannot_be_read_is_shown(text: str, message: str) -> None:
    """With what was expected instead."""
    with pytest.raises(UsageError) as raised:
        parse_conditions(text)
    assert message in str(raised.value)


# --- statistics ------------------------------------------------------------------------------


def figures_of(*lists: FeatureList) -> FeatureFigures:
    figures = FeatureFigures()
    for found in lists:
        figures.add(found)
    return figures


def test_numbers_have_a_range_and_a_mean() -> None:
    """Over all values of all examples; the number of values is that of an example."""
    found = figures_of(*(FeatureList("int64", values) for values in ([3, -1], [], [10])))
    assert (found.low, found.high, found.mean, found.kinds.total()) == (-1, 10, 4.0, 3)
    assert (found.shortest, found.longest) == (0, 2)


def test_what_is_not_finite_is_counted_apart() -> None:
    """One NaN would make every figure NaN."""
    found = figures_of(FeatureList("float", [0.5, math.nan, math.inf, 1.5]))
    assert (found.low, found.high, found.mean, found.not_finite) == (0.5, 1.5, 1.0, 2)
    nothing = figures_of(FeatureList("float", [math.nan]))
    assert (nothing.values, nothing.not_finite) == (0, 1)
    assert math.isnan(nothing.mean)


def test_texts_are_kept_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other bytes have a length alone."""
    monkeypatch.setattr(select, "MOST_TEXTS", 2)
    few = figures_of(*(FeatureList("bytes", [text]) for text in (b"b", b"a", b"b")))
    assert (few.texts, few.text) == ({b"a", b"b"}, "b")
    many = figures_of(*(FeatureList("bytes", [b"%d" % i]) for i in range(100)))
    assert many.texts == {b"0", b"1", b"2"}
    for odd in (b"\xff\xd8", b"x" * 201, b"a\0b"):
        found = figures_of(FeatureList("bytes", [b"a"]), FeatureList("bytes", [odd]))
        assert (found.texts, found.text) == (None, "")
        assert (found.low, found.high) == (1, len(odd))


def test_a_feature_of_two_kinds_has_both() -> None:
    """In files of other programs; a feature without a list is of none."""
    lists = {"int64": [1], "bytes": [b"one"], "": []}
    found = figures_of(*(FeatureList(kind, values) for kind, values in lists.items()))
    assert found.kinds == {"int64": 1, "bytes": 1, "": 1}


def test_features_and_classes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are left out are counted."""
    monkeypatch.setattr(select, "MOST_FEATURES", 2)
    monkeypatch.setattr(select, "MOST_CLASSES", 1)
    figures = Scan()
    for number in range(3):
        features = {f"{number}{i}": FeatureList("int64", [1]) for i in range(2)}
        figures.add("train", features, [str(number)])
    assert set(figures.features) == {"00", "01"}
    assert figures.classes == {"0": {"train": 1}}
    assert figures.left_out == {"features": 4, "classes": 2}
    assert figures.examples == {"train": 3}


def test_figures_of_a_feature_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for each example, of which there may be millions."""
    made: list[FeatureFigures] = []

    def new() -> FeatureFigures:
        made.append(FeatureFigures())
        return made[-1]

    monkeypatch.setattr(select, "FeatureFigures", new)
    figures = Scan()
    for number in range(3):
        figures.add("train", {"a": FeatureList("int64", [number])}, ())
    assert len(made) == 1
    assert made[0].kinds == {"int64": 3}


def test_classes_are_named_by_texts_ids_or_a_list_of_names() -> None:
    """As ours, TFDS's and other programs' examples have them."""
    naming = sources.Source("", (), {1: "cat"})
    texts = {"image/class/text": FeatureList("bytes", [b"dog"])}
    objects = {"image/object/class/text": FeatureList("bytes", [b"a", b"b", b"a"])}
    ids = {"label": FeatureList("int64", [1, 2, 1])}
    assert naming.classes_of(texts) == ["dog"]
    assert naming.classes_of(objects) == ["a", "b"]
    assert naming.classes_of(ids) == ["cat", "2"]
    assert naming.classes_of({"label": FeatureList("float", [0.5])}) == []
    assert naming.classes_of({"label": FeatureList("bytes", [b"\xff"])}) == []
    assert [n for n in ("cat", "1", "2", "dog") if naming.has_class(ids, n)] == ["cat", "1", "2"]


def test_keys_are_found_under_usual_names() -> None:
    """Ours first."""
    features = {
        "id": FeatureList("int64", [7]),
        "image/source_id": FeatureList("bytes", [b"a.jpg"]),
        "filename": FeatureList("bytes", [b"x", b"y"]),
    }
    assert sources.Source("", ()).keys_of(features) == ["a.jpg", "7"]


def test_the_image_of_an_example_is_in_a_usual_feature_or_in_the_first_that_holds_one() -> None:
    """A mask beside it is not shown in its place."""
    png, mask = picture(1, file_format="PNG"), picture(2, file_format="PNG")
    features = {"a_mask": FeatureList("bytes", [mask]), "image": FeatureList("bytes", [png])}
    assert show.image_of(features) == png
    assert show.image_of({"x": FeatureList("int64", [1]), "y": FeatureList("bytes", [png])}) == png
    assert show.image_of({"x": FeatureList("bytes", [png, png])}) is None


def test_bare_pixels_are_known_by_their_number() -> None:
    """height x width x 3 bytes, as --image_encoding raw writes them."""
    features = {
        "image/encoded": FeatureList("bytes", [bytes(18)]),
        "image/height": FeatureList("int64", [2]),
        "image/width": FeatureList("int64", [3]),
    }
    assert show.bare_pixels_of(features) == (bytes(18), 3, 2)
    for key, other in (
        ("image/encoded", FeatureList("bytes", [bytes(17)])),
        ("image/encoded", FeatureList("bytes", [bytes(19)])),
        ("image/height", FeatureList("int64", [-2])),
        ("image/width", FeatureList("bytes", [b"3"])),
        ("image/width", FeatureList("int64", [3, 3])),
    ):
        assert show.bare_pixels_of({**features, key: other}) is None
    assert show.bare_pixels_of({}) is None


@pytest.mark.parametrize(
    ("key", "heading"),
    [(b"cat.jpg", "cat.jpg, a.tfrecord, record 3"), (b"", "a.tfrecord, record 3")],
)
def test_an_example_is_headed_by_its_key_if_it_has_one(
    key: bytes, heading: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other programs write empty keys."""
    features = {"image/source_id": FeatureList("bytes", [key])}
    file = sources.RecordFile("/data/a.tfrecord", "", 9)
    show.Screen().example(sources.Source("", (file,)), FoundExample(file, 3, 9, features))
    assert capsys.readouterr().out.splitlines()[0] == heading


def test_values_in_a_line() -> None:
    """Texts as they are, other bytes by their number, long lists cut."""
    assert show.value_text(FeatureList("bytes", [b"cat"])) == "cat"
    assert show.value_text(FeatureList("bytes", [b"\xff\xfe"])) == "2 bytes"
    png = picture(file_format="PNG")
    assert show.value_text(FeatureList("bytes", [png])) == f"{len(png)} bytes (png)"
    assert show.value_text(FeatureList("float", [0.1, 1e9])) == "0.1, 1e+09"
    assert (
        show.value_text(FeatureList("int64", range(20)))
        == "0, 1, 2, 3, 4, 5, 6, 7, ... (20 values)"
    )
    assert show.value_text(FeatureList("", ())) == ""


def test_values_for_json() -> None:
    """One value is itself; JSON has no bytes, NaN and infinities."""
    assert show.json_value(FeatureList("bytes", ["größe".encode()])) == "größe"
    assert show.json_value(FeatureList("bytes", [b"\xff"])) == {"base64": "/w=="}
    assert show.json_value(FeatureList("int64", [])) == []
    assert show.json_value(FeatureList("float", [0.5, math.nan, -math.inf])) == [0.5, "nan", "-inf"]


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("cat/1.jpg", "000007-1.jpg"),
        ("cat/1.JPG", "000007-1.jpg"),
        ("../../etc/passwd", "000007-passwd.jpg"),
        ("..\\..\\x", "000007-x.jpg"),
        ("/", "000007.jpg"),
        ("..", "000007.jpg"),
        ("", "000007.jpg"),
        ("a\0b\n\x1bc", "000007-a_b_c.jpg"),
        ("猫 1.png", "000007-猫_1.png.jpg"),
        ("x" * 300, "000007-" + "x" * 60 + ".jpg"),
        ("CON", "000007-CON.jpg"),
        ("-rf", "000007--rf.jpg"),
    ],
)
def test_a_key_names_a_file_of_the_folder_itself(key: str, name: str) -> None:
    """Whatever it holds; the number makes it unique."""
    assert show.safe_name(7, key, "jpg") == name


def test_columns_have_the_width_of_their_cells() -> None:
    """Numbers at the right; no space at the end of a line; control characters do not move the cursor."""
    rows = [("a", "10", "x"), ("long", "5", "")]
    assert show.table_lines(show.Table(("name", "n", "text"), rows, " >"), 0) == [
        "name   n  text",
        "a     10  x",
        "long   5",
    ]
    assert show.table_lines(show.Table(("k",), [("a\x1b[2Jb\nc",)]), 0) == ["k", r"a\x1b[2Jb\nc"]


def test_wide_characters_take_two_columns() -> None:
    """Accents that follow a letter take none."""
    assert show.display_width("猫a") == 3
    assert show.display_width("e\u0301") == 1
    rows = [("猫", "1"), ("ab", "2")]
    assert show.table_lines(show.Table(("k", "v"), rows), 0) == ["k   v", "猫  1", "ab  2"]


def test_the_last_column_is_cut_where_the_line_ends() -> None:
    """In a terminal; a pipe gets all of it."""
    rows = [("a", "x" * 100)]
    assert show.table_lines(show.Table(("k", "v"), rows), 20)[1] == "a  " + "x" * 14 + "..."
    assert show.table_lines(show.Table(("k", "v"), rows), 0)[1] == "a  " + "x" * 100
    long_name = show.table_lines(show.Table(("k", "v"), [("n" * 100, "value")]), 60)[1]
    assert long_name == "n" * 27 + "...  value"


def test_a_text_is_cut_to_a_number_of_columns() -> None:
    """Never in the middle of a wide character."""
    assert show.fitted("猫猫猫猫", 8) == "猫猫猫猫"
    assert show.fitted("猫猫猫猫", 7) == "猫猫..."
    assert show.fitted("abcdef", 5) == "ab..."
    assert show.fitted("abcdef", 2) == ".."


def example(data: bytes, **more: list[int]) -> Features:
    return {
        "image/encoded": FeatureList("bytes", [data]),
        **{f"image/{key}": FeatureList("int64", values) for key, values in more.items()},
    }


def pixels(*rows: list[tuple[int, int, int]]) -> Features:
    """An example of bare pixels."""
    data = b"".join(bytes(pixel) for row in rows for pixel in row)
    return example(data, height=[len(rows)], width=[len(rows[0])])


def test_half_blocks_show_two_pixels_each() -> None:
    """The upper one in the foreground's colour, the lower one in the background's."""
    red, blue, grey = (255, 0, 0), (0, 0, 255), (95, 95, 95)
    lines = show.beside(pixels([red, blue], [blue, red], [grey, grey]), ["a"], show.true_colour)
    block = "\N{UPPER HALF BLOCK}"
    space = " " * (show.COLUMNS - 2)
    assert lines == [
        f"\x1b[38;2;255;0;0;48;2;0;0;255m{block}\x1b[38;2;0;0;255;48;2;255;0;0m{block}\x1b[0m{space}  a",
        f"\x1b[38;2;95;95;95m{block}\x1b[38;2;95;95;95m{block}\x1b[0m",
    ]
    (line,) = show.beside(pixels([red], [grey]), ["a"], show.cube_colour)
    assert line.startswith(f"\x1b[38;5;196;48;5;59m{block}\x1b[0m")


def test_text_beside_a_small_picture_keeps_its_column() -> None:
    """Where it has more lines than the picture."""
    lines = show.beside(pixels([(0, 0, 0)]), ["a", "b"], show.true_colour)
    assert lines[1] == " " * show.COLUMNS + "  b"


@pytest.mark.parametrize(
    ("size", "cells"), [((200, 10), (24, 1)), ((10, 200), (1, 12)), ((1, 1), (1, 1))]
)
def test_images_are_scaled_into_the_picture(size: tuple[int, int], cells: tuple[int, int]) -> None:
    """In their own shape, 24 pixels wide or high."""
    lines = show.beside(example(picture(3, size=size)), [], show.true_colour)
    assert (lines[0].count("\N{UPPER HALF BLOCK}"), len(lines)) == cells


def test_what_cannot_be_decoded_has_no_picture() -> None:
    """Half a file, a bomb, no image: the text is shown alone."""
    png = picture(file_format="PNG", size=(50, 50))
    bomb = png[:16] + (60_000).to_bytes(4, "big") * 2 + png[24:]
    for data in (png[: len(png) // 2], bomb, b"cat", b""):
        assert show.beside(example(data), ["a"], show.true_colour) == ["a"]


def test_terminals_are_told_by_their_variables() -> None:
    """In doubt, 256 colours; no picture without colours or in another encoding."""
    assert show.colour_of({"TERM": "dumb"}, "utf-8") is None
    assert show.colour_of({}, "utf-8") is None
    assert show.colour_of({"TERM": "xterm", "NO_COLOR": "1"}, "utf-8") is None
    assert show.colour_of({"TERM": "xterm"}, "latin-1") is None
    assert show.colour_of({"TERM": "xterm"}, "utf-8") is show.cube_colour
    assert show.colour_of({"TERM": "xterm", "COLORTERM": "truecolor"}, "UTF8") is show.true_colour
    assert show.cube_colour(250, 1, 2) == "5;196"
    assert show.true_colour(250, 1, 2) == "2;250;1;2"
