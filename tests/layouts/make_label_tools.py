"""The drawings of `make_table_boxes` in the exports of labelling tools, each in its published form."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tests.layouts.make_tables import HEADER, HEIGHT, WIDTH, csv_text, drawing, objects
from tests.pictures import picture, write_files

SPLITS = ("train", "val")
NAMES = ("disc", "square")
SKIPPED, UNSEEN = "005.jpg", "007.jpg"
"""Images that annotators skipped, and that nobody opened; in tools that record that."""

_Object = tuple[str, int, int, int, int]


def split_of(name: str) -> str:
    """Every fourth image is of the validation split."""
    return SPLITS[int(name[:3]) % 4 == 3]


def time_of(name: str) -> str:
    """The class of a whole image."""
    return "night" if int(name[:3]) % 2 else "day"


def rectangle(label: str, *corners: float, number: int = 0, turned: float = 0) -> list[Any]:
    """The results of Label Studio for a box and a question about it."""
    xmin, ymin, xmax, ymax = corners
    place = {
        "x": 100 * xmin / WIDTH,
        "y": 100 * ymin / HEIGHT,
        "width": 100 * (xmax - xmin) / WIDTH,
        "height": 100 * (ymax - ymin) / HEIGHT,
        "rotation": turned,
    }
    about = {"original_width": WIDTH, "original_height": HEIGHT, "image_rotation": 0}
    common = {**about, "id": f"region{number}", "to_name": "image", "origin": "manual"}
    box = {"type": "rectanglelabels", "from_name": "label"}
    asked = {"type": "choices", "from_name": "occluded"}
    return [
        {**common, **box, "value": {**place, "rectanglelabels": [label]}},
        {**common, **asked, "value": {**place, "choices": ["yes" if number else "no"]}},
    ]


def polygon(label: str, *corners: float, number: int = 0) -> list[Any]:
    """The result of Label Studio for an outline."""
    points = [[100 * x / WIDTH, 100 * y / HEIGHT] for x, y in rhombus(*corners)]
    value = {"points": points, "closed": True, "polygonlabels": [label]}
    about = {"original_width": WIDTH, "original_height": HEIGHT, "image_rotation": 0}
    kind = {"type": "polygonlabels", "from_name": "outline", "to_name": "image"}
    return [{**about, **kind, "id": f"region{number}", "value": value}]


def rhombus(xmin: float, ymin: float, xmax: float, ymax: float) -> list[tuple[float, float]]:
    """Four points in the middle of a box's sides."""
    x, y = (xmin + xmax) / 2, (ymin + ymax) / 2
    return [(x, ymin), (xmax, y), (x, ymax), (xmin, y)]


def choice(value: str, name: str = "time") -> dict[str, Any]:
    """The result of Label Studio for a question about an image."""
    return {
        "type": "choices",
        "id": name,
        "from_name": name,
        "to_name": "image",
        "value": {"choices": [value]},
    }


def annotation(results: Sequence[Any], by: int = 1, **further: Any) -> dict[str, Any]:
    """An annotation of Label Studio."""
    flags = {"was_cancelled": False, "ground_truth": False, "lead_time": 3.25}
    return {"id": by, "completed_by": by, "result": list(results), **flags, **further}


def task(name: str, annotations: Sequence[Any], number: int = 1, **further: Any) -> dict[str, Any]:
    """A task of Label Studio, of an uploaded image."""
    uploaded = f"1a2b3c4d-{name}"
    lists: dict[str, Any] = {"drafts": [], "predictions": [], "comment_authors": []}
    url = {"image": f"/data/upload/1/{uploaded}"}
    return {
        "id": number,
        "annotations": list(annotations),
        "file_upload": uploaded,
        **lists,
        "data": url,
        "meta": {},
        "project": 1,
        "total_annotations": 1,
        **further,
    }


def label_studio() -> list[Any]:
    """Tasks: some agree, one has a truth, one is skipped, one is empty, one was never opened."""
    tasks = []
    for number, (name, boxes) in enumerate(objects().items(), 1):
        results = [choice(time_of(name))] if boxes else []
        for i, (label, *corners) in enumerate(boxes):
            results += (polygon if label == "disc" else rectangle)(label, *corners, number=i)
        annotations = [annotation(results)]
        if number == 3:
            annotations.append(annotation(results[::-1], 2))
        if number == 4:
            annotations.insert(0, annotation(results[:1], 2))
            annotations[1]["ground_truth"] = True
        if name == SKIPPED:
            annotations = [annotation([], was_cancelled=True)]
        tasks.append(task(name, [] if name == UNSEEN else annotations, number))
    return tasks


