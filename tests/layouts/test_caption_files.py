"""Captions beside images, from the files to the examples."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.cli import main
from beam_pipeline.core import errors, references
from beam_pipeline.layouts import caption_files, opening
from beam_pipeline.layouts.label_files import LabelFileReader, Place
from beam_pipeline.layouts.layout import FileLabels, Source, SourceOptions
from tests.harness import NONE_BAD, convert, convert_asking, manifest_of, read_all, reasons_of
from tests.layouts.make_texts import DOGS, make_caption_files, with_captions
from tests.pictures import write_files, write_pictures

KITTI = "Car 0.00 0 1.85 387.63 181.54 423.81 203.12 1.67 1.87 3.69 -16.53 2.39 58.49 1.57\n"


def layout_of(*images: str, **options: Any) -> str:
    """The layout that is chosen without --layout."""
    return opening.open_source("auto", SourceOptions(images, **options))[0].layout


def opened(*images: str, **options: Any) -> Source:
    """The source of some folders."""
    return caption_files.CaptionFiles().open(SourceOptions(images, **options))


def captions_in(folder: Any) -> dict[str, list[bytes]]:
    """Key -> caption of every example."""
    return {key: features.get("label/caption", []) for key, features in read_all(folder).items()}


def test_a_folder_as_trainers_keep_it(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Recognised; the captions are texts, and folders mean nothing."""
    make_caption_files(".")
    write_files("dogs", {"README.txt": "My dogs.", "10_dog/note.jpg": "", "10_dog/note.txt": ""})
    Path("dogs/10_dog/note.jpg").unlink()
    assert convert("--images", "dogs", "--output", "out", "--max_bad_fraction=0.1") == 0
    out = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == (
        "Layout caption_files: a caption beside each image, such as dogs/10_dog/0000.txt"
    )
    assert lines[1] == "path segment 1 ignored 2 folders, such as '10_dog'"
    assert lines[2] == "column caption feature 1 or more text, such as 'a caption'"
    assert captions_in("out") == {key: [text.encode()] for key, text in DOGS.items()}
    assert reasons_of("out") == {f"{working_folder}/dogs/10_dog/note": "missing_image"}
    assert "classes" not in manifest_of("out") or manifest_of("out")["classes"] == []
    assert main(["verify", "out"]) == 0


"""Case -> files beside ten good images, and key -> reason of the dead letters."""


def _captions_and(others: Mapping[str, str]) -> Callable[[], None]:
    """Makes images with captions, and other files beside their folder."""

    def write() -> None:
        write_files("d", with_captions({f"{i}.jpg": f"caption {i}" for i in range(4)}))
        write_files(".", others)

    return write


def _texts(*contents: str) -> Callable[[], None]:
    def write() -> None:
        write_pictures("d", [f"{i}.jpg" for i in range(len(contents))])
        write_files("d", {f"{i}.txt": text for i, text in enumerate(contents)})

    return write


@pytest.mark.parametrize(
    ("write", "layout"),
    [
        (_texts("a cat", "", "two\nlines"), "caption_files"),
        (_texts("0 0.5 0.5 0.25 0.25\n", "1 0.5 0.5 0.25 0.25\n"), "yolo"),
        (_texts("0 0.5 0.5 0.25 0.25\n", "a cat", "", ""), "class_folders"),
        (_texts(KITTI, KITTI), "class_folders"),
        (_texts("3", "7", "1"), "class_folders"),
        (_texts("", ""), "class_folders"),
        (_captions_and({}), "caption_files"),
        (
            _captions_and({"d/LICENSE.txt": "x", "d/meta_lat.json": '{"0": {"tags": "a"}}'}),
            "caption_files",
        ),
        (
            _captions_and({"d/00000_stats.json": "{}", "train.csv": "file,label\nx.jpg,a\n"}),
            "caption_files",
        ),
        (_captions_and({"d/labels.csv": "file,label\n0.jpg,a\n"}), "class_folders"),
        (_captions_and({"labels.csv": "file,label\n0.jpg,a\n"}), "class_folders"),
        (_captions_and({"d/0.xml": "<annotation></annotation>"}), "voc"),
        (_captions_and({"d/x.json": '{"images": []}'}), "class_folders"),
        (_captions_and({"labels/0.txt": "x"}), "class_folders"),
        (_captions_and({"d/masks/0.txt": "x"}), "class_folders"),
        (_captions_and({f"d/more/{i}.gif": "" for i in range(9)}), "class_folders"),
        (_captions_and({"d/metadata.csv": "file_name,text\n0.jpg,a\n"}), "imagefolder"),
        (_captions_and({"d/data.yaml": "names: [cat]\ntrain: ."}), "yolo"),
    ],
)
def test_captions_are_recognised_where_that_is_safe(
    write: Callable[[], None], layout: str, working_folder: Path
) -> None:
    """Not if the texts are labels of objects, or if other files may be the labels."""
    write()
    assert layout_of("d") == layout


