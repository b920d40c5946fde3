"""COCO's JSON files, opened with errors that name them."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.layouts.coco.json_file import values_at
from beam_pipeline.layouts.coco.opening import opened


def test_a_file_is_open_at_its_beginning(tmp_path: Path) -> None:
    """And closed after the block."""
    path = tmp_path / "x.json"
    path.write_bytes(b'{"images": [7, "a"]}')
    with opened(str(path)) as file:
        assert list(values_at(file, "images.item")) == [7, "a"]
    assert file.closed


def test_what_is_no_json_is_said(tmp_path: Path) -> None:
    """With what to do, wherever the block finds it."""
    path = tmp_path / "x.json"
    path.write_bytes(b'{"images": [7, ')
    with pytest.raises(LabelTableError) as caught, opened(str(path)) as file:
        list(values_at(file, "images.item"))
    assert str(caught.value).startswith(f"{path} is not the JSON of COCO: ")
    assert str(caught.value).endswith("; mend it or fetch it again")


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    """An error while reading, too."""
    gone = str(tmp_path / "gone.json")
    with pytest.raises(LabelTableError) as absent, opened(gone):
        pass
    assert str(absent.value) == f"--labels {gone} cannot be read: No such file or directory"
    path = tmp_path / "x.json"
    path.write_bytes(b"{}")
    with pytest.raises(LabelTableError) as broken, opened(str(path)):
        raise OSError(errno.EIO, "Input/output error")
    assert str(broken.value) == f"--labels {path} cannot be read: Input/output error"
