"""Conversions in a notebook."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import beam_pipeline
from tests.pictures import write_pictures


def test_a_conversion_in_a_notebook_needs_nothing_of_beams_interactive_runner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beam's own answer on where it runs is back afterwards."""
    import apache_beam.pipeline
    from apache_beam.utils import interactive_utils

    shell = SimpleNamespace(config={}, execution_count=1)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "apache_beam.runners.interactive", None)
    write_pictures(f"{tmp_path}/photos", ["cat/1.jpg", "dog/2.jpg"])
    dataset = beam_pipeline.convert(
        f"{tmp_path}/photos", output=f"{tmp_path}/out", writers=0, progress=False
    )
    assert dataset.splits == {"train": 2}
    assert interactive_utils.is_in_ipython() is apache_beam.pipeline.is_in_ipython() is True
