"""A folder a class, with and without folders of splits above, and classes that are numbers."""

from __future__ import annotations

from tests.pictures import write_pictures


def make(folder: str) -> None:
    """Writes pets/, cars/ with splits, and digits/ with classes that are called 0, 1, 2 and 10."""
    write_pictures(
        f"{folder}/pets",
        [f"{name}/{i:02d}.jpg" for name in ("bird/owl", "cat", "dog") for i in range(8)],
    )
    write_pictures(
        f"{folder}/cars",
        [
            f"{split}/{name}/{i}.png"
            for split, images in (("train", 6), ("val", 2), ("test", 2))
            for name in ("bus", "van")
            for i in range(images)
        ],
    )
    write_pictures(
        f"{folder}/digits", [f"{name}/{i}.png" for name in ("0", "1", "2", "10") for i in range(4)]
    )
