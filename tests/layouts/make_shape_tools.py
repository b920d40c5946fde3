"""The same five images as LabelMe, Supervisely, CVAT and VIA save what people draw on them."""

from __future__ import annotations

import base64
import io
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from xml.sax.saxutils import quoteattr

from PIL import Image

from tests.pictures import picture, write_files

SIZE = (40, 30)


class Drawn(NamedTuple):
    """A shape: its class, its kind, its numbers, and values that people gave it."""

    label: str
    kind: str
    numbers: Sequence[float]
    values: Mapping[str, str] = {}


BITS = ("01110", "11011", "01110")
"""A mask of 5 x 3 pixels with a hole."""

SCENES: Mapping[str, tuple[Drawn, ...]] = {
    "train/yard 1": (
        Drawn("car", "box", (1.5, 2.0, 30.0, 20.25), {"colour": "red"}),
        Drawn("dög & cat", "polygon", (4.0, 3.0, 20.0, 3.0, 20.5, 25.0, 9.25, 12.5)),
    ),
    "train/2": (Drawn("car", "ellipse", (12.0, 10.0, 6.0, 6.0)), Drawn("car", "mask", (7, 4))),
    "train/3": (),
    "test/4": (Drawn("person", "box", (0.0, 0.0, 40.0, 30.0), {"colour": "blue"}),),
}
"""Path of an image without extension -> what is drawn on it. `test/5` has not been opened in the tool."""


def images() -> dict[str, bytes | str]:
    """The images."""
    names = [*SCENES, "test/5"]
    return {f"{name}.jpg": picture(i, size=SIZE) for i, name in enumerate(names)}


def bits_png(mode: str = "1") -> bytes:
    """The mask as a PNG of one bit a pixel; Supervisely's has a palette, of which 0 is transparent."""
    image = Image.new(mode, (len(BITS[0]), len(BITS)))
    image.putdata([int(bit) for row in BITS for bit in row])
    options = {}
    if mode == "P":
        image.putpalette([0, 0, 0, 255, 255, 255])
        options = {"transparency": 0, "bits": 1}
    out = io.BytesIO()
    image.save(out, "PNG", **options)
    return out.getvalue()


def _pairs(numbers: Sequence[float]) -> list[list[float]]:
    return [[x, y] for x, y in zip(numbers[::2], numbers[1::2], strict=True)]


# --- LabelMe --------------------------------------------------------------------------------------


def labelme(name: str, shapes: Sequence[Drawn], **further: Any) -> str:
    """A file of LabelMe 5.5."""
    entries = []
    for shape in shapes:
        points, mask = _pairs(shape.numbers), None
        if shape.kind == "ellipse":
            x, y, radius, _ = shape.numbers
            points = [[x, y], [x + radius, y]]
        if shape.kind == "mask":
            x, y = shape.numbers
            points = [[x, y], [x + len(BITS[0]) - 1, y + len(BITS) - 1]]
            mask = base64.b64encode(bits_png()).decode()
        kinds = {"box": "rectangle", "ellipse": "circle"}
        entries.append(
            {
                "label": shape.label,
                "points": points,
                "group_id": None,
                "description": shape.values.get("colour", ""),
                "shape_type": kinds.get(shape.kind, shape.kind),
                "flags": {"occluded": False},
                "mask": mask,
            }
        )
    content = {
        "version": "5.5.0",
        "flags": {"night": name.startswith("test"), "rain": False},
        "shapes": entries,
        "imagePath": f"..\\old\\{name.rpartition('/')[2]}.jpg",
        "imageData": None,
        "imageHeight": SIZE[1],
        "imageWidth": SIZE[0],
        **further,
    }
    return json.dumps(content, ensure_ascii=False, indent=2)


# --- Supervisely ----------------------------------------------------------------------------------


