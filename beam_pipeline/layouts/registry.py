"""The layouts that `--layout` knows, by name. A module is imported when its layout is asked.

README.md in this folder shows how to add one.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterator, Mapping

from beam_pipeline.core.errors import UsageError
from beam_pipeline.layouts.layout import Layout

AUTO = "auto"

LAYOUTS: Mapping[str, str] = {
    "file_names": "beam_pipeline.layouts.class_folders:FileNames",
    "cifar10": "beam_pipeline.layouts.cifar:cifar10",
    "cifar100": "beam_pipeline.layouts.cifar:cifar100",
    "webdataset": "beam_pipeline.layouts.webdataset:WebDataset",
    "parquet": "beam_pipeline.layouts.parquet:Parquet",
    "kitti": "beam_pipeline.layouts.kitti:Kitti",
    "voc": "beam_pipeline.layouts.voc:Voc",
    "coco_panoptic": "beam_pipeline.layouts.coco.layout:CocoPanoptic",
    "coco": "beam_pipeline.layouts.coco.layout:Coco",
    "yolo": "beam_pipeline.layouts.yolo:Yolo",
    "masks": "beam_pipeline.layouts.masks:Masks",
    "imagefolder": "beam_pipeline.layouts.imagefolder:ImageFolder",
    "caption_files": "beam_pipeline.layouts.caption_files:CaptionFiles",
    "automl": "beam_pipeline.layouts.automl:Automl",
    "table": "beam_pipeline.layouts.table:Table",
    "class_folders": "beam_pipeline.layouts.class_folders:ClassFolders",
}
"""Name -> `module:class`, like an entry point; the class is called without arguments.

`auto` asks them in this order: those that look for more come first.
"""


def all_layouts() -> Iterator[Layout]:
    """Yields each layout, in the order of `auto`."""
    yield from map(layout_named, LAYOUTS)


def layout_named(name: str) -> Layout:
    """Returns a layout. Raises UsageError if it is missing of that name."""
    if name not in LAYOUTS:
        names = [AUTO, *LAYOUTS]
        close = difflib.get_close_matches(name, names, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise UsageError(f"--layout is {name!r}, expected one of {', '.join(names)}{hint}")
    module, _, attribute = LAYOUTS[name].partition(":")
    layout: Layout = getattr(importlib.import_module(module), attribute)()
    return layout
