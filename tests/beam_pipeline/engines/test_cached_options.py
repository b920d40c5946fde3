"""The options of Beam whose views are made once."""

from __future__ import annotations

import copy
import pickle

import pytest
from apache_beam.options.pipeline_options import (
    DirectOptions,
    PipelineOptions,
    StandardOptions,
    WorkerOptions,
)

from beam_pipeline.engines.base import CachedOptions

ARGV = ["--runner=PrismRunner", "--direct_num_workers=3", "--unknown=1"]


def test_they_have_the_values_of_beam_s() -> None:
    """All of them, also those of views that were never made."""
    assert CachedOptions(ARGV).get_all_options() == PipelineOptions(ARGV).get_all_options()
    assert CachedOptions(ARGV).view_as(StandardOptions).runner == "PrismRunner"


def test_a_view_is_made_once_and_shares_its_values() -> None:
    """A value that is set in one is there in all, as with Beam's."""
    options = CachedOptions(ARGV)
    view = options.view_as(DirectOptions)
    assert options.view_as(DirectOptions) is view
    view.direct_num_workers = 7
    assert options.get_all_options()["direct_num_workers"] == 7
    assert options.view_as(StandardOptions).view_as(DirectOptions).direct_num_workers == 7
    options.view_as(WorkerOptions).num_workers = 2
    assert view.view_as(WorkerOptions).num_workers == 2


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_has_values_of_its_own(copied: object) -> None:
    """The views stay behind."""
    options = CachedOptions(ARGV)
    options.view_as(DirectOptions)
    twin: CachedOptions = copied(options)  # type: ignore[operator]
    twin.view_as(DirectOptions).direct_num_workers = 9
    assert options.view_as(DirectOptions).direct_num_workers == 3
    assert twin.get_all_options()["direct_num_workers"] == 9
