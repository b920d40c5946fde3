"""Pictures with several captions each, as Flickr8k has them: a CSV with a row a caption."""

from __future__ import annotations

import csv
import io

from tests.pictures import write_files, write_pictures

PICTURES = 16
EACH = 5
_WHO = ("A dog", "Two children", "A man in a red coat", "A cat")
_WHAT = ("runs over grass", "sits on a bench, alone", "jumps", "looks at the sea")


def captions() -> dict[str, list[str]]:
    """Name of an image -> its captions, in the order of the file."""
    return {
        f"{1000268201 + 17 * number}.jpg": [
            f"{_WHO[number % 4]} {_WHAT[(number + view) % 4]} , view {view} ."
            for view in range(EACH)
        ]
        for number in range(PICTURES)
    }


def make(folder: str) -> None:
    """Writes Images/ and captions.txt, which is a CSV with a header."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["image", "caption"])
    for name, texts in captions().items():
        writer.writerows([name, text] for text in texts)
    write_files(folder, {"captions.txt": out.getvalue()})
    write_pictures(f"{folder}/Images", captions())