def labelbox() -> str:
    """Data rows: boxes, and polygons for discs; classes of images in `time`, of objects in `seen`."""
    lines = []
    for name, boxes in objects().items():
        shapes: list[Any] = []
        for i, (label, xmin, ymin, xmax, ymax) in enumerate(boxes):
            sides = {"top": ymin, "left": xmin, "height": ymax - ymin, "width": xmax - xmin}
            points = [{"x": x, "y": y} for x, y in rhombus(xmin, ymin, xmax, ymax)]
            disc = {"annotation_kind": "ImagePolygon", "polygon": points}
            square = {"annotation_kind": "ImageBoundingBox", "bounding_box": sides}
            option = {"name": "partly" if i else "wholly", "value": "x", "classifications": []}
            nested = [{"name": "seen", "value": "seen", "radio_answer": option}]
            about = {
                "feature_id": f"f{i}",
                "name": label,
                "value": label,
                "classifications": nested,
            }
            shapes.append({**about, **(disc if label == "disc" else square)})
        answer = {"name": time_of(name), "value": time_of(name), "classifications": []}
        question = {"name": "time", "value": "time", "checklist_answers": [answer]}
        annotations = {"objects": shapes, "classifications": [question], "relationships": []}
        details = {"seconds_to_create": 4, "skipped": name == SKIPPED}
        label = {"label_kind": "Default", "id": "l", "performance_details": details}
        labels = [] if name == UNSEEN else [{**label, "annotations": annotations}]
        url = f"https://storage.example.com/drawings/{name}?Expires=1&Signature=x"
        row = {"id": f"row{name}", "external_id": name, "row_data": url}
        media = {"width": WIDTH, "height": HEIGHT, "mime_type": "image/jpeg"}
        projects = {"cl1": {"name": "shapes", "labels": labels}}
        line = {"data_row": row, "media_attributes": media, "attachments": [], "projects": projects}
        lines.append(json.dumps(line) + "\n")
    return "".join(lines)


def fractions(xmin: int, ymin: int, xmax: int, ymax: int) -> list[float]:
    """Centre and size of a box."""
    width, height = xmax - xmin, ymax - ymin
    return [(xmin + xmax) / 2 / WIDTH, (ymin + ymax) / 2 / HEIGHT, width / WIDTH, height / HEIGHT]


def outline(box: _Object) -> list[float]:
    """The rhombus in a box, in fractions."""
    return [
        v / side
        for point in rhombus(*box[1:])
        for v, side in zip(point, (WIDTH, HEIGHT), strict=True)
    ]


def ultralytics(task: str, of_object: Callable[[_Object], Sequence[float]]) -> str:
    """A data set's line, and one of each image; those without objects have no annotations."""
    names = {str(i): name for i, name in enumerate(NAMES)}
    member = {"detect": "boxes", "segment": "segments"}.get(task, task)
    head = {"type": "dataset", "task": task, "name": "shapes", "class_names": names, "version": 1}
    lines: list[Any] = [head]
    for name, boxes in objects().items():
        image = {"type": "image", "file": name, "url": f"https://example.com/{name}?signature=x"}
        given = {member: [[NAMES.index(box[0]), *of_object(box)] for box in boxes]}
        about = {"width": WIDTH, "height": HEIGHT, "split": split_of(name)}
        lines.append({**image, **about, **({"annotations": given} if boxes else {})})
    return "".join(json.dumps(line) + "\n" for line in lines)


def hasty() -> dict[str, Any]:
    """A project: boxes for squares, boxes and polygons for discs, tags."""
    images = []
    for name, boxes in objects().items():
        labels = []
        for label, *corners in boxes:
            outline = rhombus(*corners) if label == "disc" else None
            shape = {"bbox": corners, "polygon": outline, "mask": None, "z_index": 1}
            labels.append(
                {"class_name": label, **shape, "attributes": {"side": corners[2] - corners[0]}}
            )
        status = {SKIPPED: "SKIPPED", UNSEEN: "NEW"}.get(name, "DONE")
        about = {
            "image_name": name,
            "dataset_name": f"{split_of(name)} set",
            "image_status": status,
        }
        size = {"width": WIDTH, "height": HEIGHT}
        tags = [] if name == UNSEEN else [time_of(name)]
        images.append({**about, **size, "labels": [] if name == UNSEEN else labels, "tags": tags})
    classes = [{"class_name": name, "color": "#1f78b44d", "class_type": "object"} for name in NAMES]
    dates = {"create_date": "2019-10-22 19:04:16Z", "export_format_version": "1.1"}
    head = {"project_name": "Shapes", **dates, "export_date": "2019-11-19 16:21:18Z"}
    return {**head, "attributes": [], "label_classes": classes, "images": images}


