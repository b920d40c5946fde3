"""The layouts that `--layout` knows, by name. A module is imported when its layout is asked.

README.md in this folder shows how to add one, here or in a package of your own.
"""

from __future__ import annotations

import difflib
import pkgutil
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.plugins import LAYOUT_GROUP, bad_plugin, load, plugins_of
from beam_pipeline.layouts.layout import Layout

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

AUTO = "auto"

LAYOUTS: Mapping[str, str] = {
    "file_names": "beam_pipeline.layouts.class_folders:FileNames",
    "cifar10": "beam_pipeline.layouts.cifar:Cifar10",
    "cifar100": "beam_pipeline.layouts.cifar:Cifar100",
    "webdataset": "beam_pipeline.layouts.webdataset:WebDataset",
    "parquet": "beam_pipeline.layouts.parquet:Parquet",
    "labelme": "beam_pipeline.layouts.shape_tools:LabelMe",
    "supervisely": "beam_pipeline.layouts.shape_tools:Supervisely",
    "cvat": "beam_pipeline.layouts.shape_tools:Cvat",
    "via": "beam_pipeline.layouts.shape_tools:Via",
    "kitti": "beam_pipeline.layouts.kitti:Kitti",
    "voc": "beam_pipeline.layouts.voc:Voc",
    "label_studio": "beam_pipeline.layouts.label_tools:LabelStudio",
    "labelbox": "beam_pipeline.layouts.label_tools:Labelbox",
    "ultralytics": "beam_pipeline.layouts.label_tools:Ultralytics",
    "hasty": "beam_pipeline.layouts.label_tools:Hasty",
    "datumaro": "beam_pipeline.layouts.label_tools:Datumaro",
    "coco_panoptic": "beam_pipeline.layouts.coco:CocoPanoptic",
    "coco": "beam_pipeline.layouts.coco:Coco",
    "yolo": "beam_pipeline.layouts.yolo:Yolo",
    "pairs": "beam_pipeline.layouts.pairs:Pairs",
    "masks": "beam_pipeline.layouts.masks:Masks",
    "imagefolder": "beam_pipeline.layouts.table:ImageFolder",
    "caption_files": "beam_pipeline.layouts.caption_files:CaptionFiles",
    "automl": "beam_pipeline.layouts.automl:Automl",
    "table": "beam_pipeline.layouts.table:Table",
    "class_folders": "beam_pipeline.layouts.class_folders:ClassFolders",
}
"""Name -> `module:class`, like an entry point; the class is called without arguments.

`auto` asks them in this order: those that look for more come first.
"""


def all_layouts() -> Iterator[Layout]:
    """Yields each layout, in the order of `auto`: plugins first, since `table` accepts any label file."""
    yield from map(_plugin, plugins_of(LAYOUT_GROUP, LAYOUTS).values())
    yield from map(layout_named, LAYOUTS)


def layout_named(name: str) -> Layout:
    """Returns a layout. Raises UsageError if the name is unknown, or its plugin cannot be used."""
    if name not in LAYOUTS:
        plugins = plugins_of(LAYOUT_GROUP, LAYOUTS)
        if name in plugins:
            return _plugin(plugins[name])
        names = [AUTO, *LAYOUTS, *plugins]
        close = difflib.get_close_matches(name, names, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise UsageError(f"--layout is {name!r}, expected one of {', '.join(names)}{hint}")
    layout: Layout = pkgutil.resolve_name(LAYOUTS[name])()
    return layout


def _plugin(point: EntryPoint) -> Layout:
    """Returns the layout of a plugin. Raises UsageError if it cannot be used."""
    make = load(point)
    layout = make() if callable(make) else make
    if not isinstance(layout, Layout) or layout.name != point.name:
        expected = f"name = {point.name!r}, option_names, recognise() and open()"
        raise bad_plugin(point, f"is not the class of a layout with {expected}")
    return layout
