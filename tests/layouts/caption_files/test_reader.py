"""Each caption file is one row, or one problem of its image."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from beam_pipeline.core.references import LabelRow
from beam_pipeline.layouts.caption_files import (
    MOST_BYTES,
    CaptionFormat,
    caption_of,
    is_no_caption,
)
from beam_pipeline.layouts.label_files import LabelFileReader, Place
from beam_pipeline.layouts.layout import SourceOptions
from beam_pipeline.layouts.sidecars import inspect_sidecars
from tests.pictures import write_files

SAMPLE = {"__key__": "a", "caption": "a caption", "width": 3}


def reader(*folders: str, encoding: str = "", has_fields: bool = False) -> LabelFileReader:
    """A reader of captions and, with fields, of the columns of `SAMPLE`."""
    row = SAMPLE if has_fields else {"__key__": "a", "caption": "a caption"}
    schema, table, _ = inspect_sidecars("/d", [row], SourceOptions(("/d",)), {"caption": "str"})
    places = tuple(map(Place, folders))
    return LabelFileReader(CaptionFormat(table, schema, encoding, has_fields), places)


def rows_of(data: bytes, uri: str = "/d/a.txt", **options: str) -> list[object]:
    """The rows of a caption file without JSON beside it."""
    return list(reader(**options).read(io.BytesIO(data), uri))


@pytest.mark.parametrize(
    ("data", "caption"),
    [
        (b"a dog", "a dog"),
        (b"\xef\xbb\xbfa dog\r\n", "a dog"),
        ("ein Hündchen ".encode(), "ein Hündchen"),
        ("hé".encode("utf-16"), "hé"),
        (b"\n two\nlines \n\n", "two\nlines"),
        (b"2024", "2024"),
        (b"", None),
        (b" \r\n", None),
    ],
)
def test_a_caption_is_the_whole_text_without_space_around_it(
    data: bytes, caption: str | None
) -> None:
    """All lines of it; numbers stay text, and an empty file says nothing."""
    assert rows_of(data) == [LabelRow("/d/a", (caption,), "", "/d/a.txt", 0)]


def test_other_encodings_are_named() -> None:
    """Otherwise they are a fault of the image."""
    data = "ein Hündchen".encode("cp1252")
    assert rows_of(data, encoding="cp1252") == [
        LabelRow("/d/a", ("ein Hündchen",), "", "/d/a.txt", 0)
    ]
    (row,) = rows_of(data)
    assert isinstance(row, LabelRow)
    assert row.problem.startswith("not a text in UTF-8 ('utf-8' codec can't decode byte 0xfc")
    assert "--labels_encoding" in row.problem
    with pytest.raises(ValueError, match="not a text in utf-7"):
        caption_of(b"+2D0-", "utf-7")


def test_a_huge_file_is_not_read() -> None:
    """Captions are held with references, which are small."""
    file = io.BytesIO(b"x" * (MOST_BYTES + 9))
    (row,) = reader().read(file, "/d/a.txt")
    assert isinstance(row, LabelRow)
    assert row.problem == f"the file has more than {MOST_BYTES} bytes"
    assert file.tell() == MOST_BYTES + 1


@pytest.mark.parametrize(
    ("uri", "folders", "name"),
    [
        ("/d/x/v1.5.txt", (), "/d/x/v1.5"),
        ("gs://b/x/a.caption", (), "gs://b/x/a"),
        ("/t/x/a.txt", ("/t",), "x/a"),
        ("/t/x/a.txt", ("/t", "/t/x"), "a"),
    ],
)
def test_a_caption_names_its_image(uri: str, folders: tuple[str, ...], name: str) -> None:
    """Beside it by the whole path, elsewhere by the path below the folder."""
    (row,) = reader(*folders).read(io.BytesIO(b"x"), uri)
    assert isinstance(row, LabelRow)
    assert row.name == name


@pytest.mark.parametrize("name", ["README.txt", "readme.first.txt", "License.txt", "labels.txt"])
def test_notes_are_no_captions(name: str) -> None:
    """Nor are lists of classes."""
    assert is_no_caption(name)
    assert rows_of(b"x", f"/d/{name}") == []
    assert not is_no_caption("labels2.txt")


@pytest.mark.parametrize(
    ("content", "values", "problem"),
    [
        ('{"caption": "another", "width": 9, "new": 1}', ("a dog", 9), ""),
        (None, ("a dog", None), ""),
        ('{"width": "wide"}', (None, None), "column 'width': "),
        ("{", (None, None), "the .json beside the caption cannot be used: "),
        ("[1]", (None, None), "the .json beside the caption cannot be used: expected a JSON"),
        (b"\xff", (None, None), "the .json beside the caption cannot be used: "),
        ("[" * 99_999, (None, None), "the .json beside the caption cannot be used: "),
        ("{}" + " " * MOST_BYTES, (None, None), f"the file has more than {MOST_BYTES} bytes"),
    ],
)
def test_json_beside_a_caption_is_columns(
    content: str | bytes | None,
    values: tuple[object, ...],
    problem: str,
    tmp_path: Path,
) -> None:
    """The caption's own file comes first; a broken object is a fault of the image."""
    write_files(str(tmp_path), {"a.json": content} if content is not None else {})
    uri = f"{tmp_path}/a.txt"
    (row,) = reader(has_fields=True).read(io.BytesIO(b"a dog"), uri)
    assert isinstance(row, LabelRow)
    assert row.values == values
    assert row.problem.startswith(problem)
    assert bool(row.problem) is bool(problem)
