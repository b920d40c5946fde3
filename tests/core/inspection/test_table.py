"""Tables: columns of equal width, whatever is in the cells."""

from __future__ import annotations

from beam_pipeline.core.inspection.table import display_width, fitted, table_lines


def test_columns_have_the_width_of_their_cells() -> None:
    """Numbers at the right; no space at the end of a line."""
    assert table_lines(("name", "n", "text"), [("a", "10", "x"), ("long", "5", "")], 0, " >") == [
        "name   n  text",
        "a     10  x",
        "long   5",
    ]


def test_wide_characters_take_two_columns() -> None:
    """Accents that follow a letter take none."""
    assert display_width("猫a") == 3
    assert display_width("e\u0301") == 1
    assert table_lines(("k", "v"), [("猫", "1"), ("ab", "2")], 0) == ["k   v", "猫  1", "ab  2"]


def test_the_last_column_is_cut_where_the_line_ends() -> None:
    """In a terminal; a pipe gets all of it."""
    rows = [("a", "x" * 100)]
    assert table_lines(("k", "v"), rows, 20)[1] == "a  " + "x" * 14 + "..."
    assert table_lines(("k", "v"), rows, 0)[1] == "a  " + "x" * 100
    long_name = table_lines(("k", "v"), [("n" * 100, "value")], 60)[1]
    assert long_name == "n" * 27 + "...  value"


def test_a_text_is_cut_to_a_number_of_columns() -> None:
    """Never in the middle of a wide character."""
    assert fitted("猫猫猫猫", 8) == "猫猫猫猫"
    assert fitted("猫猫猫猫", 7) == "猫猫..."
    assert fitted("abcdef", 5) == "ab..."
    assert fitted("abcdef", 2) == ".."


def test_control_characters_of_cells_are_escaped() -> None:
    """A name must not move the cursor or start a new line."""
    assert table_lines(("k",), [("a\x1b[2Jb\nc",)], 0) == ["k", r"a\x1b[2Jb\nc"]
