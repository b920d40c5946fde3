"""Rows as samples: JSON kept as text, several rows of an image, rows without one."""

from __future__ import annotations

import itertools
import json
from typing import Any

from beam_pipeline.core.images.png import grey_png
from tests.archives import tar_bytes
from tests.conformance.outcome import Row, row
from tests.conformance.trees import csv, image, images, jsonl, paths, png, texts

PHOTOS = images("photos/{0..5}.jpg")
NAMES = paths("{0..5}.jpg")


def turns(number: int) -> list[dict[str, Any]]:
    """A question and its answer, as LLaVA has them."""
    question = {"from": "human", "value": f"<image>\nWhat is {number}?"}
    return [question, {"from": "gpt", "value": f"é {number}"}]


TALKS = [
    {"file_name": name, "id": f"q{i}", "conversations": turns(i)} for i, name in enumerate(NAMES)
]
OF_JSONL = {**PHOTOS, "talks.jsonl": jsonl(TALKS)}
PAIRS = {
    **{f"pairs/im{side}/{i}.png": png(9 * i + side, 16, 8) for i in range(6) for side in (0, 1)},
    **{
        f"pairs/d/{i}.png": grey_png(bytes([*range(i, 256), *range(i)]), 16, 8, 16)
        for i in range(6)
    },
    **{f"pairs/notes/{i}.txt": f"note {i}" for i in range(6)},
}
BESIDE: dict[str, list[str]] = {
    "right": [f"im1/{i}.png" for i in range(6)],
    "depth": [f"d/{i}.png" for i in range(6)],
    "note": [f"notes/{i}.txt" for i in range(5)] + ["notes/9.txt"],
}
LEFT = [f"im0/{i}.png" for i in range(6)]
OF_PAIRS = {**PAIRS, "pairs.csv": csv(LEFT, label=("cat", "dog"), **BESIDE)}
VIEWS = [
    {"image": name[4:], "views": BESIDE["right"][:i], "label": "ab"[i % 2]}
    for i, name in enumerate(LEFT)
]
PAIRED = "--images pairs --labels pairs.csv --max_bad_fraction 1"

TWO_EACH = [
    {"id": f"q{i}", "image": [NAMES[i], NAMES[i + 1]], "conversations": turns(i)} for i in range(5)
]
STUDIES = images("files/p10/p1{0..3}/s5{0..1}/{a,b,c}.jpg") | texts(
    "No finding.", "files/p10/p1{0..3}/s5{0..1}.txt"
)
VIEWS_OF = {
    path[:-4]: [f"{path[:-4]}/{v}.jpg" for v in "abc"] for path in STUDIES if path.endswith("txt")
}
OF_STUDIES = [
    {"study_id": path[10:17], "subject_id": path[10:13], "images": views, "report": f"{path}.txt"}
    for path, views in VIEWS_OF.items()
]

OF_FOLDERS = {
    "labels.csv": "subject,study,edema\n"
    + "".join(f"p1{i // 2},p1{i // 2}/s5{i % 2},{i % 3 % 2}\n" for i in range(7))
    + "p19,p19/s50,1\np10,s50,1\np10,p10/p10/s51,1\np11,p11/s50,1\n"
}

CELLS = ['{"a": 1}', '{"a": 1', "[]", "", "[1e999]", '{"b": {"a": null}}']

ROW_NAMES = [NAMES[i % 4] for i in range(9)]
CAPTIONS = csv(
    [*ROW_NAMES, "gone.jpg"],
    text=[f"caption {i}" for i in range(7)],
    score=(1, 2, 3, 4, 5, 6, 7, "x", 8, 9),
    split=("train", "test", "train", "train"),
)
LLAVA = [
    {**({} if i % 4 == 3 else {"image": NAMES[i % 5]}), "id": f"v/{i}#", "conversations": turns(i)}
    for i in range(12)
]
OF_LLAVA = {**PHOTOS, "talks.json": json.dumps([*LLAVA, LLAVA[3], {**LLAVA[4], "id": "v/9#"}])}
TALKS_OF_LLAVA = "--images photos --labels talks.json --sample row --columns conversations:json"
SEVERAL: list[dict[str, Any]] = [
    {"image": ["0.jpg"], "conversations": turns(0)},
    {"image": ["1.jpg", "2.jpg"], "conversations": turns(1)},
    {"images": ["3.jpg"], "messages": [{"role": "user", "content": "3?"}]},
    {
        "messages": [
            {"content": [{"type": "image", "path": "3.jpg"}, {"type": "text", "text": "?"}]}
        ]
    },
    {
        "messages": [
            {"content": [{"type": "image_url", "image_url": {"url": name}} for name in NAMES[:2]]},
            {"content": [{"type": "image", "image": "gone.jpg"}]},
        ]
    },
    {"messages": [{"content": [{"type": "image_url", "image_url": {"url": "data:,x"}}, 1]}, 2]},
]


