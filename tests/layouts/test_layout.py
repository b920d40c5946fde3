"""Sources, the options that layouts share, and the registry."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import BinaryIO

import pytest

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.images.preparation import PixelFormat
from beam_pipeline.core.labels.classes import ClassNumbering
from beam_pipeline.core.labels.schema import CLASS_FOLDER_COLUMNS
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.references import LabelRow, SampleRef
from beam_pipeline.layouts.layout import (
    ContainerLabels,
    FileLabels,
    FolderLabels,
    Labels,
    Source,
    SourceOptions,
)
from beam_pipeline.layouts.registry import LAYOUTS, all_layouts
from tests.engines.same_bytes import LAYOUT_SETS


class Reader:
    """Reads a file as one row that names an image as the file does."""

    def read(self, file: BinaryIO, uri: str) -> Iterator[LabelRow | DeadLetter]:
        yield LabelRow(file.read().decode(), (), "", uri, 1)


class Unpacker:
    """Reads a container as one sample."""

    def read(self, uri: str, unpack_to: str) -> Iterator[SampleRef | DeadLetter]:
        yield SampleRef("1", unpack_to, 1, "train", (), origin=uri)


ROOTS = (ImageRoot("/photos"), ImageRoot("gs://pets"))


@pytest.mark.parametrize(
    ("labels", "uris"),
    [
        (FolderLabels(), ()),
        (FileLabels(Reader(), files=("/a.csv", "/b.csv")), ("/a.csv", "/b.csv")),
        (FileLabels(Reader(), folders=(ImageRoot("/labels", ("*.txt",)),)), ("/labels",)),
        (ContainerLabels(Unpacker(), ("/batch_1",)), ("/batch_1",)),
    ],
)
def test_a_source_names_all_that_is_read(labels: Labels, uris: tuple[str, ...]) -> None:
    """Roots of images, and files or folders of labels or containers."""
    source = Source("x", ROOTS, labels, LabelledImages(CLASS_FOLDER_COLUMNS))
    assert source.uris == ("/photos", "gs://pets", *uris)


def test_a_source_has_the_columns_and_pixels_of_its_examples() -> None:
    """They are told to the rest of the job by the source alone."""
    source = Source(
        "x", (), FolderLabels(), LabelledImages(CLASS_FOLDER_COLUMNS, PixelFormat(8, 9))
    )
    assert (source.columns, source.pixels) == (CLASS_FOLDER_COLUMNS, PixelFormat(8, 9))
    assert Source("x", (), FolderLabels(), LabelledImages(())).pixels is None
    assert (source.notes, source.questions, source.numbering) == ((), (), ClassNumbering())


@pytest.mark.parametrize("named", [{}, {"files": ("/a",), "folders": ROOTS}])
def test_label_files_come_by_name_or_by_folder(named: dict[str, tuple[str, ...]]) -> None:
    """Neither or both is a mistake of the layout."""
    with pytest.raises(AssertionError, match="label files come by name or by folder"):
        FileLabels(Reader(), **named)


def test_classes_are_numbered_as_asked_for_or_as_the_layout_has_it() -> None:
    """The layout's own first id counts where the person said none."""
    for order in ("code_point", "numeric"):
        options = SourceOptions((), label_order=order)
        assert options.numbering() == ClassNumbering(0, order)
        assert options.numbering(base=1) == ClassNumbering(1, order)
    asked = SourceOptions((), label_base=0, label_order="numeric")
    assert asked.numbering(base=1) == ClassNumbering(0, "numeric")
    assert SourceOptions((), class_ids="keep").numbering().from_name


def test_ids_from_names_have_no_first_one() -> None:
    """Both options together are an error."""
    options = SourceOptions((), class_ids="keep", label_base=0)
    with pytest.raises(UsageError, match=r"^--label_base means nothing with --class_ids keep"):
        options.numbering()


def test_the_registry_names_layouts_as_they_name_themselves() -> None:
    """Each entry leads to a layout of that name, of which every engine converts a data set."""
    assert [layout.name for layout in all_layouts()] == list(LAYOUTS)
    assert LAYOUT_SETS.keys() == LAYOUTS.keys()


def test_the_names_of_layouts_import_none() -> None:
    """As `--help` needs them."""
    code = "import sys, beam_pipeline.options; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = {entry.partition(":")[0] for entry in LAYOUTS.values()}
    assert not modules & set(run.stdout.split())
