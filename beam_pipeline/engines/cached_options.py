"""Beam's options, whose views are made once.

Beam asks for a view of its options some 200 times while it builds and starts a job. For each it builds
a parser of the command line, which adds up to a quarter of a second's job.
"""

from __future__ import annotations

from typing import Any, TypeVar

from apache_beam.options.pipeline_options import PipelineOptions

_View = TypeVar("_View", bound=PipelineOptions)
_VIEWS = "_cached_views"


class CachedOptions(PipelineOptions):
    """Options of which each view is made once; all of them share the values, as Beam's do."""

    def view_as(self, cls: type[_View]) -> _View:
        """The view of a class of options."""
        views: dict[type[PipelineOptions], Any] = self.__dict__.setdefault(_VIEWS, {})
        if cls not in views:
            views[cls] = super().view_as(cls)
        view: _View = views[cls]
        return view

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != _VIEWS}
