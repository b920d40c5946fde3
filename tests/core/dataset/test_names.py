"""Names inside the output folder."""

from __future__ import annotations

import os

from beam_pipeline.core.dataset.names import (
    INCOMPLETE_FOLDER,
    RECEIPTS_FOLDER,
    temporary_name,
    writer_of,
)


def test_the_folders_are_hidden() -> None:
    """No listing of images and no reader of shards looks into them."""
    assert (INCOMPLETE_FOLDER, RECEIPTS_FOLDER) == (".incomplete", ".receipts")


def test_temporary_names_are_unique() -> None:
    """Two writers of one file do not mix their bytes."""
    assert temporary_name("/out/a") != temporary_name("/out/a")


def test_a_temporary_name_says_whose_it_is() -> None:
    """The file and the process that writes it; receipts are written beside the shards' folder."""
    name = temporary_name("/out/d-train.tfrecord-00000-of-00001")
    assert name.startswith("/out/.incomplete/d-train.tfrecord-00000-of-00001.")
    assert writer_of(name) == ("d-train.tfrecord-00000-of-00001", os.getpid())
    assert temporary_name("/out/.receipts/r.json.gz").startswith("/out/.incomplete/r.json.gz.")
    assert temporary_name("/out/.incomplete/plan.json").startswith("/out/.incomplete/plan.json.")
    assert writer_of("/out/.incomplete/plan.json") is None