def supervisely(name: str, shapes: Sequence[Drawn], **further: Any) -> str:
    """A file of Supervisely."""
    entries = []
    for number, shape in enumerate(shapes, 1):
        kind = {"box": "rectangle", "ellipse": "polygon", "mask": "bitmap"}.get(
            shape.kind, shape.kind
        )
        tags = [
            {"id": 7, "tagId": 3, "name": tag, "value": value, "labelerLogin": "ann"}
            for tag, value in shape.values.items()
        ]
        entry: dict[str, Any] = {
            "id": number,
            "classId": 17,
            "description": "",
            "geometryType": kind,
            "labelerLogin": "ann",
            "createdAt": "2024-08-07T11:09:51.054Z",
            "updatedAt": "2024-08-07T11:09:51.054Z",
            "tags": tags,
            "classTitle": shape.label,
        }
        if shape.kind == "mask":
            data = base64.b64encode(zlib.compress(bits_png("P"))).decode()
            entry["bitmap"] = {"data": data, "origin": list(shape.numbers)}
        else:
            outline, holes = _pairs(shape.numbers), []
            if shape.kind == "ellipse":  # which the tool lacks
                outline = [[6, 4], [18, 4], [18, 16], [6, 16]]
                holes = [[[8, 6], [10, 6], [10, 9]], [[12, 12], [15, 12], [15, 15], [12, 15]]]
            entry["points"] = {"exterior": outline, "interior": holes}
        entries.append(entry)
    content = {
        "description": "",
        "name": f"{name.rpartition('/')[2]}.jpg",
        "tags": [{"id": 1, "tagId": 2, "name": "night", "value": None, "labelerLogin": "ann"}]
        * name.startswith("test"),
        "size": {"height": SIZE[1], "width": SIZE[0]},
        "objects": entries,
        **further,
    }
    return json.dumps(content)


META = {
    "classes": [
        {"title": "car", "shape": "any", "color": "#0A0B0C", "geometry_config": {}, "id": 17}
    ],
    "tags": [{"name": "night", "value_type": "none", "color": "#FFFFFF", "id": 2, "hotkey": ""}],
    "projectType": "images",
}


# --- CVAT -----------------------------------------------------------------------------------------

_CVAT_SHAPES = {
    "box": ("xtl", "ytl", "xbr", "ybr"),
    "ellipse": ("cx", "cy", "rx", "ry"),
    "mask": ("left", "top"),
}


def cvat(scenes: Mapping[str, Sequence[Drawn]], inside: str = "") -> str:
    """A file of CVAT, with further elements inside of each image."""
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>\n<annotations>\n  <version>1.1</version>\n  <meta>',
        "    <project><id>8</id><name>yard</name><labels><label><name>car</name><type>any</type>",
        "    <attributes></attributes></label></labels></project>\n  </meta>",
    ]
    for number, (name, shapes) in enumerate(scenes.items()):
        folder, _, file = name.rpartition("/")
        subset = {"train": "Train", "test": "Test"}[folder]
        lines.append(
            f'  <image id="{number}" name={quoteattr(f"{file}.jpg")} subset="{subset}" task_id="3" '
            f'width="{SIZE[0]}" height="{SIZE[1]}">'
        )
        for shape in shapes:
            names = _CVAT_SHAPES.get(shape.kind)
            if names:
                place = " ".join(
                    f'{n}="{v:.2f}"' for n, v in zip(names, shape.numbers, strict=True)
                )
            else:
                points = ";".join(f"{x:.2f},{y:.2f}" for x, y in _pairs(shape.numbers))
                place = f'points="{points}"'
            if shape.kind == "mask":
                left, top = shape.numbers
                place = f'rle="1, 3, 1, 2, 1, 2, 1, 3, 1" left="{left}" top="{top}" width="5" height="3"'
            lines.append(
                f'    <{shape.kind} label={quoteattr(shape.label)} source="manual" occluded="0" {place} z_order="0">'
            )
            lines += [
                f'      <attribute name="{key}">{value}</attribute>'
                for key, value in shape.values.items()
            ]
            lines.append(f"    </{shape.kind}>")
        lines.append(f"{inside}  </image>")
    return "\n".join([*lines, "</annotations>\n"])


