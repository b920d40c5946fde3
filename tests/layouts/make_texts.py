"""Captions in tables and in files, conversations, and rows whose cells name files."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from tests.layouts.make_segmentation import SIZE, grey, scene
from tests.pictures import encoded, picture, write_files, write_pictures

# --- several captions of an image in a CSV, as of Flickr8k -------------------------------------------

_PICTURES = 16
_EACH = 5
_WHO = ("A dog", "Two children", "A man in a red coat", "A cat")
_WHAT = ("runs over grass", "sits on a bench, alone", "jumps", "looks at the sea")


def captions() -> dict[str, list[str]]:
    """Name of an image -> its captions, in the order of the file."""
    return {
        f"{1000268201 + 17 * number}.jpg": [
            f"{_WHO[number % 4]} {_WHAT[(number + view) % 4]} , view {view} ."
            for view in range(_EACH)
        ]
        for number in range(_PICTURES)
    }


def make_captions(folder: str) -> None:
    """Writes Images/ and captions.txt, which is a CSV with a header."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["image", "caption"])
    for name, texts in captions().items():
        writer.writerows([name, text] for text in texts)
    write_files(folder, {"captions.txt": out.getvalue()})
    write_pictures(f"{folder}/Images", captions())


# --- a caption beside each image, for a trainer, and as of img2dataset -------------------------------

DOGS = {
    **{f"10_dog/{i:04d}.png": f"a photo of sks dog {i}, on grass" for i in range(12)},
    **{f"1_reg/{i:04d}.png": f"a photo of a dog {i}" for i in range(4)},
}
"""Path of an image -> its caption."""

LAION = {f"{i // 8:05d}/{i:09d}.jpg": f"Picture number {i} – for sale" for i in range(16)}


def make_caption_files(folder: str) -> None:
    """Writes dogs/ and laion/, which holds JSON objects, statistics and Parquet files as well."""
    write_files(f"{folder}/dogs", with_captions(DOGS))
    write_files(f"{folder}/laion", with_captions(LAION))
    for shard in ("00000", "00001"):
        rows = [fields_of(key) for key in LAION if key.startswith(shard)]
        objects = {f"{shard}/{row['key']}.json": json.dumps(row, indent=4) for row in rows}
        statistics = {f"{shard}_stats.json": json.dumps({"count": 8, "successes": 8})}
        write_files(f"{folder}/laion", {**objects, **statistics})
        parquet.write_table(pa.Table.from_pylist(rows), f"{folder}/laion/{shard}.parquet")


def with_captions(captions: dict[str, str], ending: str = ".txt") -> dict[str, bytes | str]:
    """The files of images and of the captions beside them."""
    files: dict[str, bytes | str] = {}
    for i, (name, text) in enumerate(captions.items()):
        kind = "PNG" if name.endswith(".png") else "JPEG"
        files[name] = picture(i, file_format=kind, size=(32, 32))
        files[f"{name[:-4]}{ending}"] = f"{text}\n"
    return files


def fields_of(key: str) -> dict[str, str | int | None]:
    """The object that img2dataset writes beside an image."""
    name = key[6:-4]
    return {
        "caption": LAION[key],
        "url": f"https://example.com/{name}.jpg",
        "key": name,
        "status": "success",
        "error_message": None,
        "width": 32,
        "height": 32,
        "original_width": 640,
        "original_height": 480 + int(name),
        "exif": "{}",
        "sha256": f"{int(name):064x}",
    }


# --- conversations over images, as of LLaVA and TRL --------------------------------------------------


def _turns(question: str, answer: str) -> list[dict[str, str]]:
    return [{"from": "human", "value": question}, {"from": "gpt", "value": answer}]


def make_conversations(folder: str) -> None:
    """Writes llava/ with four images, and talks about one, none or two of them."""
    pictures = {f"llava/coco/{i}.jpg": picture(i + 1, size=(40, 30)) for i in range(4)}
    talks: list[dict[str, Any]] = [
        {"id": f"v{i}", "image": f"{i % 3}.jpg", "conversations": _turns(f"<image>\n{i}?", "Yes.")}
        for i in range(6)
    ]
    talks += [
        {"id": "t0", "conversations": _turns("Who are you?", "A model.")},
        {
            "id": "m0",
            "image": ["0.jpg", "3.jpg"],
            "conversations": _turns("<image><image>\nDo they differ?", "Yes."),
        },
    ]
    image = {"type": "image", "image": "3.jpg"}
    parts = [image, {"type": "text", "text": "What colour?"}]
    messages = [{"role": "user", "content": parts}, {"role": "assistant", "content": "Blue."}]
    files = {
        "llava/talks.json": json.dumps(talks, indent=2),
        "llava/messages.jsonl": json.dumps({"messages": messages}) + "\n",
    }
    write_files(folder, {**pictures, **files})


# --- stereo pairs with depths, and conversations over several views ----------------------------------

_VIEWS = 8


def make_files_in_cells(folder: str) -> None:
    """Writes stereo/ and chats/."""
    width, height = SIZE
    files: dict[str, bytes | str] = {}
    rows, talks = ["image,right,depth"], []
    for i in range(_VIEWS):
        name = f"{i:06d}.png"
        depth = grey([[100 * x + i for x in range(width)] for _ in range(height)], 16)
        files |= {
            f"stereo/image_2/{name}": encoded(scene(i)[0]),
            f"stereo/image_3/{name}": encoded(scene(i + 1)[0]),
            f"stereo/depth/{name}": depth,
            f"chats/{name}": encoded(scene(i)[0]),
        }
        rows.append(f"{name},image_3/{name},depth/{name}")
        views = [f"views/{j:06d}.png" for j in range(i % 3)]
        turns = [
            {"from": "human", "value": "<image>\nWhat is it?"},
            {"from": "gpt", "value": "A disc."},
        ]
        talks.append({"image": name, "views": views, "conversations": turns})
    files |= {f"chats/views/{j:06d}.png": encoded(scene(j)[0]) for j in range(2)}
    files["stereo/pairs.csv"] = "".join(f"{row}\n" for row in rows)
    files["chats/talks.jsonl"] = "".join(f"{json.dumps(talk)}\n" for talk in talks)
    write_files(folder, files)