def test_captions_in_a_folder_of_their_own(working_folder: Path) -> None:
    """Named with --labels; images are found by the path below it, or by name."""
    write_pictures("images", ["a/0.jpg", "1.jpg"])
    write_files("texts", {"a/0.txt": "zero", "1.txt": "one"})
    assert layout_of("images", labels=("texts",)) == "caption_files"
    labels = opened("images", labels=("texts",)).labels
    assert isinstance(labels, FileLabels)
    assert [folder.uri for folder in labels.folders] == [f"{working_folder}/texts"]
    assert pickle.loads(pickle.dumps(labels)) == labels
    assert convert("--images=images", "--labels=texts", "--output", "out", NONE_BAD) == 0
    assert captions_in("out") == {"a/0.jpg": [b"zero"], "1.jpg": [b"one"]}


def test_two_captions_of_an_image_are_a_question(working_folder: Path) -> None:
    """The pattern in it takes the others."""
    captions = {f"{i}.jpg": f"caption {i}" for i in range(3)}
    write_files("d", with_captions(captions, ".caption"))
    assert captions_in_rows(opened("d")) == ["**/*.[cC][aA][pP][tT][iI][oO][nN]"]
    write_files("d", with_captions(dict.fromkeys(captions, "1girl, solo")))
    (question,) = opened("d").questions
    pattern = f"{working_folder}/d/**/*.caption"
    assert question.answer == {"labels": (pattern,), "layout": "caption_files"}
    source = opened("d", labels=(pattern,))
    assert (captions_in_rows(source), source.questions) == (["**/*.caption"], ())
    assert convert_asking("--images", "d", "--output", "out") == 2


def captions_in_rows(source: Source) -> list[str]:
    """The patterns of the caption files."""
    assert isinstance(source.labels, FileLabels)
    return [pattern for folder in source.labels.folders for pattern in folder.patterns]


def found_in(folder: Path, *files: str) -> caption_files.Captions:
    """What is found in a folder of empty files."""
    write_files(str(folder), dict.fromkeys(files, ""))
    return caption_files.look_for_captions([str(folder)])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("0 0.5 0.5 0.25 0.25", True),
        (
            "Car 0.00 0 -1.58 587.01 173.33 614.12 200.12 1.65 1.67 3.64 -0.65 1.71 46.70 -1.59",
            True,
        ),
        ("10.0, 20.0, 30.0, 20.0, 30.0, 40.0, 10.0, 40.0, plane, 0", True),
        ("7", True),
        ("1girl, solo, 2 cats", False),
        ("3 cats", False),
        ("nan and infinity", False),
        ("", False),
    ],
)
def test_lines_of_labels_are_mostly_numbers(line: str, expected: bool) -> None:
    """In all formats; words that Python would read as numbers are words."""
    assert caption_files.is_of_numbers(line) is expected