# --- VIA ------------------------------------------------------------------------------------------


def via(scenes: Mapping[str, Sequence[Drawn]]) -> dict[str, Any]:
    """Annotations as VIA 2 exports them."""
    entries = {}
    for name, shapes in scenes.items():
        file = f"{name}.jpg"
        regions = []
        for shape in shapes:
            xs, ys = shape.numbers[::2], shape.numbers[1::2]
            place: dict[str, Any]
            if shape.kind == "box":
                place = {
                    "name": "rect",
                    "x": xs[0],
                    "y": ys[0],
                    "width": xs[1] - xs[0],
                    "height": ys[1] - ys[0],
                }
            elif shape.kind == "ellipse":
                place = {
                    "name": "ellipse",
                    "cx": xs[0],
                    "cy": ys[0],
                    "rx": xs[1],
                    "ry": ys[1],
                    "theta": 0.5,
                }
            elif shape.kind == "mask":  # which the tool lacks
                place = {"name": "circle", "cx": xs[0] + 2.5, "cy": ys[0] + 2.5, "r": 2.5}
            else:
                place = {"name": "polygon", "all_points_x": list(xs), "all_points_y": list(ys)}
            attributes = {"type": {shape.label: True}, **shape.values}
            regions.append({"shape_attributes": place, "region_attributes": attributes})
        entries[f"{file}{len(file)}"] = {
            "filename": file,
            "size": len(file),
            "regions": regions,
            "file_attributes": {"night": "yes" if name.startswith("test") else "", "caption": ""},
        }
    return entries


def via_project(scenes: Mapping[str, Sequence[Drawn]]) -> str:
    """A project of VIA 2."""
    entries = via(scenes)
    return json.dumps(
        {
            "_via_settings": {
                "ui": {"image_grid": {"img_height": 80}},
                "project": {"name": "yard"},
            },
            "_via_img_metadata": entries,
            "_via_attributes": {"region": {"type": {"type": "checkbox"}}, "file": {}},
            "_via_data_format_version": "2.0.10",
            "_via_image_id_list": list(entries),
        }
    )


def via_csv(scenes: Mapping[str, Sequence[Drawn]]) -> str:
    """Annotations as VIA 2 exports them in a CSV."""

    def cell(value: Any) -> str:
        return '"' + json.dumps(value).replace('"', '""') + '"'

    lines = [
        "filename,file_size,file_attributes,region_count,region_id,region_shape_attributes,region_attributes"
    ]
    for entry in via(scenes).values():
        regions = entry["regions"]
        first = (
            f"{entry['filename']},{entry['size']},{cell(entry['file_attributes'])},{len(regions)}"
        )
        for number, region in enumerate(regions):
            shape, attributes = region["shape_attributes"], region["region_attributes"]
            lines.append(f"{first},{number},{cell(shape)},{cell(attributes)}")
        if not regions:
            lines.append(f'{first},0,"{{}}","{{}}"')
    return "\r\n".join([*lines, ""])


def make_shape_tools(folder: str) -> None:
    """Writes a folder for each tool."""
    files = images()
    by_name = {f"images/{name}": data for name, data in files.items()}
    projects = {name.replace("/", "/img/"): data for name, data in files.items()}
    for name, shapes in SCENES.items():
        files[f"{name}.json"] = labelme(name, shapes)
        projects[f"{name.replace('/', '/ann/')}.jpg.json"] = supervisely(name, shapes)
    write_files(f"{folder}/labelme", files)
    write_files(f"{folder}/supervisely", {"meta.json": json.dumps(META), **projects})
    write_files(f"{folder}/cvat", {"annotations.xml": cvat(SCENES), **by_name})
    write_files(f"{folder}/via", {"via_project.json": via_project(SCENES), **images()})
