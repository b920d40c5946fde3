"""Listing local folders, and parts of files, as tasks and in a job."""

from __future__ import annotations

import os
import pickle
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow
import pytest
from apache_beam.testing.util import assert_that, equal_to
from pyarrow import parquet

from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.listing.cuts import (
    ByLines,
    ByRowGroups,
    Cut,
    LineRange,
    RowGroupRange,
)
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.packing import DeadLetterBatch
from beam_pipeline.core.references import ImageRef
from beam_pipeline.storage import files
from beam_pipeline.storage.listing import Files, list_local_root
from beam_pipeline.transforms import listing
from beam_pipeline.transforms.listing import cut_files
from beam_pipeline.work.file_parts import (
    PART_BYTES,
    FilePart,
    cut_file,
    read_lines,
)
from beam_pipeline.work.listing import list_files, list_folders
from beam_pipeline.work.outcome import Call, Outcome
from tests.pictures import write_files
from tests.rows import in_rows

Found = tuple[list[ImageRef], list[DeadLetter], Tally]
"""Images and dead letters, sorted, and the sum of all counts."""


def make_tree(folder: Path) -> None:
    """Makes folders of all kinds: deep, large, empty, hidden, linked; and files of all kinds."""
    names = [
        *(f"class_{c}/{i}.jpg" for c in range(6) for i in range(c)),
        *(f"large/image_{i:03d}.png" for i in range(40)),
        *(f"many/{i}/rgb.png" for i in range(15)),
        *("deep/a/b/c/d.jpg", "deep/a/e.GIF", "deep/a/labels.csv", "no_extension", "x.txt"),
        *(".git/y.jpg", "large/.hidden.jpg", "__MACOSX/z.jpg", "é/ü.jpg"),
        *("caf\udce9/b.jpg", "two\nlines.jpg"),
    ]
    write_files(str(folder), {name: name.encode(errors="replace") for name in names})
    os.mkdir(folder / "empty")
    os.mkfifo(folder / "large" / "pipe.jpg")
    os.symlink(folder / "gone.jpg", folder / "large" / "dangling.jpg")
    os.symlink(folder, folder / "deep" / "up")
    os.symlink(folder / "many", folder / "deep" / "many")
    os.symlink("itself.jpg", folder / "itself.jpg")


def found_in(outcomes: Iterable[Outcome]) -> Found:
    """What some outcomes hold."""
    images: list[ImageRef] = []
    dead_letters: list[DeadLetter] = []
    tally = Tally()
    for outcome in outcomes:
        images += [image for batch in outcome.main for image in batch]
        dead_letters += outcome.dead_letters
        tally.add(outcome.tally or Tally())
    return sorted(images), sorted(dead_letters), tally


def whole(root: ImageRoot) -> Found:
    """What is listed of a root at once."""
    outcomes = []
    for listed in list_local_root(root, 1000):
        count = len(listed.images) + len(listed.dead_letters)
        tally = Tally(count, listed.ignored, label_files=listed.label_files)
        tally.add_dead_letters(listed.dead_letters)
        outcomes.append(Outcome([listed.images], tally, DeadLetterBatch(listed.dead_letters)))
    return found_in(outcomes)


def listed(root: ImageRoot, most: int) -> Iterator[Outcome]:
    """The outcomes of listing a root, whose calls have been to other processes and back."""
    for made in list_folders(root, most):
        if isinstance(made, Call):
            assert sum(len(part.names) for part in made.arguments[1]) < 2 * most
            yield pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(made)).run()))
        else:
            yield made


@pytest.mark.parametrize("patterns", [(), ("**/*.jpg",), ("*/*",), ("**/*.png",)])
def test_any_division_lists_the_same(tmp_path: Path, patterns: tuple[str, ...]) -> None:
    """Images, dead letters, ignored files and label files are those of listing it at once."""
    make_tree(tmp_path)
    root = ImageRoot(str(tmp_path), patterns)
    for most in (1, 4, 7, 1000):
        assert found_in(listed(root, most)) == whole(root)


@pytest.mark.promise("unlisted_folder")
def test_a_folder_that_cannot_be_listed_is_a_refusal(tmp_path: Path) -> None:
    """What was listed before is not enough."""
    write_files(str(tmp_path), {f"{i}/{j}.jpg": b"x" for i in range(9) for j in range(3)})
    outcomes = listed(ImageRoot(str(tmp_path)), 3)
    assert len(found_in([next(outcomes)])[0]) == 3
    if os.geteuid():
        for folder in range(9):
            os.chmod(tmp_path / str(folder), 0o000)
    else:  # whom no mode keeps out
        shutil.rmtree(tmp_path)
    refused = found_in(outcomes)[2].refusals
    assert [refusal.error for refusal in refused] == ["ListingError"]
    reason = "Permission denied" if os.geteuid() else "No such file or directory"
    expected = rf"{re.escape(str(tmp_path))}/\d cannot be listed \({reason}\), so its images would"
    assert re.match(expected, refused[0].message)


def test_a_file_that_cannot_be_looked_at_is_a_refusal(tmp_path: Path) -> None:
    """Its folder has become a file meanwhile."""
    write_files(str(tmp_path), {"a": b"x"})
    outcome = list_files(ImageRoot(str(tmp_path)), [Files(f"{tmp_path}/a", ["b.jpg"])])
    (refused,) = found_in([outcome])[2].refusals
    assert refused.message.startswith(
        f"the size of {tmp_path}/a/b.jpg cannot be read (Not a directory); make the file and its"
    )


