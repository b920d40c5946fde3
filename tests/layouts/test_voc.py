"""Pascal VOC: whole years, and sets that LabelImg wrote."""

from __future__ import annotations

import tracemalloc

from beam_pipeline.layouts import voc
from tests.layouts.make_voc import CAT

# --- the reader ----------------------------------------------------------------------------------


def test_deep_nesting_costs_no_memory() -> None:
    """Ten thousand levels inside an object are passed over, and their paths are not kept."""
    deep = "<a>" * 10_000 + "</a>" * 10_000
    data = CAT.replace("\t</object>", f"{deep}\t</object>").encode()
    voc.VocFormat().parse(data, "")  # imports what it needs
    tracemalloc.start()
    try:
        values, *_ = voc.VocFormat().parse(data, "")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert values[1] == ("cat",)
    assert peak < 10 << 20
