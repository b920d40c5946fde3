"""A zip with class folders, and WebDataset's shards with classes and captions."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

from tests.archives import make_tar, make_zip
from tests.pictures import picture

CLASSES = ("cat", "dog")


def make(folder: str) -> None:
    """Writes photos.zip, with a folder photos/ in it, labels.csv, and pets-{train,val}-{000..001}.tar."""
    root = Path(folder)
    names = [f"{name}/{i}.jpg" for name in CLASSES for i in range(8)]
    photos = {name: picture(i, size=(32, 32)) for i, name in enumerate(names)}
    make_zip(
        root / "photos.zip",
        {f"photos/{name}": content for name, content in photos.items()},
        zipfile.ZIP_DEFLATED,
    )
    rows = "".join(f"{name},{i / 4}\n" for i, name in enumerate(names))
    (root / "labels.csv").write_text(f"filename,age\n{rows}")
    for split, shards in (("train", 2), ("val", 1)):
        for shard in range(shards):
            make_tar(root / f"pets-{split}-{shard:03d}.tar", dict(samples(split, shard)))


def samples(split: str, shard: int) -> list[tuple[str, bytes]]:
    """The files of eight samples: image, class, caption and columns."""
    files = []
    for i in range(8):
        base, number = f"{split}{shard}{i:04d}", 8 * shard + i
        fields = {"width": 32, "score": number / 8, "source": {"camera": 1}}
        files += [
            (f"{base}.jpg", picture(number, size=(32, 32))),
            (f"{base}.cls", str(number % 2).encode()),
            (f"{base}.txt", f"a {CLASSES[number % 2]} in the garden".encode()),
            (f"{base}.json", json.dumps(fields).encode()),
        ]
    return files
