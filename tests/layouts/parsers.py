"""Parsers of label files that know nothing of the program: what an export, a table or a folder states of each image.

Each reads a data set in the working folder and yields (key, split, values) of the samples that a conversion writes: `OBJECTS`,
with corners in pixels, and features as their keys are. A split is None where a hash decides it.
"""

from __future__ import annotations

import csv
import json
import math
import os
import pickle
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from glob import glob
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

OBJECTS, CLASS = "objects", "image/class/text"
TRAIN, VALIDATION, TEST = "train", "validation", "test"

Sample = tuple[str, str | None, dict[str, Any]]
Parser = Callable[[], Iterable[Sample]]


def rows_of(path: str, **options: Any) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return [*csv.DictReader(file, **options)]


def lines_of(path: str) -> list[Any]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def document(path: str) -> Any:
    return json.loads(Path(path).read_text())


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def around(label: str, points: Iterable[Sequence[float]]) -> tuple[Any, ...]:
    """An object by the box around points."""
    xs, ys = zip(*points, strict=True)
    return label, min(xs), min(ys), max(xs), max(ys)


def of_sides(label: str, x: float, y: float, width: float, height: float) -> tuple[Any, ...]:
    return label, x, y, x + width, y + height


def scaled(shape: Sequence[Any], width: float, height: float) -> tuple[Any, ...]:
    return shape[0], *(float(side) * (width, height)[i % 2] for i, side in enumerate(shape[1:]))


def grouped(rows: Iterable[dict[str, str]], name: str) -> Iterator[tuple[str, list[Any]]]:
    """The rows of each image, in the order of the table."""
    order = list(rows)
    for key in dict.fromkeys(row[name] for row in order):
        yield key, [row for row in order if row[name] == key]


# --- tools that list many images ------------------------------------------------------------------


def label_studio() -> Iterator[Sample]:
    for task in document("label_studio/project-1.json"):
        given = [a for a in task["annotations"] if not a["was_cancelled"]]
        truth = [a for a in given if a["ground_truth"]] or given
        if not truth:
            continue
        shapes, seen, values = [], [], {}
        for region in truth[0]["result"]:
            value = region["value"]
            labels = value.get("rectanglelabels") or value.get("polygonlabels")
            size = [
                side / 100
                for side in (region.get("original_width", 0), region.get("original_height", 0))
            ]
            if "points" in value:
                shapes.append((region["id"], scaled(around(labels[0], value["points"]), *size)))
            elif labels:
                sides = (value[side] for side in ("x", "y", "width", "height"))
                shapes.append((region["id"], scaled(of_sides(labels[0], *sides), *size)))
            elif "x" in value:
                seen.append((region["id"], value["choices"][0]))
            else:
                values[f"label/{region['from_name']}"] = value["choices"]
        values[OBJECTS] = [shape for _, shape in shapes]
        values["image/object/occluded"] = [dict(seen).get(name, "") for name, _ in shapes]
        yield f"images/{task['file_upload'][9:]}", TRAIN, values


def labelbox() -> Iterator[Sample]:
    for row in lines_of("labelbox/export.ndjson"):
        (project,) = row["projects"].values()
        for label in project["labels"]:
            if label["performance_details"]["skipped"]:
                continue
            shapes, seen = [], []
            for each in label["annotations"]["objects"]:
                points = [(point["x"], point["y"]) for point in each.get("polygon", ())]
                box = each.get("bounding_box")
                sides = box and [box[side] for side in ("left", "top", "width", "height")]
                shapes.append(
                    of_sides(each["name"], *sides) if box else around(each["name"], points)
                )
                seen.append(each["classifications"][0]["radio_answer"]["name"])
            (question,) = label["annotations"]["classifications"]
            times = [answer["name"] for answer in question["checklist_answers"]]
            yield (
                f"images/{row['data_row']['external_id']}",
                TRAIN,
                {OBJECTS: shapes, "image/object/seen": seen, "label/time": times},
            )


