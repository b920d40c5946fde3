"""The same five images as LabelMe, Supervisely, CVAT and VIA save what people draw on them."""

from __future__ import annotations

from tests.layouts.make_label_tools import exported
from tests.pictures import picture, write_files

SIZE = (40, 30)


def images() -> dict[str, bytes | str]:
    """The images; the last one has not been opened in the tool."""
    names = ("train/yard 1", "train/2", "train/3", "test/4", "test/5")
    return {f"{name}.jpg": picture(i, size=SIZE) for i, name in enumerate(names)}


def make_shape_tools(folder: str) -> None:
    """Writes a folder for each tool."""
    for tool, place in (("labelme", "/"), ("supervisely", "/img/"), ("cvat", "/"), ("via", "/")):
        below = "images/" if tool == "cvat" else ""
        pictures = {below + name.replace("/", place): data for name, data in images().items()}
        write_files(f"{folder}/{tool}", {**exported(tool), **pictures})
