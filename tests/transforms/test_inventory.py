"""Inventories as tasks and in a job: the batches that listing the roots would give."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from beam_pipeline.core import packing
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.errors import Refusal
from beam_pipeline.core.labels.matching import KeyDivision
from beam_pipeline.core.listing.filters import ImageRoot, LabelFile, LabelFiles
from beam_pipeline.core.packing import ImageBatch, items_of
from beam_pipeline.core.references import ImageRef
from beam_pipeline.transforms.listing import read_inventory
from beam_pipeline.work.file_parts import PART_BYTES, FilePart, cut_file
from beam_pipeline.work.job import unspill_all
from beam_pipeline.work.listing import InventoryTask, cut_of, list_group
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY
from tests.pictures import write_files
from tests.rows import in_rows
from tests.transforms.outputs import in_order, outputs

PETS, PHOTOS = ImageRoot("gs://pets"), ImageRoot("/photos")
URIS = st.sampled_from(
    [
        *("gs://pets/a.jpg", "gs://pets/cat/b.png", "gs://pets/c.txt", "gs://pets/.d/e.jpg"),
        *("gs://pets/f", "gs://pets/cat/", "gs://dogs/g.jpg", "gs://pets/h/.i.jpg"),
        "gs://pets/é.jpg",
        *("/photos/a.jpg", "/photos//b.jpg", "/photos/cat/../c.jpg", "/photos/é/d.JPEG"),
        *('"gs://pets/q,1.jpg"', '"gs://pets/two\nlines.jpg"', 'gs://pets/5".jpg'),
    ]
)
ROWS = st.lists(
    st.tuples(URIS, st.sampled_from(["1", " 2", "3x"]), st.sampled_from(["", "7", "8"])), max_size=7
)


def listed(parts: list[FilePart], roots: tuple[ImageRoot, ...]) -> tuple[list[Any], Tally]:
    """The images of some parts, and the sum of all counts."""
    total, groups = Tally(), defaultdict(list)
    for part in parts:
        outcome = InventoryTask(part, roots, KeyDivision(3)).run()
        for number, packed in outcome.main:
            groups[number].append(packed)
        total.add(outcome.tally or Tally())
    images = []
    for packed in groups.values():
        columns, tally = list_group(packed, roots)
        images += items_of(ImageRef, columns) if columns else ()
        total.add(tally)
    return sorted(images), total


@given(
    rows=ROWS,
    size=st.integers(5, 60),
    line_break=st.sampled_from(["\n", "\r\n"]),
    root=st.sampled_from([(PETS,), (PHOTOS,), (PETS, PHOTOS)]),
)
@example(
    rows=[("gs://pets/a.jpg", "1", ""), ("gs://pets/b.jpg", "1", "7")],
    size=20,
    line_break="\n",
    root=(PETS,),
)
@example(rows=[("/photos/a.jpg", "1", "8")] * 3, size=30, line_break="\r\n", root=(PHOTOS,))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_inventory_cut_anywhere_lists_the_same(
    tmp_path: Path,
    rows: list[tuple[str, str, str]],
    size: int,
    line_break: str,
    root: tuple[ImageRoot, ...],
) -> None:
    """Images and counts are those of the whole file; broken, it is refused either way."""
    path = tmp_path / "inventory.csv"
    lines = ["uri,size,generation", *map(",".join, rows)]
    path.write_bytes("".join(line + line_break for line in lines).encode())
    expected, whole = listed([FilePart(str(path))], root)
    found, total = listed(cut_file(str(path), cut_of, size), root)
    assert bool(total.refusals) is bool(whole.refusals)
    if not whole.refusals:
        assert found == expected
        assert total == whole


def test_the_line_of_a_fault_is_that_of_the_file(tmp_path: Path) -> None:
    """In whichever part it is."""
    path = tmp_path / "inventory.csv"
    rows = [f"gs://pets/{n}.jpg,{'x' if n == 60 else n}\n" for n in range(100)]
    path.write_text("uri,size\n" + "".join(rows))
    parts = cut_file(str(path), cut_of, 200)
    assert len(parts) > 5
    _, total = listed(parts, (PETS,))
    (refusal,) = total.refusals
    assert f"{path}, line 62: the column size contains 'x'" in str(refusal.to_error())


def test_a_file_that_two_parts_list_with_other_sizes_is_refused(tmp_path: Path) -> None:
    """With the lines of both."""
    path = tmp_path / "inventory.csv"
    rows = [f"gs://pets/{n % 50}.jpg,{1 + (n == 70)}\n" for n in range(100)]
    path.write_text("uri,size\n" + "".join(rows))
    _, total = listed(cut_file(str(path), cut_of, 200), (PETS,))
    (refusal,) = total.refusals
    assert f"line 72: '20.jpg' has 2 bytes, but 1 in {path}, line 22" in str(refusal.to_error())


@pytest.mark.parametrize(
    "columns", ["bucket,name,size", "size;name;bucket", '"bucket","name","size"']
)
def test_other_headers_are_read_by_columns_too(tmp_path: Path, columns: str) -> None:
    """Bucket and name make a URI."""
    mark = ";" if ";" in columns else ","
    cells = {"bucket": "pets", "name": "cat/1.jpg", "size": "5"}
    row = mark.join(cells[name.strip('"')] for name in columns.split(mark))
    path = tmp_path / "inventory.csv"
    path.write_bytes(f"\ufeff{columns}\n{row}\n".encode())
    (image,), total = listed(cut_file(str(path), cut_of, PART_BYTES), (PETS,))
    assert (image.key, image.uri, image.size) == ("cat/1.jpg", "gs://pets/cat/1.jpg", 5)
    assert total == Tally(listed=1)


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """A file that is gone, and one with other columns."""
    gone = InventoryTask(FilePart(str(tmp_path / "gone.csv")), (PETS,), KeyDivision(3))
    (refusal,) = (gone.run().tally or Tally()).refusals
    assert "gone.csv cannot be read: No such file" in str(refusal.to_error())
    (tmp_path / "bad.csv").write_text("a,b\n")
    (part,) = cut_file(str(tmp_path / "bad.csv"), cut_of, PART_BYTES)
    (refusal,) = (InventoryTask(part, (PETS,), KeyDivision(3)).run().tally or Tally()).refusals
    assert "the columns are 'a', 'b'" in str(refusal.to_error())


def write_parquet(path: Path, columns: dict[str, Any], rows: int) -> None:
    """Writes an inventory with row groups of so many rows."""
    parquet.write_table(pyarrow.table(columns), path, row_group_size=rows)


@given(
    rows=ROWS,
    group=st.integers(1, 4),
    size=st.integers(1, 900),
    form=st.sampled_from([(pyarrow.int64(), int), (pyarrow.string(), str)]),
    root=st.sampled_from([(PETS,), (PHOTOS,), (PETS, PHOTOS)]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_parquet_inventory_cut_anywhere_lists_what_csv_lists(
    tmp_path: Path,
    rows: list[tuple[str, str, str]],
    group: int,
    size: int,
    form: tuple[pyarrow.DataType, Callable[[str], Any]],
    root: tuple[ImageRoot, ...],
) -> None:
    """Whole or in parts, with generations as numbers or as text."""
    path, whole = tmp_path / "i.parquet", tmp_path / "i.csv"
    uris = [uri.replace('"', "") for uri, _, _ in rows]
    sizes = [len(uri) for uri in uris]
    kind, of_text = form
    versions = [of_text(version) if version else None for _, _, version in rows]
    with open(whole, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["uri", "size", "generation"])
        writer.writerows(zip(uris, sizes, versions, strict=True))
    columns = {
        "uri": pyarrow.array(uris, pyarrow.string()),
        "size": pyarrow.array(sizes, pyarrow.int32()),
        "generation": pyarrow.array(versions, kind),
    }
    write_parquet(path, columns, group)
    expected = listed([FilePart(str(whole))], root)
    assert listed([FilePart(str(path))], root) == expected
    assert listed(cut_file(str(path), cut_of, size), root) == expected


def test_the_row_of_a_fault_is_that_of_the_parquet_file(tmp_path: Path) -> None:
    """In whichever row group it is; of several faults, the first is reported."""
    path = tmp_path / "i.parquet"
    sizes = [None if n in (8, 60, 99) else n for n in range(100)]
    write_parquet(path, {"uri": [f"gs://pets/{n}.jpg" for n in range(100)], "size": sizes}, 7)
    parts = cut_file(str(path), cut_of, 200)
    assert len(parts) > 5
    message = f"--inventory {path}, row 9: the column size contains None, expected a whole number"
    for found in (parts, [FilePart(str(path))]):
        assert listed(found, (PETS,))[1].refusals[0].message == message


@pytest.mark.parametrize("damage", ["changed", "cut short", "damaged"])
def test_a_parquet_file_that_changes_after_its_cut_is_refused(tmp_path: Path, damage: str) -> None:
    """No row is lost, and none is read twice."""
    path = tmp_path / "i.parquet"
    columns = {"uri": [f"gs://pets/{n}.jpg" for n in range(100)], "size": [7] * 100}
    write_parquet(path, columns, 50)
    parts = cut_file(str(path), cut_of, 10)
    data = path.read_bytes()
    if damage == "changed":
        write_parquet(path, columns, 30)
    elif damage == "cut short":
        path.write_bytes(data[:-9])
    else:
        path.write_bytes(data[:4] + b"\xff" * 99 + data[103:])
    _, total = listed(parts, (PETS,))
    message = total.refusals[0].message
    assert message.startswith(f"--inventory {path} is damaged or cut short (")
    assert message.endswith("); make it again")


A_TEXT = LabelFiles(Counter({".txt": 1}), {".txt": [LabelFile("a.txt", "gs://pets/dogs/a.txt")]})


@in_rows
def test_inventories_are_listed_as_their_roots_would_be(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    roots: list[str],
    inventories: list[str],
    images: list[tuple[Any, ...]],
    ignored: dict[str, int],
    refusals: list[str],
) -> None:
    """In batches of any size; some inventories are read in a job."""
    monkeypatch.chdir(tmp_path)
    image_roots = tuple(map(ImageRoot, roots))
    texts = {f"{n}.csv": inventory.split() for n, inventory in enumerate(inventories)}
    header = "uri,size,generation,timeDeleted"
    write_files(".", {name: "\n".join([header, *lines, ""]) for name, lines in texts.items()})

    def build(pipeline: beam.Pipeline) -> dict[str, Any]:
        reading = read_inventory(tuple(texts), image_roots, KeyDivision(7))
        read = pipeline | reading
        groups = read["images"] | beam.GroupByKey()
        found = groups | beam.Map(lambda group: list_group(unspill_all(group[1]), image_roots))
        listed = found | "Images" >> beam.Map(lambda of: ImageBatch(items_of(ImageRef, of[0])))
        counts = (read[TALLY], found | "Counts" >> beam.Map(lambda of: of[1])) | beam.Flatten()
        return {"images": listed, DEAD_LETTERS: read[DEAD_LETTERS], TALLY: counts}

    tally = Tally(len(images), Counter(ignored))
    tally.label_files = A_TEXT if ".txt" in ignored else LabelFiles()
    tally.refusals = [Refusal("InventoryError", message) for message in refusals]
    expected = in_order(ImageRef(*image) for image in images)
    for batch_size in (1, 2, 4096):
        monkeypatch.setattr(packing, "BATCH_SIZE", batch_size)
        assert outputs(build, "images", DEAD_LETTERS, TALLY) == [expected, [], tally]