def hasty() -> Iterator[Sample]:
    for image in document("hasty/project.json")["images"]:
        if image["image_status"] == "DONE":
            labels = image["labels"]
            yield (
                f"images/{image['image_name']}",
                {"train set": TRAIN, "val set": VALIDATION}[image["dataset_name"]],
                {
                    OBJECTS: [(each["class_name"], *each["bbox"]) for each in labels],
                    "image/object/side": [each["attributes"]["side"] for each in labels],
                    "label/tags": image["tags"],
                },
            )


def datumaro() -> Iterator[Sample]:
    for folder, split in (("train", TRAIN), ("val", VALIDATION)):
        content = document(f"datumaro/annotations/{folder}.json")
        names = [label["name"] for label in content["categories"]["label"]["labels"]]
        for item in content["items"]:
            *given, caption = item["annotations"]
            shapes = []
            for each in given:
                label = names[each["label_id"]]
                if each["type"] == "polygon":
                    points = each["points"]
                    shapes.append(around(label, zip(points[::2], points[1::2], strict=True)))
                    continue
                x, y, width, height = each["bbox"]
                if each["attributes"]["rotation"] == 90:
                    x, y, width, height = (
                        x + (width - height) / 2,
                        y + (height - width) / 2,
                        height,
                        width,
                    )
                shapes.append(of_sides(label, x, y, width, height))
            attributes = [each["attributes"] for each in given]
            values = {
                f"image/object/{name}": [each[name] for each in attributes]
                for name in ("occluded", "rotation")
            }
            values |= {
                "label/frame": [item["attr"]["frame"]],
                "label/caption": [caption["caption"]],
            }
            yield f"images/{folder}/{item['image']['path']}", split, {OBJECTS: shapes, **values}


def ultralytics(path: str, kind: str, folder: str = "") -> Parser:
    def parse() -> Iterator[Sample]:
        head, *images = lines_of(path)
        for image in images:
            shapes = []
            for number, *values in image.get("annotations", {}).get(kind, ()):
                label = head["class_names"][str(number)]
                if kind in ("boxes", "pose"):
                    x, y, width, height = values[:4]
                    shape = of_sides(label, x - width / 2, y - height / 2, width, height)
                else:
                    shape = around(label, zip(values[::2], values[1::2], strict=True))
                shapes.append(scaled(shape, image["width"], image["height"]))
            split = {"val": VALIDATION}.get(image["split"], image["split"])
            yield folder + image["file"], split, {OBJECTS: shapes}

    return parse


def cvat() -> Iterator[Sample]:
    for image in ElementTree.parse("cvat/annotations.xml").iter("image"):
        shapes, colours, occluded = [], [], []
        for shape in image:
            label, number = shape.get("label"), lambda name, of=shape: float(of.get(name, "nan"))
            if shape.tag == "polygon":
                points = [point.split(",") for point in shape.get("points", "").split(";")]
                shapes.append(around(label, [(float(x), float(y)) for x, y in points]))
            elif shape.tag == "mask":
                shapes.append(of_sides(label, *map(number, ("left", "top", "width", "height"))))
            elif shape.tag == "ellipse":
                x, y, rx, ry = map(number, ("cx", "cy", "rx", "ry"))
                shapes.append((label, x - rx, y - ry, x + rx, y + ry))
            else:
                shapes.append((label, *map(number, ("xtl", "ytl", "xbr", "ybr"))))
            colours.append(shape.findtext("attribute[@name='colour']", ""))
            occluded.append(int(shape.get("occluded", "")))
        subset = image.get("subset", "").lower()
        values = {"image/object/colour": colours, "image/object/occluded": occluded}
        yield f"images/{subset}/{image.get('name')}", subset, {OBJECTS: shapes, **values}


def _of_via(shape: dict[str, Any], label: str) -> tuple[Any, ...]:
    kind = shape["name"]
    if kind == "rect":
        return of_sides(label, shape["x"], shape["y"], shape["width"], shape["height"])
    if kind == "polygon":
        return around(label, zip(shape["all_points_x"], shape["all_points_y"], strict=True))
    x, y, rx, ry = (shape.get(side, shape.get("r")) for side in ("cx", "cy", "rx", "ry"))
    cos, sin = (f(shape.get("theta", 0)) for f in (math.cos, math.sin))
    width, height = math.hypot(rx * cos, ry * sin), math.hypot(rx * sin, ry * cos)
    return label, x - width, y - height, x + width, y + height


