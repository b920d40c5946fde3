"""Of each layout and each way to label samples: what an independent parser reads, bad files, memory, and a recorded row."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.core.labels.table_rows import Format
from beam_pipeline.layouts import layout, registry
from tests.conformance.groups import expected
from tests.harness import ALL_BAD, REPOSITORY, convert, dead_letters_of, python
from tests.layouts import proofs

_WITHOUT_LABELS = {
    *["cifar10", "cifar100", "class_folders", "file_names", "parquet", "table_of_parquet"]
}
"""Those whose labels are names of folders, or in files with the images."""

ROWS, MOST_BYTES = 100_000, 100
HELD = {"webdataset": 6000}
"""The bytes of a sample that are held while an archive is read, whose files of a sample may be far apart."""

LENGTHENED = sorted(
    {*proofs.PROOFS} - _WITHOUT_LABELS - {"coco", "coco_panoptic", "masks", "messages"}
)


def recorded_row(name: str) -> Mapping[str, Any]:
    """The recorded outcome of a proof's conversion."""
    group, _, row = proofs.PROOFS[name].row.partition("/")
    return expected(group)[row]


def test_every_layout_and_form_of_tables_has_its_proofs() -> None:
    """Each names a recorded row of its layout; what has labels in files has files that are spoilt."""
    assert registry.LAYOUTS.keys() <= proofs.PROOFS.keys()
    sources = {name: proofs.opened(name).source for name in proofs.PROOFS}
    assert {name: recorded_row(name)["layout"] for name in proofs.PROOFS} == {
        name: source.layout for name, source in sources.items()
    }
    assert [recorded_row(name)["layout"] for name in registry.LAYOUTS] == [*registry.LAYOUTS]
    tables = [getattr(s.labels, "reader", None) for s in sources.values()]
    assert {table.format for reader in tables for table in getattr(reader, "tables", ())} == {
        *Format
    }
    assert {name for name, s in sources.items() if isinstance(s.labels, layout.FileLabels)} == {
        *proofs.FILE_LABELS
    }
    others = {
        "list_of_names",
        "list_of_numbers",
        "captions",
        "lines_of_boxes",
        "messages",
        "via_json",
    }
    assert {
        fault.proof for fault in proofs.FAULTS
    } == proofs.PROOFS.keys() - _WITHOUT_LABELS - others


@pytest.mark.promise("bad_label", "books")
@pytest.mark.parametrize(
    ("name", "number"), sorted({(fault.proof, fault.number) for fault in proofs.FAULTS})
)
def test_what_is_spoilt_is_left_out_with_its_place(
    name: str, number: int, working_folder: Path
) -> None:
    """With its reason, file and line; all other samples are as the parser reads them."""
    argv = proofs.prepared(name)
    samples = proofs.expected_samples(proofs.PROOFS[name].parse())
    faults = [fault for fault in proofs.FAULTS if (fault.proof, fault.number) == (name, number)]
    places = [fault.spoil() for fault in faults]
    assert convert(*argv, ALL_BAD, "--name", "d", "--output", "out") == 0
    letters = dead_letters_of("out")
    for fault, place in zip(faults, places, strict=True):
        (letter,) = (each for each in letters if fault.is_of(each["key"]))
        named = letter.get("file", "-").removeprefix(f"{os.getcwd()}/"), letter.get("line", 0)
        assert (named[0].endswith(place), named[1]) == (
            fault.line != "-",
            int(fault.line.strip("-") or 0),
        )
        assert letter["reason"] == fault.reason
        assert fault.message in letter["message"]
        del samples[next(filter(fault.is_of, samples))]
    of_faults = Counter(fault.reason for fault in faults)
    reasons = Counter(letter["reason"] for letter in letters)
    of_others = reasons - of_faults - Counter(recorded_row(name).get("dead_letters", {}))
    assert of_others.keys() <= {"unlabelled"}, "images that a spoilt cell names no more"
    assert reasons >= of_faults
    assert proofs.written("out", samples) == samples


@pytest.mark.slow
@pytest.mark.parametrize("name", LENGTHENED)
def test_a_hundred_thousand_rows_are_read_in_bounded_memory(
    name: str, working_folder: Path
) -> None:
    """A reader keeps next to nothing of a row: none of its labels, which are a hundred bytes or more."""
    argv = proofs.prepared(name)
    for path in getattr(proofs.opened(name).source.labels, "files", ()):
        proofs.lengthen(Path(os.path.relpath(path, proofs.opened(name).folder)), ROWS)
    child = python("-m", proofs.__name__, ROWS, *argv, env={**os.environ, "PYTHONPATH": REPOSITORY})
    assert child.returncode == 0, child.stderr
    assert int(child.stdout) < HELD.get(name, MOST_BYTES) * ROWS
