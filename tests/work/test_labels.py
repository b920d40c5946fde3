"""Labelling, joining and reading rows as tasks, and keys of samples to leave out."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from beam_pipeline.core import errors
from beam_pipeline.core.dataset.splits import GroupBy, SplitAssigner
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.labels import table_rows
from beam_pipeline.core.labels.samples import AGREE, RowMerger
from beam_pipeline.core.labels.schema import ColumnChoices
from beam_pipeline.core.labels.table_files import TableHead
from beam_pipeline.core.labels.tables import inspect_tables
from beam_pipeline.core.packing import pack, unpacked_size
from beam_pipeline.core.records.sharding import SplitFractions
from beam_pipeline.core.references import ImageRef, LabelRow
from beam_pipeline.layouts.named_files import LocalCopy
from beam_pipeline.layouts.table import TableReader
from beam_pipeline.work import labels
from beam_pipeline.work.file_parts import FilePart, cut_file
from beam_pipeline.work.outcome import Outcome

IMAGES = [
    ImageRef(f"{folder}/{n}.jpg", f"/photos/{folder}/{n}.jpg", n)
    for folder in ("cat", "train/dog")
    for n in range(9)
]
ROWS = [
    LabelRow(image.key, (f"class {n % 3}",), "test" if n % 4 == 0 else "", "/labels.csv", n + 2)
    for n, image in enumerate(IMAGES[:-2])
]
SHARES = SplitFractions((("a", Fraction(1, 2)), ("b", Fraction(1, 2))))
FOLDER = GroupBy("folder")


class UnnamedCats:
    """Images that no row names are cats."""

    def row(self, image: ImageRef) -> LabelRow:
        return LabelRow(image.key, ("cat",), "", "", 0)

    def unread(self, uri: str, problem: str) -> LabelRow:
        return LabelRow(uri, ("cat",), "", uri, 0, problem)


def shown(label: Callable[[], Outcome]) -> Any:
    """Samples, dead letters and counts of an outcome."""
    outcome = label()
    samples = sorted(ref for batch in outcome.main for ref in batch)
    return samples, sorted(outcome.dead_letters), outcome.tally


@pytest.mark.parametrize(
    "splits",
    [
        SplitAssigner(None, 0),
        SplitAssigner(SHARES, 3),
        SplitAssigner(SHARES, 3, stratified=True),
        SplitAssigner(SHARES, 3, FOLDER),
    ],
)
@pytest.mark.parametrize("merger", [AGREE, RowMerger(unnamed=UnnamedCats())])
def test_by_columns_or_one_by_one_the_outcome_is_the_same(
    splits: SplitAssigner, merger: RowMerger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples, their splits, dead letters and counts."""
    labelling = labels.Labelling(splits)
    label = partial(
        labels.in_portions,
        labels.LabelImages(None, labelling),
        [pack(IMAGES[:5]), pack(IMAGES[5:])],
    )
    rows = [pack(ROWS[3:]), pack(ROWS[:3])]
    join = partial(labels.in_portions, labels.JoinRows(merger, labelling), [pack(IMAGES)], rows)
    assert labelling.takes_columns is (splits.group_by is None)
    by_columns = shown(label), shown(join)
    assert len(by_columns[0][0]) == 18
    assert len(by_columns[1][0]) == (18 if merger.unnamed else 16)
    monkeypatch.setattr(labels.Labelling, "takes_columns", False)
    assert by_columns == (shown(label), shown(join))


def test_images_of_one_key_are_dead_letters_where_keys_may_repeat() -> None:
    """The others are labelled."""
    labelling = labels.Labelling(SplitAssigner(None, 0))
    twice = ImageRef("cat/0.jpg", "/more/cat/0.jpg", 0)
    label = partial(
        labels.LabelImages(None, labelling, may_repeat=True), [pack(IMAGES), pack([twice])]
    )
    samples, dead_letters, _ = shown(label)
    assert (len(samples), [letter.key for letter in dead_letters]) == (17, ["cat/0.jpg"] * 2)