def via(path: str, *attributes: str) -> Parser:
    """Of a project, of exported JSON or of a CSV; with attributes of regions and files."""

    def entries() -> Iterator[tuple[str, list[Any], Any]]:
        if path.endswith(".csv"):
            for name, rows in groupby(rows_of(path), lambda row: row["filename"]):
                of_image = [
                    {k: v if k == "filename" else json.loads(v) for k, v in row.items()}
                    for row in rows
                ]
                regions = [(r["region_shape_attributes"], r["region_attributes"]) for r in of_image]
                yield (
                    name,
                    regions if of_image[0]["region_count"] else [],
                    of_image[0]["file_attributes"],
                )
            return
        content = document(path)
        for entry in content.get("_via_img_metadata", content).values():
            regions = [(r["shape_attributes"], r["region_attributes"]) for r in entry["regions"]]
            yield entry["filename"], regions, entry["file_attributes"]

    def parse() -> Iterator[Sample]:
        for name, regions, of_file in entries():
            values = {f"label/{n}": [of_file[n]] for n in attributes if of_file.get(n)}
            for attribute in {*attributes} - of_file.keys():
                values[f"image/object/{attribute}"] = [
                    given.get(attribute, "") for _, given in regions
                ]
            values[OBJECTS] = [_of_via(shape, *given["type"]) for shape, given in regions]
            yield name, name.partition("/")[0], values

    return parse


# --- tools with a file for each image -------------------------------------------------------------


def labelme() -> Iterator[Sample]:
    for path in glob("labelme/*/*.json"):
        content, shapes = document(path), []
        for each in content["shapes"]:
            points, label = each["points"], each["label"]
            if each["shape_type"] == "circle":
                (x, y), edge = points
                radius = math.dist((x, y), edge)
                points = [(x - radius, y - radius), (x + radius, y + radius)]
            if each["shape_type"] == "mask":
                points = [points[0], [side + 1 for side in points[1]]]
            shapes.append(around(label, points))
        name = os.path.splitext(path)[0].removeprefix("labelme/")
        values = {
            "image/object/description": [each["description"] for each in content["shapes"]],
            "image/object/occluded": [int(each["flags"]["occluded"]) for each in content["shapes"]],
            "label/flags": [flag for flag, is_set in content["flags"].items() if is_set],
        }
        yield f"{name}.jpg", name.partition("/")[0], {OBJECTS: shapes, **values}


def supervisely() -> Iterator[Sample]:
    for path in glob("supervisely/*/ann/*.json"):
        content, shapes = document(path), []
        for each in content["objects"]:
            if each["geometryType"] == "bitmap":  # its PNG has 5 x 3 pixels
                shapes.append(of_sides(each["classTitle"], *each["bitmap"]["origin"], 5, 3))
            else:
                shapes.append(around(each["classTitle"], each["points"]["exterior"]))
        tags = [{tag["name"]: tag["value"] for tag in each["tags"]} for each in content["objects"]]
        split, _, name = path.removeprefix("supervisely/").split("/")
        values = {
            "image/object/colour": [of_object.get("colour", "") for of_object in tags],
            "label/tags": [tag["name"] for tag in content["tags"]],
        }
        yield f"{split}/img/{name.removesuffix('.json')}", split, {OBJECTS: shapes, **values}


# --- tables ---------------------------------------------------------------------------------------

SIDES = ("xmin", "ymin", "xmax", "ymax")


def _boxes(rows: Iterable[dict[str, str]], sides: Sequence[str], label: str) -> list[Any]:
    return [(row[label], *(float(row[side]) for side in sides)) for row in rows if row[sides[0]]]


def boxes() -> Iterator[Sample]:
    for name, rows in grouped(rows_of("train_labels.csv"), "filename"):
        yield name, None, {OBJECTS: _boxes(rows, SIDES, "class")}