def test_many_folders_that_link_to_each_other_are_refused(tmp_path: Path) -> None:
    """The number of paths would grow with the factorial of their number."""
    folders = 4
    for number in range(folders):
        write_files(str(tmp_path), {f"f{number}/a.jpg": b"x"})
        for other in range(folders):
            if other != number:
                os.symlink(f"../f{other}", tmp_path / f"f{number}" / f"to{other}")
    (refused,) = found_in(listed(ImageRoot(str(tmp_path)), 100))[2].refusals
    assert re.match(
        rf"{tmp_path}/f\d/to\d/to\d/to\d: a link to a folder inside 2 other links, deeper than links are "
        rf"followed; name {tmp_path}/f\d in --images, or remove the link$",
        refused.message,
    )


LINES = b"uri,size\n" + b"".join(b"a%03d.jpg,1\n" % n for n in range(100))
CUTS: dict[str, Cut] = {"csv": ByLines(","), "parquet": ByRowGroups()}


def by_ending(path: str) -> Cut | None:
    return CUTS.get(path.rpartition(".")[2])


def cut_into(path: Path, size: int) -> list[Any]:
    """The ranges of the parts that a file is cut into; None for the whole file."""
    parts = cut_file(str(path), by_ending, size)
    assert {part.uri for part in parts} == {str(path)}
    return [part.range for part in parts]


def write_parquet(path: Path, rows: int) -> None:
    """A row a row group, of some 200 bytes before compression."""
    columns = {"uri": [f"{n:03d}" for n in range(rows)], "size": range(rows)}
    parquet.write_table(pyarrow.table(columns), path, row_group_size=1)


@in_rows
def test_where_a_file_is_cut(
    tmp_path: Path, name: str, content: str | None, size: int, ranges: list[tuple[int, ...]]
) -> None:
    """Each part knows its first line; what cannot be cut is one part, and reading reports what is not there."""
    if content is not None:
        (tmp_path / name).write_bytes(content.encode())
    expected = [LineRange(begin, end, first, regular=bool(r)) for begin, end, first, r in ranges]
    assert cut_into(tmp_path / name, size) == (expected or [None])


def test_parts_are_the_file(tmp_path: Path) -> None:
    """Put together in order; behind a quoted line break, the rest of the file is one part."""
    path = tmp_path / "a.csv"
    for content in (LINES, LINES + b'"a\nb",1\n' + LINES):
        path.write_bytes(content)
        parts = cut_into(path, 100)
        regular = [part for part in parts if part.regular]
        assert len(regular) >= 11 - (len(parts) > 11)
        found = b"".join(read_lines(str(path), part) for part in regular)
        rest = parts[len(regular) :]
        assert [(part.begin, part.end) for part in rest] == [(len(found), -1)] * len(rest)
        assert bool(rest) == (found != content == found + content[len(found) :])
        assert all(part.first == 1 + content[: part.begin].count(b"\n") for part in parts)


def test_a_file_that_cannot_be_looked_at_to_its_end_is_one_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of its lines is read twice."""
    (tmp_path / "a.csv").write_bytes(LINES)
    read_part = files.read_part

    def breaks(uri: str, size: int, offset: int) -> bytes:
        return read_part(uri if offset < 99 else f"{tmp_path}/gone", size, offset)

    monkeypatch.setattr(files, "read_part", breaks)
    assert cut_into(tmp_path / "a.csv", 100) == [None]


def test_a_parquet_file_is_cut_between_row_groups(tmp_path: Path) -> None:
    """One that is small on disk is not opened, and a broken one is read as a whole, which says so."""
    path = tmp_path / "a.parquet"
    write_parquet(path, 7)
    ranges = [(part.begin, part.end, part.first) for part in cut_into(path, 300)]
    assert ranges == [(0, 2, 1), (2, 4, 3), (4, 6, 5), (6, 7, 7)]
    assert cut_into(path, PART_BYTES) == [None]
    path.write_bytes(path.read_bytes()[:-1])
    assert cut_into(path, 300) == [None]


@pytest.mark.parametrize("spread", [False, True])
def test_files_are_cut_in_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spread: bool
) -> None:
    """Each file has its own parts."""
    write_files(str(tmp_path), {"a.csv": LINES, "b": b""})
    write_parquet(tmp_path / "c.parquet", 7)
    paths = [str(tmp_path / name) for name in ("a.csv", "b", "c.parquet")]
    monkeypatch.setattr(listing, "PART_BYTES", 300)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        parts = pipeline | beam.Create(paths) | cut_files(by_ending, spread=spread)
        expected = [part for path in paths for part in cut_file(path, by_ending, 300)]
        assert len(expected) == 4 + 1 + 4
        assert_that(parts | beam.Map(repr), equal_to(list(map(repr, expected))))


def test_a_part_has_the_size_of_its_range(tmp_path: Path) -> None:
    """That of a whole file is not known. Where the file has become shorter, rows would be lost: an error."""
    unknown, part = FilePart("a"), FilePart("a", RowGroupRange(0, 1, 1, 10, 20))
    assert (unknown.size, unknown.read_at_once) == (0, False)
    assert (part.size, part.read_at_once) == (20, True)
    (tmp_path / "a.csv").write_bytes(b"abc")
    with pytest.raises(OSError, match=r"a\.csv has become shorter while it was read"):
        read_lines(f"{tmp_path}/a.csv", LineRange(0, 9))