def samples_tar(*extensions: str) -> dict[str, bytes | str]:
    """A tar of WebDataset with six samples; every fourth lacks the last image."""
    others = {"cls": "{}", "json": '{{"score": {}}}', "talk.json": '[{{"é": {}}}]'}
    members = {}
    for i, (n, extension) in itertools.product(range(6), enumerate(extensions)):
        if i % 4 < 3 or extension != extensions[-1]:
            text = others.get(extension)
            content = text.format(i % 2).encode() if text else image(9 * i + n, extension)
            members[f"{i}.{extension}"] = content
    return {"s.tar": tar_bytes(members)}


BOXES = [(0, 0, 16, 8), (3, 2, 3, 8), (0, 0, 16, 8), (2, 2, 4, 3), (9, 1, 4, 3), (0, 0, 30, 8)]
OF_BOXES = {
    **PHOTOS,
    "boxes.csv": csv(
        [NAMES[i % 4] for i in range(6)],
        **{
            side: [box[j] for box in BOXES]
            for j, side in enumerate(("xmin", "ymin", "xmax", "ymax"))
        },
        label=("cat", "dog"),
    ),
}

ROWS = {
    "captions": row(
        "--images photos --labels l.csv --sample row --label_column none --max_bad_fraction 1 --yes",
        PHOTOS,
        {"l.csv": CAPTIONS},
    ),
    "neighbours": row(
        "--images photos --labels l.csv --sample row --columns score:str,split:skip --label_column none "
        "--group_by image --num_shards 3 --splits train=0.5,test=0.5 --max_bad_fraction 1 --yes",
        PHOTOS,
        {"l.csv": CAPTIONS},
    ),
    "kept_without_rows": row(
        "--images photos --labels l.csv --sample row --unlabelled keep --label_column text --max_bad_fraction 1 "
        "--columns score:str,split:skip --yes",
        PHOTOS,
        {"l.csv": CAPTIONS},
    ),
    "conversations": Row(
        f"{TALKS_OF_LLAVA} --row_id id --no_image keep --splits train=0.7,test=0.3 --max_bad_fraction 1",
        OF_LLAVA,
    ),
    "conversations_by_number": Row(
        f"{TALKS_OF_LLAVA},id:skip --no_image keep --max_bad_fraction 1", OF_LLAVA
    ),
    "several_images": row(
        "--images photos --labels talks.jsonl --sample row --columns conversations:json,messages:json "
        "--file_columns images --no_image keep --max_bad_fraction 1 --yes",
        PHOTOS,
        {"talks.jsonl": jsonl(SEVERAL)},
    ),
    "several_images_in_each": row(
        "--images photos --labels talks.json", PHOTOS, {"talks.json": json.dumps(TWO_EACH)}
    ),
    "several_images_in_each_by_id": row(
        "--images photos --labels talks.json --sample row --row_id id --columns conversations:json "
        "--file_columns images --no_image keep",
        PHOTOS,
        {"talks.json": json.dumps(TWO_EACH)},
    ),
    "studies": row(
        "--images files --labels studies.jsonl", STUDIES, {"studies.jsonl": jsonl(OF_STUDIES)}
    ),
    "studies_of_a_patient": row(
        "--images files --labels studies.jsonl --file_columns images,report --key_column none --row_id study_id "
        "--no_image keep --splits train=0.5,test=0.5 --split_by subject_id",
        STUDIES,
        {"studies.jsonl": jsonl(OF_STUDIES)},
    ),
    "images_of_a_patient": row(
        "--images files --labels images.csv --label_column none --file_columns report --splits train=0.5,test=0.5 "
        "--split_by subject_id",
        STUDIES,
        {
            "images.csv": csv(
                [view for study in OF_STUDIES for view in study["images"]],
                subject_id=[study["subject_id"] for study in OF_STUDIES for _ in "abc"],
                report=[study["report"] for study in OF_STUDIES for _ in "abc"],
            )
        },
    ),
    "labels_of_studies": row(
        "--images files --labels labels.csv --label_column edema",
        STUDIES,
        {"labels.csv": csv(["s50", "s51"], edema=(0, 1))},
    ),
    "labels_of_folders": row(
        "--images files --labels labels.csv --label_column edema --max_bad_fraction 1",
        STUDIES,
        OF_FOLDERS,
    ),
    "labels_of_folders_in_splits": row(
        "--images files --labels labels.csv --rows_of folder --key_column study --label_column edema "
        "--max_bad_fraction 1 --splits train=0.5,test=0.5",
        STUDIES,
        OF_FOLDERS,
    ),
    "labels_of_patients_by_list": row(
        "--images files --labels labels.csv --rows_of folder",
        STUDIES,
        {"labels.csv": "".join(f"files/p10/p1{i}/,{'ab'[i % 2]}\n" for i in range(4))},
        {"files/p10/a.jpg": image(99, "a.jpg")},
    ),
    "questions_of_folders": row(
        "--images archive/files --labels questions.csv --rows_of folder --sample row --row_id id --label_column none "
        "--splits train=0.5,test=0.5",
        {f"archive/{path}": content for path, content in STUDIES.items()},
        {
            "questions.csv": csv(
                [f"archive/files/p10/p1{i % 4}/" for i in range(8)],
                id=[f"q{i}" for i in range(8)],
            )
        },
    ),
    "only_with_images": Row(f"{TALKS_OF_LLAVA} --row_id id --max_bad_fraction 1", OF_LLAVA),
    "crops": Row(
        "--images photos --labels boxes.csv --crop_boxes --crop_min_side 4 --max_bad_fraction 1 --yes",
        OF_BOXES,
    ),
    "crops_of_rows": Row("--images photos --labels boxes.csv --crop_boxes --sample row", OF_BOXES),
    "nested": Row("--images photos --labels talks.jsonl", OF_JSONL),
    "json_lines": Row(
        "--images photos --labels talks.jsonl --columns conversations:json --label_column id "
        "--class_ids number --yes",
        OF_JSONL,
    ),
    "json_cells": row(
        "--images photos --labels l.csv --columns meta:json --max_bad_fraction 1",
        PHOTOS,
        {"l.csv": csv(NAMES, label=("cat", "dog"), meta=CELLS)},
    ),
    "pairs": Row(PAIRED, OF_PAIRS),
    "file_columns": Row(f"{PAIRED} --file_columns right,depth,note", OF_PAIRS, every_file=True),
    "files_resized": Row(
        f"{PAIRED} --file_columns right,depth,note:file --resize 8x4 --resize_mode exact",
        OF_PAIRS,
        stable=False,
    ),
    "files_in_lists": row(
        "--images pairs/im0 --labels pairs/views.jsonl --columns views:file --max_bad_fraction 1",
        PAIRS,
        {"pairs/views.jsonl": jsonl(VIEWS)},
    ),
    "pairs_of_folders": row(
        "--images pairs --layout pairs --columns notes:skip --max_bad_fraction 1",
        PAIRS,
        {"pairs/im1/9.png": png(1, 16, 8), "pairs/im0/8.png": png(2, 16, 8)},
        every_file=True,
    ),
    "images_of_webdataset": Row(
        "--images s.tar --columns talk:json --label_column none",
        samples_tar(
            "json", "talk.json", "left.png", "thumb.jpg", "views.0.png", "views.1.png", "right.png"
        ),
        every_file=True,
    ),
    "images_beside_one_of_webdataset": Row(
        "--images s.tar --resize 8x4 --resize_mode exact",
        samples_tar("cls", "talk.json", "png", "depth.png"),
        stable=False,
    ),
    "images_of_webdataset_of_any_name": Row("--images s.tar", samples_tar("cls", "x.png", "y.png")),
    "seventeen_views_of_webdataset": Row(
        "--images s.tar", samples_tar("cls", "jpg", *(f"v{i}.png" for i in range(17)))
    ),
    "conversations_with_lists_or_none": row(
        "--images photos --labels talks.jsonl --sample row --row_id id --columns conversations:json "
        "--file_columns images --no_image keep --max_bad_fraction 1 --yes",
        PHOTOS,
        {
            "talks.jsonl": jsonl(
                {"id": f"q{i}", "image": images, "conversations": turns(i)}
                for i, images in enumerate([[], None, NAMES[:2], ["0.jpg", "9.jpg"], ["/x/0.jpg"]])
            )
        },
    ),
    "pairs_of_a_table_with_gaps": row(
        "--images pairs/im0 --labels pairs.csv --label_column none --file_columns right --max_bad_fraction 1",
        {path: content for path, content in PAIRS.items() if path != "pairs/im1/2.png"},
        {
            "pairs.csv": csv(
                [f"{i}.png" for i in range(8)], right=[f"pairs/im1/{i}.png" for i in range(8)]
            )
        },
    ),
    "pairs_of_scenes": Row(
        "--images scenes --layout pairs --max_bad_fraction 1",
        {
            f"scenes/{scene}/{name}": PAIRS[f"pairs/{path.format(i)}"]
            for i, scene in enumerate(("adirondack", "piano", "vintage"))
            for name, path in (
                ("im0.png", "im0/{}.png"),
                ("im1.png", "im1/{}.png"),
                ("calib.txt", "notes/{}.txt"),
            )
            if (scene, name) != ("vintage", "im1.png")
        },
        every_file=True,
    ),
}