def roboflow() -> Iterator[Sample]:
    for folder, split in (("train", TRAIN), ("val", VALIDATION)):
        for name, rows in grouped(rows_of(f"roboflow/{folder}/_annotations.csv"), "filename"):
            yield f"{folder}/{name}", split, {OBJECTS: _boxes(rows, SIDES, "class")}


def roboflow_classes() -> Iterator[Sample]:
    for folder, split in (("train", TRAIN), ("val", VALIDATION)):
        path = f"roboflow_classes/{folder}/_classes.csv"
        for row in rows_of(path, skipinitialspace=True):
            classes = [name for name in ("day", "night") if row[name] == "1"]
            yield f"{folder}/{row['filename']}", split, {CLASS: classes}


def open_images() -> Iterator[Sample]:
    with open("open_images/class-descriptions-boxable.csv") as file:
        names = dict(csv.reader(file))
    for image, rows in grouped(rows_of("open_images/train-annotations-bbox.csv"), "ImageID"):
        sides = ("XMin", "YMin", "XMax", "YMax")
        values: dict[str, Any] = {
            f"image/object/{name}": [int(row[name]) for row in rows]
            for name in ("IsOccluded", "IsGroupOf", "Confidence")
        }
        values["image/object/Source"] = [row["Source"] for row in rows]
        shapes = [(names[row["LabelName"]], *(float(row[side]) for side in sides)) for row in rows]
        yield f"{image}.jpg", None, {OBJECTS: [scaled(s, 96, 64) for s in shapes], **values}


def gtsrb() -> Iterator[Sample]:
    for path in glob("gtsrb/*/GT-*.csv"):
        for row in rows_of(path, delimiter=";"):
            sides = ("Roi.X1", "Roi.Y1", "Roi.X2", "Roi.Y2")
            yield (
                f"{path.split('/')[1]}/{row['Filename']}",
                TRAIN,
                {OBJECTS: _boxes([row], sides, "ClassId")},
            )


def automl() -> Iterator[Sample]:
    names = ("set", "uri", "label", *"abcdefgh")
    splits = {"TRAIN": TRAIN, "VALIDATION": VALIDATION, "TEST": TEST, "UNASSIGNED": TRAIN}
    for uri, rows in grouped(rows_of("streets.csv", fieldnames=names), "uri"):
        shapes = []
        for row in rows if rows[0]["label"] else ():
            xs, ys = ([float(row[name]) for name in each if row[name]] for each in ("aceg", "bdfh"))
            shapes.append(scaled(around(row["label"], zip(xs, ys, strict=True)), 100, 80))
        yield uri.rpartition("/")[2], splits[rows[0]["set"]], {OBJECTS: shapes}


def imagefolder() -> Iterator[Sample]:
    for split in (TRAIN, TEST):
        for row in lines_of(f"cppe/{split}/metadata.jsonl"):
            given = row["objects"]
            pairs = zip(given["categories"], given["bbox"], strict=True)
            shapes = [of_sides(str(label), *box) for label, box in pairs]
            yield f"{split}/{row['file_name']}", split, {OBJECTS: shapes}


def parquet() -> Iterator[Sample]:
    from pyarrow import parquet as files

    for path in sorted(glob("hf/data/*.parquet")):
        split = os.path.basename(path).partition("-")[0]
        for i, row in enumerate(files.read_table(path).to_pylist()):
            values = {CLASS: [("cat", "dog")[row["label"]]], "label/caption": [row["caption"]]}
            yield f"{path[3:]}/{i:05d}", split, values


def numbered_captions() -> Iterator[Sample]:
    lines = [re.split("#\\d+\t", line) for line in Path("l.txt").read_text().splitlines()]
    for name in dict.fromkeys(name for name, _ in lines):
        yield name, TRAIN, {"label/caption": [text for image, text in lines if image == name]}


def lines_of_boxes() -> Iterator[Sample]:
    for line in Path("l.txt").read_text().splitlines():
        name, *boxes = line.split(" ")
        sides = [box.split(",") for box in boxes]
        yield name, TRAIN, {OBJECTS: [(label, *map(float, corners)) for *corners, label in sides]}