@pytest.mark.parametrize("packed", [1 << 24, 400, 40])
def test_large_buckets_are_worked_on_in_portions(
    packed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same outcome: samples, dead letters of images and rows without the other, repeated keys, counts."""
    images = [
        ImageRef(f"{n % 50:03d}/{n}.jpg", f"/photos/{n % 50:03d}/{n}.jpg", n) for n in range(999)
    ]
    rows = [LabelRow(image.key, ("cat",), "", "/labels.csv", n) for n, image in enumerate(images)]
    labelling = labels.Labelling(SplitAssigner(SHARES, 3))
    twice = [pack(images), pack(images[:9])]
    label = partial(labels.in_portions, labels.LabelImages(None, labelling, may_repeat=True), twice)
    parts = [pack(images[9:])], [pack(rows[5:]), pack(rows[:3])]
    join = partial(labels.in_portions, labels.JoinRows(AGREE, labelling), *parts)
    folders = [LabelRow(f"photos/{n:03d}/", ("cat",), "", "/l.csv", n) for n in range(55)]
    of_folders = labels.JoinRows(RowMerger(level=1), labelling), twice[:1], [pack(folders)]
    join_folders = partial(labels.in_portions, *of_folders, level=1)
    usual = shown(label), shown(join), shown(join_folders)
    counts = [(len(samples), len(letters)) for samples, letters, _ in usual]
    assert counts == [(990, 18), (990, 7), (999, 5)]
    monkeypatch.setattr(labels, "_MOST_UNPACKED", packed)
    monkeypatch.setattr(labels, "_DIVIDED_AT_ONCE", packed)
    monkeypatch.setattr(labels, "_MOST_SAMPLES", 7)
    assert max(len(batch) for batch in label().main) == 7
    assert (shown(label), shown(join), shown(join_folders)) == usual


def test_names_that_pack_well_fill_as_many_portions_as_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Numbered names take a fraction of a byte packed, and as much memory as others unpacked."""
    packed = pack([ImageRef(f"{n:06d}.jpg", f"/p/{n:06d}.jpg", 9) for n in range(5000)])
    monkeypatch.setattr(labels, "_MOST_UNPACKED", 2 * len(packed))
    portions = []

    def work(parts: Any) -> Outcome:
        portions.append(parts)
        return Outcome()

    labels.in_portions(work, [packed])
    assert len(portions) == -(-unpacked_size(packed) // (2 * len(packed))) > 9


CELLS = st.sampled_from(
    ["a.jpg", "c/b", "cat", "7", "", " x ", "é", '"q, r"', '"two\nlines"', 'b"', '"']
)
LINES = st.lists(st.lists(CELLS, min_size=1, max_size=3).map(",".join), max_size=8)
HEADS = {
    ".csv": ("filename,label\na.jpg,cat\n", None),
    ".jsonl": ('{"filename": "a.jpg", "label": "cat"}\n{}', None),
    ".parquet": ("", table_rows.TableRows([1], {"filename": ["a.jpg"], "label": ["cat"]})),
}


def reader_of(path: Path, encoding: str = "") -> TableReader:
    text, rows = HEADS[path.suffix]
    head = TableHead(str(path), text.encode(encoding or "utf-8"), False, rows)
    schema, tables = inspect_tables([head], ColumnChoices(labels_encoding=encoding))
    return TableReader(tables, schema, LocalCopy())


def read(path: Path, parts: list[FilePart], encoding: str = "") -> tuple[Any, Any, Tally]:
    """Rows, dead letters and counts of some parts."""
    rows, letters, total = [], [], Tally()
    for part in parts:
        outcome = labels.RowsTask([part], reader_of(path, encoding)).run()
        rows += [row for batch in outcome.main for row in batch]
        letters += list(outcome.dead_letters)
        total.add(outcome.tally or Tally())
    return rows, letters, total


def assert_rows_are_those_of_the_file(path: Path, size: int, encoding: str = "") -> list[FilePart]:
    """Dead letters, the numbers of rows and errors included, when the file is cut; returns its parts.

    Of a file with an error, it may have fewer rows before it.
    """
    rows, letters, refused = [], [], []
    with open(path, "rb") as file:
        try:
            for part in reader_of(path, encoding).read(file, str(path)):
                if isinstance(part, DeadLetter):
                    letters.append(part)
                else:
                    rows += part
        except errors.LabelTableError as error:
            refused.append(str(error))
    parts = cut_file(str(path), reader_of(path, encoding).cut_of, size)
    found = read(path, parts, encoding)
    assert [refusal.message for refusal in found[2].refusals] == refused
    if not refused:
        assert (repr(found[0]), found[1]) == (repr(rows), letters)
        assert found[2].label_rows == len(rows) + len(letters)
        assert found[2].orphan_rows == len(letters)
    return parts


one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@one_folder
@given(
    lines=LINES,
    size=st.integers(5, 60),
    block=st.integers(5, 60),
    form=st.sampled_from([("\n", ""), ("\r\n", "cp1252"), ("\n", "utf-16")]),
)
def test_a_table_cut_anywhere_has_the_same_rows(
    tmp_path: Path, lines: list[str], size: int, block: int, form: tuple[str, str]
) -> None:
    """Whatever its quotes do."""
    line_break, encoding = form
    path = tmp_path / "labels.csv"
    text = "".join(line + line_break for line in ["filename,label", *lines])
    path.write_bytes(text.encode(encoding or "utf-8"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(table_rows, "BLOCK_BYTES", block)
        assert_rows_are_those_of_the_file(path, size, encoding)


@one_folder
@given(names=st.lists(st.text(max_size=5), max_size=9), size=st.integers(5, 60))
def test_json_lines_cut_anywhere_have_the_same_rows(
    tmp_path: Path, names: list[str], size: int
) -> None:
    """Quotes and escapes mean nothing to their lines."""
    path = tmp_path / "labels.jsonl"
    rows = [f'{{"filename": "{name}", "label": "cat"}}\n' for name in names]
    path.write_bytes("".join(rows).encode("utf-8", "replace"))
    assert_rows_are_those_of_the_file(path, size)


@one_folder
@given(
    names=st.lists(st.sampled_from(["a.jpg", "c/b", "", None]), max_size=9),
    group=st.integers(1, 4),
    size=st.integers(1, 900),
)
def test_a_parquet_table_cut_anywhere_has_the_same_rows(
    tmp_path: Path, names: list[str | None], group: int, size: int
) -> None:
    """One that changes after it was cut is refused, so that no row is lost."""
    path = tmp_path / "labels.parquet"
    columns = {
        "filename": pyarrow.array(names, pyarrow.string()),
        "label": pyarrow.array([f"{n}" for n in range(len(names))], pyarrow.string()),
    }
    parquet.write_table(pyarrow.table(columns), path, row_group_size=group)
    parts = assert_rows_are_those_of_the_file(path, size)
    assert size > 1 or len(parts) == max(1, -(-len(names) // group))
    if len(parts) > 1:
        parquet.write_table(pyarrow.table(columns), path, row_group_size=group + 1)
        assert read(path, parts)[2].refusals[0].message == (
            f"{path} is not a Parquet file, or is damaged or cut short (it has changed since its footer "
            "was read); write it again"
        )


def test_a_file_that_cannot_be_read_is_a_dead_letter(tmp_path: Path) -> None:
    """One row, that of the file."""
    path = tmp_path / "gone.csv"
    rows, (letter,), tally = read(path, [FilePart(str(path))])
    assert rows == []
    assert (letter.key, letter.message) == (str(path), "cannot be read: No such file or directory")
    assert (tally.label_rows, tally.orphan_rows) == (1, 1)


KEYS = "".join(f"class_{i % 100:03d}/img_{i:07d}.jpg\n" for i in range(100_000)).encode()


@pytest.mark.parametrize("workers_read_it", [False, True])
def test_many_keys_travel_in_few_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers_read_it: bool
) -> None:
    """By the name of a file that workers see, else deflated to a tenth; the keys arrive."""
    monkeypatch.setattr(labels, "is_remote", lambda _: workers_read_it)
    labels._arrived.cache_clear()
    path = tmp_path / "keys.txt"
    path.write_bytes(KEYS)
    pickled = pickle.dumps(replace(labels.read_exclusion(KEYS, str(path)), files=(1, 3)))
    assert len(pickled) < (300 + len(str(path)) if workers_read_it else len(KEYS) / 8)
    arrived = pickle.loads(pickled)
    assert arrived == labels.read_exclusion(KEYS, str(path), (1, 3))
    assert len(arrived.lines) == 100_000
    assert pickle.dumps(arrived) == pickled
    assert pickle.loads(pickled) is arrived


def test_a_file_that_changes_while_the_job_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is an error: workers would leave out different images."""
    monkeypatch.setattr(labels, "is_remote", lambda _: True)
    path = tmp_path / "keys.txt"
    path.write_bytes(b"a.jpg\n")
    pickled = pickle.dumps(labels.read_exclusion(b"a.jpg\n", str(path)))
    path.write_bytes(b"b.jpg\n")
    with pytest.raises(
        errors.ChangedInputsError, match=r"--exclude: .*keys.txt has changed since the job"
    ):
        pickle.loads(pickled)