def test_a_caption_has_the_name_of_an_image_in_its_folder(tmp_path: Path) -> None:
    """Dots are part of names; notes and lists of classes are no captions, even beside such images."""
    found = found_in(
        tmp_path,
        *("a.jpg", "a.txt", "v1.5.PNG", "v1.5.TXT", "v1.txt", "b/c.jpg", "c.txt", "b/a.txt"),
        *("README.txt", "readme.jpg", "labels.txt", "labels.png", ".d.jpg", ".d.txt"),
    )
    assert found.uris == {".txt": [f"{tmp_path}/a.txt", f"{tmp_path}/v1.5.TXT"], ".caption": []}
    assert (found.images, found.ending, found.cover_images) == (5, ".txt", False)


def test_captions_may_lie_in_a_folder_of_their_own(tmp_path: Path) -> None:
    """By the images' names alone."""
    write_files(str(tmp_path), dict.fromkeys(["i/x/a.jpg", "i/b.jpg", "t/a.txt", "t/z.txt"], ""))
    found = caption_files.look_for_captions([f"{tmp_path}/i"], [f"{tmp_path}/t"])
    assert found.uris[".txt"] == [f"{tmp_path}/t/a.txt"]
    assert found.images == 2


def test_the_ending_is_that_of_most_captions(tmp_path: Path) -> None:
    """If half of the images have both, the other one is told, too."""
    names = [f"{i}.jpg" for i in range(4)] + [f"{i}.caption" for i in range(4)]
    found = found_in(tmp_path, *names, "0.txt")
    assert (found.ending, found.second_ending, found.cover_images) == (".caption", "", True)
    assert found_in(tmp_path, "1.txt").second_ending == ".txt"
    assert caption_files.Captions().ending == ""
    assert not caption_files.Captions().cover_images


def test_json_beside_a_caption_is_found(tmp_path: Path) -> None:
    """Other JSON is none of an image's."""
    found = found_in(tmp_path, "a.jpg", "a.txt", "a.json", "00000_stats.json", "b.jpg", "b.txt")
    assert found.with_fields == [f"{tmp_path}/a.txt"]


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        (["a dog", "", "two\nlines"], True),
        (["", "\n"], False),
        (["0 0.5 0.5 0.1 0.1\n", "", "0 0.5 0.5 0.1 0.1\n1 0.2 0.2 0.1 0.1"], False),
        (["a dog"] * 4 + ["3"], False),
        (["a dog"] * 19 + ["1999"], True),
        (["\ufeff一只狗"], True),
    ],
)
def test_some_captions_are_read(contents: list[str], expected: bool, tmp_path: Path) -> None:
    """Nearly all of those that are not empty have to hold words."""
    write_files(str(tmp_path), {f"{i}.jpg": "" for i in range(len(contents))})
    write_files(str(tmp_path), {f"{i}.txt": text for i, text in enumerate(contents)})
    assert caption_files.look_for_captions([str(tmp_path)]).are_texts() is expected


SAMPLE = {"__key__": "a", "caption": "a caption", "width": 3}


def reader(*folders: str, encoding: str = "", has_fields: bool = False) -> LabelFileReader:
    """A reader of captions and, with fields, of the columns of `SAMPLE`."""
    row = SAMPLE if has_fields else {"__key__": "a", "caption": "a caption"}
    schema, table, _ = caption_files.inspect_sidecars(
        "/d", [row], SourceOptions(("/d",)), {"caption": "str"}
    )
    places = tuple(map(Place, folders))
    return LabelFileReader(caption_files.CaptionFormat(table, schema, encoding, has_fields), places)


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
    assert rows_of(data) == [references.LabelRow("/d/a", (caption,), "", "/d/a.txt", 0)]


def test_other_encodings_are_named() -> None:
    """Otherwise they are a fault of the image."""
    data = "ein Hündchen".encode("cp1252")
    assert rows_of(data, encoding="cp1252") == [
        references.LabelRow("/d/a", ("ein Hündchen",), "", "/d/a.txt", 0)
    ]
    (row,) = rows_of(data)
    assert isinstance(row, references.LabelRow)
    assert row.problem.startswith("not a text in UTF-8 ('utf-8' codec can't decode byte 0xfc")
    assert "--labels_encoding" in row.problem
    with pytest.raises(ValueError, match="not a text in utf-7"):
        caption_files.caption_of(b"+2D0-", "utf-7")