def table_of_parquet() -> Iterator[Sample]:
    from pyarrow import parquet as files

    for row in files.read_table("l.parquet").to_pylist():
        yield row["file"], TRAIN, {CLASS: [row["label"]], "label/weight": [row["weight"]]}


def lists(pattern: str) -> Parser:
    """Lists of the images of each split, perhaps with a class after each; otherwise it is the folder."""

    def parse() -> Iterator[Sample]:
        for name, split in (("train", TRAIN), ("val", VALIDATION), ("test", TEST)):
            for path in glob(pattern.format(name)):
                for line in Path(path).read_text().splitlines():
                    image, _, label = line.partition(" ")
                    values = {CLASS: [label or image.rpartition("/")[0]]}
                    yield image.strip("/"), split, values

    return parse


# --- rows as samples, JSON and files in cells -----------------------------------------------------


def contents(*paths: str) -> list[bytes]:
    return [Path(path).read_bytes() for path in paths]


def conversations() -> Iterator[Sample]:
    """LLaVA's JSON, of one image, several or none; what has the same key twice is left out."""
    entries = document("talks.json")
    keys = []
    for entry in entries:
        image, name = entry.get("image", []), entry["id"]
        of_text = isinstance(image, list)
        keys.append(f"talks.json:{quote(name)}" if of_text else f"{image}#{quote(name, safe='')}")
    for key, entry in zip(keys, entries, strict=True):
        if keys.count(key) == 1:
            files = [f"photos/{name}" for name in entry.get("image", []) if len(name) > 1]
            values = {
                "label/conversations": [compact(entry["conversations"])],
                "label/id": [entry["id"]],
            }
            yield key, None, {**values, "images/encoded": contents(*files)}


def messages() -> Iterator[Sample]:
    for row in lines_of("llava/messages.jsonl"):
        parts = [part for message in row["messages"] for part in message["content"]]
        (image,) = [part["image"] for part in parts if "image" in part]
        yield f"{image}#0", TRAIN, {"label/messages": [compact(row["messages"])]}


def json_lines() -> Iterator[Sample]:
    for row in lines_of("talks.jsonl"):
        values = {CLASS: [row["id"]], "label/conversations": [compact(row["conversations"])]}
        yield row["file_name"], TRAIN, values


def captions() -> Iterator[Sample]:
    seen: dict[str, int] = {}
    for row in rows_of("l.csv"):
        number = seen[row["filename"]] = seen.get(row["filename"], -1) + 1
        if row["score"].isdigit() and os.path.exists(f"photos/{row['filename']}"):
            values = {"label/text": [row["text"]], "label/score": [int(row["score"])]}
            yield f"{row['filename']}#{number}", None, values


def json_cells() -> Iterator[Sample]:
    for row in rows_of("l.csv"):
        try:
            value = json.loads(row["meta"], parse_float=lambda text: 1 / math.isfinite(float(text)))
            meta = [compact(value)]
        except ZeroDivisionError:
            continue
        except ValueError:
            if row["meta"]:
                continue
            meta = []
        yield row["filename"], TRAIN, {CLASS: [row["label"]], "label/meta": meta}


def file_columns() -> Iterator[Sample]:
    for row in rows_of("pairs.csv"):
        paths = {name: f"pairs/{row[name]}" for name in ("right", "depth", "note")}
        if all(map(os.path.exists, paths.values())):
            values: dict[str, Any] = {f"{n}/encoded": contents(path) for n, path in paths.items()}
            yield row["filename"], TRAIN, {CLASS: [row["label"]], **values}


def pairs(folder: str, image: str, *partners: str) -> Parser:
    """Files of the same place but for the part's name; without the first partner there is no sample."""

    def parse() -> Iterator[Sample]:
        for path in glob(f"{folder}/{image}"):
            place = re.fullmatch(re.escape(f"{folder}/{image}").replace(r"\*", "(.*)"), path)
            assert place
            values = {
                re.sub(r"\W*\*\W*|[.]\w+$", "", partner).removesuffix("png") + "/encoded": contents(
                    *found
                )
                for partner in partners
                if (found := glob(f"{folder}/{partner.replace('*', place[1])}"))
            }
            if len(values) == len(partners):
                yield path.removeprefix(f"{folder}/"), TRAIN, values

    return parse


