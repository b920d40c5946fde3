"""KITTI's label files, parsed."""

from __future__ import annotations

import io

import pytest

from beam_pipeline.core.references import LabelRow
from beam_pipeline.layouts.kitti import COLUMNS, OBJECT_TYPES, KittiFormat
from beam_pipeline.layouts.label_files import LabelFileReader, Place
from tests.layouts.make_kitti import CAR, DONT_CARE

URI = "/data/label_2/000007.txt"

BAD_LINES: dict[str, tuple[str | bytes, str]] = {
    "columns14": (
        CAR.rpartition(" ")[0],
        "14 columns, expected the 15 of KITTI's labels: type, truncated, occluded, alpha, left, "
        "top, right, bottom, height, width, length, x, y, z, rotation_y",
    ),
    "score": (
        f"{CAR} 0.97",
        "16 columns, expected the 15 of KITTI's labels: type, truncated, occluded, alpha, left, "
        "top, right, bottom, height, width, length, x, y, z, rotation_y; a 16th is the score of a "
        "detector's results, which are not labels",
    ),
    "text": (CAR.replace("10.00", "ten"), "left is 'ten', expected a number"),
    "nan": (CAR.replace("14.20", "nan"), "z is 'nan', expected a number"),
    "infinite": (CAR.replace("40.00", "inf"), "bottom is 'inf', expected a number"),
    "large": (CAR.replace("1.33", "1e39"), "rotation_y is '1e39', expected a number"),
    "underscore": (CAR.replace("40.00", "4_0"), "bottom is '4_0', expected a number"),
    "fraction": (CAR.replace(" 0 ", " 0.5 "), "occluded is '0.5', expected an integer"),
    "ignored": (DONT_CARE.format("1 2 3 x"), "bottom is 'x', expected a number"),
    "latin1": (
        CAR.replace("Car", "V\xe9lo").encode("latin-1"),
        "the type b'V\\xe9lo' is not UTF-8; save the file as UTF-8",
    ),
    "utf16": (
        f"{CAR}\n".encode("utf-16"),
        "the type b'\\xff\\xfeC\\x00a\\x00r\\x00' is not UTF-8; save the file as UTF-8",
    ),
    "number_latin1": (
        CAR.encode().replace(b"20.00", b"\xb2"),
        "top is '\\\\xb2', expected a number",
    ),
}
"""name -> (line, what is wrong with it)."""


def parse_labels(data: bytes, uri: str) -> LabelRow:
    """The row of a label file."""
    folder = uri.rpartition("/")[0]
    (row,) = LabelFileReader(KittiFormat(), (Place(folder, bare=True),)).read(io.BytesIO(data), uri)
    assert isinstance(row, LabelRow)
    return row


@pytest.mark.parametrize(("line", "problem"), BAD_LINES.values(), ids=BAD_LINES)
def test_a_line_that_is_not_kittis_is_the_rows_problem(line: str | bytes, problem: str) -> None:
    """The row names the line and what was found there, and has no values."""
    data = line.encode() if isinstance(line, str) else line
    number = 1
    if not data.startswith(b"\xff\xfe"):  # UTF-16 is not to be had in the middle of a file
        data, number = f"{CAR}\n\n".encode() + data, 3
    assert parse_labels(data, URI) == LabelRow(
        name="000007",
        values=((),) * len(COLUMNS),
        split="",
        file=URI,
        line=number,
        problem=problem,
    )


def test_a_label_file_is_one_row() -> None:
    """The row is named by the file, boxes carry their lines, and DontCare regions come last."""
    data = f"{DONT_CARE.format('1 2 3 4')}\n{CAR}\n".encode()
    assert parse_labels(data, URI) == LabelRow(
        name="000007",
        values=(
            ((10.0, 20.0, 30.0, 40.0, 2),),
            ("Car",),
            (0.0,),
            (0,),
            (1.62,),
            *((1.52,), (1.63,), (3.88,), (-4.36,), (1.71,), (14.2,), (1.33,)),
            ((1.0, 2.0, 3.0, 4.0, 1),),
        ),
        split="",
        file=URI,
        line=0,
    )


@pytest.mark.parametrize(
    "data",
    [
        f"{CAR}\r\n{CAR}\r\n",
        f"{CAR}   \n{CAR}",
        f"\ufeff{CAR}\n{CAR}\n",
        f"{CAR}\r{CAR}\r",
        "{}\n{}\n".format(*[CAR.replace(" ", "\t")] * 2),
        f"  {CAR}\n{CAR}\n",
    ],
)
def test_line_ends_blanks_and_a_byte_order_mark_do_not_count(data: str) -> None:
    """Windows', old Macs' and missing line ends, trailing blanks and tabs read as KITTI's own do."""
    assert parse_labels(data.encode(), URI) == parse_labels(f"{CAR}\n{CAR}\n".encode(), URI)


def test_dontcare_in_lower_case_is_no_object_either() -> None:
    """NVIDIA's tools write dontcare."""
    row = parse_labels(DONT_CARE.format("1 2 3 4").lower().encode(), "a.txt")
    assert row.values == (*[()] * (len(COLUMNS) - 1), ((1.0, 2.0, 3.0, 4.0, 1),))
    assert row.problem == ""


def test_every_column_has_a_value() -> None:
    """A row has as many values as there are columns, with objects, without, and with a problem."""
    for text in (CAR, "", "Car", DONT_CARE.format("1 2 3 4")):
        assert len(parse_labels(text.encode(), "a.txt").values) == len(COLUMNS)


def test_objects_stand_in_the_order_of_the_file() -> None:
    """Each column is a list with a value for each object; types that KITTI lacks are kept."""
    lines = [CAR.replace("Car", kind) for kind in (*OBJECT_TYPES, "Bus")]
    boxes, kinds, *_ = parse_labels("\n".join(lines).encode(), URI).values
    assert kinds == (*OBJECT_TYPES, "Bus")
    assert boxes == tuple((10.0, 20.0, 30.0, 40.0, line) for line in range(1, 10))