def datumaro(split: str) -> dict[str, Any]:
    """The items of a subset, as CVAT writes them; every third box is turned by a right angle."""
    items = []
    for number, (name, boxes) in enumerate(objects().items()):
        if split_of(name) != split:
            continue
        annotations: list[Any] = []
        for i, (label, *corners) in enumerate(boxes):
            xmin, ymin, xmax, ymax = corners
            shape: dict[str, Any] = {"type": "bbox", "bbox": [xmin, ymin, xmax - xmin, ymax - ymin]}
            if label == "disc":
                points = [value for point in rhombus(*corners) for value in point]
                shape = {"type": "polygon", "points": points}
            attributes = {"occluded": i > 0, "rotation": 90.0 * (i == 2)}
            about = {"id": 0, "attributes": attributes, "group": 0, "label_id": NAMES.index(label)}
            annotations.append({**about, **shape, "z_order": 0})
        annotations.append({"id": 0, "type": "caption", "caption": f"a drawing by {time_of(name)}"})
        image = {"path": name, "size": [HEIGHT, WIDTH]}
        item = {"id": name[:3], "attr": {"frame": number}, "image": image}
        items.append({**item, "annotations": annotations})
    labels = [{"name": name, "parent": "", "attributes": []} for name in NAMES]
    head = {"dm_format_version": "1.0", "media_type": 2, "infos": {}}
    return {**head, "categories": {"label": {"labels": labels, "attributes": []}}, "items": items}


MIDS = {"disc": "/m/01xyz", "square": "/m/0abc9"}
"""Names of classes -> ids as Open Images has them."""


def open_images() -> str:
    """Boxes in fractions of the image, with flags."""
    lines = ["ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsGroupOf"]
    for name, boxes in objects().items():
        for i, (label, xmin, ymin, xmax, ymax) in enumerate(boxes):
            sides = f"{xmin / WIDTH},{xmax / WIDTH},{ymin / HEIGHT},{ymax / HEIGHT}"
            lines.append(f"{name[:3]},xclick,{MIDS[label]},1,{sides},{-(i == 0)},{i % 2}")
    return "\n".join(lines) + "\n"


def roboflow(split: str) -> Iterable[Sequence[object]]:
    """Rows of the images of a split that have objects."""
    for name, boxes in objects().items():
        if split_of(name) == split:
            for box in boxes:
                yield name, WIDTH, HEIGHT, *box


def roboflow_classes(split: str) -> str:
    """A column for each class, after a space."""
    lines = ["filename, day, night"]
    for name in objects():
        if split_of(name) == split:
            lines.append(f"{name}, {int(time_of(name) == 'day')}, {int(time_of(name) != 'day')}")
    return "\n".join(lines) + "\n"


def gtsrb(number: int) -> dict[str, bytes | str]:
    """A folder of signs, with its table."""
    rows = [f"{i:05d}_00000.ppm;29;30;5;6;24;25;{number}\n" for i in range(10)]
    header = "Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId\n"
    signs = {
        f"gtsrb/{number:05d}/{i:05d}_00000.ppm": picture(
            i + 20 * number, file_format="PPM", size=(29, 30)
        )
        for i in range(10)
    }
    return {**signs, f"gtsrb/{number:05d}/GT-{number:05d}.csv": header + "".join(rows)}


def make_label_tools(folder: str) -> None:
    """Writes a folder for each tool, with images/ and the export, or as the tool has it."""
    drawings = {name: drawing(boxes) for name, boxes in objects().items()}
    for tool in ("label_studio", "labelbox", "ultralytics", "hasty"):
        write_files(os.path.join(folder, tool, "images"), drawings)
    for name, content in drawings.items():
        split = split_of(name)
        write_files(
            folder,
            {
                f"datumaro/images/{split}/{name}": content,
                f"roboflow/{split}/{name}": content,
                f"roboflow_classes/{split}/{name}": content,
                f"open_images/train/{name}": content,
            },
        )
    tables = {
        f"roboflow/{split}/_annotations.csv": csv_text([HEADER, *roboflow(split)])
        for split in SPLITS
    }
    texts: dict[str, bytes | str] = {
        "label_studio/project-1.json": json.dumps(label_studio()),
        "labelbox/export.ndjson": labelbox(),
        "ultralytics/shapes.ndjson": ultralytics("detect", lambda box: fractions(*box[1:])),
        "hasty/project.json": json.dumps(hasty(), indent=1),
        **{f"datumaro/annotations/{s}.json": json.dumps(datumaro(s)) for s in SPLITS},
        **tables,
        **{f"roboflow_classes/{s}/_classes.csv": roboflow_classes(s) for s in SPLITS},
        "open_images/train-annotations-bbox.csv": open_images(),
        "open_images/class-descriptions-boxable.csv": "".join(
            f"{mid},{name}\n" for name, mid in MIDS.items()
        ),
    }
    write_files(folder, {**texts, **gtsrb(0), **gtsrb(1)})