def webdataset() -> Iterator[Sample]:
    samples: dict[str, dict[str, bytes]] = {}
    with tarfile.open("s.tar") as archive:
        for member in archive:
            name, _, extension = member.name.partition(".")
            samples.setdefault(name, {})[extension] = archive.extractfile(member).read()  # type: ignore[union-attr]
    for name, files in samples.items():
        values: dict[str, Any] = {f"label/{k}": [v] for k, v in json.loads(files["json"]).items()}
        values["label/talk"] = [compact(json.loads(files["talk.json"]))]
        views = sorted(extension for extension in files if extension.startswith("views"))
        for column, extensions in {
            "thumb": ["thumb.jpg"],
            "right": ["right.png"],
            "views": views,
        }.items():
            values[f"{column}/encoded"] = [files[e] for e in extensions if e in files]
        yield f"s.tar/{name}.left.png", TRAIN, values


def crops() -> Iterator[Sample]:
    """Objects of 16 x 8 pixels; boxes outside of the image or shorter than 4 pixels are left out."""
    for name, rows in grouped(rows_of("boxes.csv"), "filename"):
        for i, (label, *box) in enumerate(_boxes(rows, SIDES, "label")):
            if box[2] <= 16 and min(box[2] - box[0], box[3] - box[1]) >= 4:
                yield f"{name}#{i}", TRAIN, {CLASS: [label]}


def studies() -> Iterator[Sample]:
    for row in lines_of("studies.jsonl"):
        values = {f"label/{name}": [row[name]] for name in ("study_id", "subject_id")}
        files = {
            "images/encoded": contents(*row["images"]),
            "report/encoded": contents(row["report"]),
        }
        yield f"studies.jsonl:{row['study_id']}", None, {**values, **files}


# --- layouts of research data sets ----------------------------------------------------------------


def kitti() -> Iterator[Sample]:
    for path in glob("kitti/training/label_2/*.txt"):
        lines = [line.split() for line in Path(path).read_text().splitlines()]
        names = "truncated occluded alpha 3d_bbox/height 3d_bbox/width 3d_bbox/length 3d_bbox/x 3d_bbox/y 3d_bbox/z 3d_bbox/rot_y"
        kept = [line for line in lines if line[0] != "DontCare"]
        columns = zip(*(line[1:4] + line[8:] for line in kept), strict=True)
        values: dict[str, Any] = {
            f"image/object/{name}": [*map(float, column)]
            for name, column in zip(names.split(), columns, strict=False)
        }
        shapes = [(line[0], *map(float, line[4:8])) for line in kept]
        yield f"{os.path.basename(path)[:-4]}.png", None, {OBJECTS: shapes, **values}


def voc() -> Iterator[Sample]:
    for path in glob("voc/annotations/*.xml"):
        objects = ElementTree.parse(path).findall("object")
        shapes = []
        for each in objects:
            xmin, ymin, xmax, ymax = (float(each.findtext(f"bndbox/{s}", "")) for s in SIDES)
            shapes.append((each.findtext("name"), xmin, ymin, xmax, ymax))
        values: dict[str, Any] = {
            f"image/object/{flag}": [int(each.findtext(flag, "")) for each in objects]
            for flag in ("truncated", "difficult")
        }
        values["image/object/view"] = [each.findtext("pose") for each in objects]
        yield f"{os.path.basename(path)[:-4]}.png", None, {OBJECTS: shapes, **values}


def coco() -> Iterator[Sample]:
    for folder, split in (("train2017", TRAIN), ("val2017", VALIDATION)):
        content = document(f"coco/annotations/instances_{folder}.json")
        names = {each["id"]: each["name"] for each in content["categories"]}
        for image in content["images"]:
            given = [each for each in content["annotations"] if each["image_id"] == image["id"]]
            yield (
                f"{folder}/{image['file_name']}",
                split,
                {
                    OBJECTS: [
                        of_sides(names[each["category_id"]], *each["bbox"]) for each in given
                    ],
                    "image/object/area": [each["area"] for each in given],
                    "image/object/is_crowd": [each["iscrowd"] for each in given],
                    "image/object/id": [each["id"] for each in given],
                    "label/image_id": [str(image["id"])],
                },
            )