def test_a_huge_file_is_not_read() -> None:
    """Captions are held with references, which are small."""
    file = io.BytesIO(b"x" * (caption_files.MOST_BYTES + 9))
    (row,) = reader().read(file, "/d/a.txt")
    assert isinstance(row, references.LabelRow)
    assert row.problem == f"the file has more than {caption_files.MOST_BYTES} bytes"
    assert file.tell() == caption_files.MOST_BYTES + 1


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
    assert isinstance(row, references.LabelRow)
    assert row.name == name


@pytest.mark.parametrize("name", ["README.txt", "readme.first.txt", "License.txt", "labels.txt"])
def test_notes_are_no_captions(name: str) -> None:
    """Nor are lists of classes."""
    assert caption_files.is_no_caption(name)
    assert rows_of(b"x", f"/d/{name}") == []
    assert not caption_files.is_no_caption("labels2.txt")


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
        (
            "{}" + " " * caption_files.MOST_BYTES,
            (None, None),
            f"the file has more than {caption_files.MOST_BYTES} bytes",
        ),
    ],
)
def test_json_beside_a_caption_is_columns(
    content: str | bytes | None, values: tuple[object, ...], problem: str, tmp_path: Path
) -> None:
    """The caption's own file comes first; a broken object is a fault of the image."""
    write_files(str(tmp_path), {"a.json": content} if content is not None else {})
    uri = f"{tmp_path}/a.txt"
    (row,) = reader(has_fields=True).read(io.BytesIO(b"a dog"), uri)
    assert isinstance(row, references.LabelRow)
    assert row.values == values
    assert row.problem.startswith(problem)
    assert bool(row.problem) is bool(problem)


def columns_of(row: dict[str, Any], **options: Any) -> tuple[dict[str, str], tuple[str, ...]]:
    """Feature -> kind of a sample's columns, and the notes."""
    kinds = options.pop("kinds", {})
    schema, table, notes = caption_files.inspect_sidecars(
        "/d", [{"__key__": "a", **row}], SourceOptions(("/d",), **options), kinds
    )
    assert (table.uri, table.key_column) == ("/d", "__key__")
    return {column.feature: column.kind.value for column in schema.columns}, notes


def test_a_class_is_the_label_and_all_else_further_columns() -> None:
    """Objects are left out, with a note."""
    row = {"cls": "cat", "caption": "7", "meta": {"x": 1}, "boxes": [[1, 2]], "tags": ["a"]}
    columns, notes = columns_of(row)
    assert columns == {"image/class": "class", "label/caption": "int64", "label/tags": "bytes"}
    assert notes == ("left out, since they are objects or lists of them: meta, boxes",)


def test_a_known_type_is_not_guessed_and_options_come_first() -> None:
    """A caption of digits is a text."""
    assert columns_of({"caption": "7"}, kinds={"caption": "str"})[0] == {"label/caption": "bytes"}
    row = {"caption": "7", "n": 1}
    columns, _ = columns_of(row, kinds={"caption": "str"}, columns={"caption": "int"})
    assert columns == {"label/caption": "int64", "label/n": "int64"}


def test_an_unknown_column_is_an_error() -> None:
    """It says what there is."""
    with pytest.raises(errors.UsageError, match=r"--images /d: no column 'x'"):
        columns_of({"caption": "a"}, label_column="x")


@pytest.mark.parametrize("text", ["[1]", "1", "{", '{"a": "\\ud800"}'])
def test_other_json_is_refused(text: str) -> None:
    """Half a character cannot be written."""
    with pytest.raises(ValueError):  # noqa: PT011 -- of several kinds
        caption_files.json_fields(text)
    assert caption_files.json_fields('{"a": 1e999, "b": "\\u00e9"}') == {"a": "1e999", "b": "é"}