def panoptic() -> Iterator[Sample]:
    content = document("panoptic/annotations/panoptic_train2017.json")
    names = {each["id"]: each["name"] for each in content["categories"]}
    images = {each["id"]: each["file_name"] for each in content["images"]}
    for each in content["annotations"]:
        given = each["segments_info"]
        values: dict[str, Any] = {
            f"image/panoptic/{name}": [segment[name] for segment in given]
            for name in ("id", "area")
        }
        values["image/panoptic/is_crowd"] = [segment["iscrowd"] for segment in given]
        values["label/image_id"] = [str(each["image_id"])]
        shapes = [of_sides(names[segment["category_id"]], *segment["bbox"]) for segment in given]
        yield images[each["image_id"]], TRAIN, {OBJECTS: shapes, **values}


def yolo() -> Iterator[Sample]:
    names = ("person", "bicycle", "traffic light")
    for path in glob("coco6/images/*/*.jpg"):
        labels, shapes = Path(path.replace("images", "labels")[:-3] + "txt"), []
        for line in labels.read_text().splitlines() if labels.exists() else ():
            number, x, y, width, height = map(float, line.split())
            shape = of_sides(names[int(number)], x - width / 2, y - height / 2, width, height)
            shapes.append(scaled(shape, 64, 48))
        folder = path.split("/")[2]
        yield (
            path.removeprefix("coco6/images/"),
            {"val": VALIDATION}.get(folder, folder),
            {OBJECTS: shapes},
        )


def masks() -> Iterator[Sample]:
    for path in glob("shapes/masks/*/*.png"):
        folder, name = path.split("/")[2:]
        split = {"val": VALIDATION}.get(folder, folder)
        yield (
            f"{folder}/{name[:-4]}.jpg",
            split,
            {"image/segmentation/class/encoded": contents(path)},
        )


def caption_files() -> Iterator[Sample]:
    for path in glob("laion/*/*.txt"):
        fields = document(f"{path[:-4]}.json")
        fields["caption"] = Path(path).read_text().strip()
        values = {f"label/{name}": [value] for name, value in fields.items() if value is not None}
        yield f"{path[6:-4]}.jpg", None, values


def folders(pattern: str, key: str) -> Parser:
    """Images whose path, by a regular expression with groups `label` and perhaps `split`, is all that is known."""

    def parse() -> Iterator[Sample]:
        for path in filter(os.path.isfile, glob(f"{key}/**", recursive=True)):
            match = re.fullmatch(f"{key}/{pattern}", path)
            assert match, path
            split = match.groupdict().get("split", TRAIN)
            yield (
                path.removeprefix(f"{key}/"),
                {"val": VALIDATION}.get(split, split),
                {CLASS: [match["label"]]},
            )

    return parse


def cifar(folder: str, kinds: Sequence[str], **batches: str) -> Parser:
    """The pickles, as the data set's page reads them; the first kind of labels is the class."""

    def parse() -> Iterator[Sample]:
        meta = pickle.loads(Path(glob(f"{folder}/*meta")[0]).read_bytes(), encoding="bytes")
        for split, batch in batches.items():
            content = pickle.loads(Path(folder, batch).read_bytes(), encoding="bytes")
            for i in range(len(content[b"data"])):
                values: dict[str, Any] = {}
                for kind in kinds:
                    number = content[f"{kind}labels".encode()][i]
                    name = meta[f"{kind}label_names".encode()][number].decode()
                    values |= {f"label/{kind}label": [number], f"label/{kind}text": [name]}
                values[CLASS] = values.pop(f"label/{kinds[0]}text")
                del values[f"label/{kinds[0]}label"]
                yield f"{batch}/{i:05d}", split, values

    return parse
