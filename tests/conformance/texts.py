r"""Rows of conversions as text: a tree of files, and the options.

Each group is a file in rows/. A line is a row: its name, then parts that two spaces separate; it goes on in lines that are
indented. Files are in `set/`, or in the folder of --images; a path with a slash before it begins in the working folder. Files
below a folder whose name ends in .zip or .tar are members of that archive.

| part | |
|---|---|
| `{cat,dog}/{0..2}.jpg + a.png` | images, numbered throughout; their size, ` 96x64`, and the first number, ` #7`, may follow |
| `~masks/{0..2}.png` | masks |
| `a.txt = cat` | files with a text, in which `\n` is a line end |
| `a.txt := bytes \xff` | files that one of `GENERATORS` makes of the words after its name; ` ; old => new` replaces text in them |
| `%a.csv ; id,label ; #,<cat\|dog>` | a table: its header, or -, and a row for each of the numbers 0 to 5, with the next of the values (`¦` in a value is a bar); the header [ makes the rows a list of JSON |
| `... ; {a,b}` | names instead of these numbers |
| `@a.csv ; ...` | a table that is named with --labels |
| `&via_csv` | the texts of tests/layouts/exports/via_csv; with a slash before the name, in the working folder |
| `!coco` | the data sets of `MAKERS`, in the working folder |
| `--resize 8` | options |
| `(encoded)` | a library encodes images, so their bytes do not count |
| `(files)` | the files beside the shards count, too |
| `(asks)` | without the further options of its group |

`* name  parts` adds parts to the last line without a star, whose name its own follows; without a name, its options are its name.
`$A = text` defines a word for the lines below.
"""

from __future__ import annotations

import io
import itertools
import json
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow
from pyarrow import parquet

from beam_pipeline.core.images.png import grey_png
from tests.archives import tar_bytes, zip_bytes
from tests.conformance.outcome import Row
from tests.conformance.pages import MAKERS
from tests.conformance.trees import (
    JPEG,
    Tree,
    coco,
    image,
    jpeg,
    masks,
    paths,
    png,
    stored_png,
    texts,
    tiff,
)
from tests.layouts.data_sets import exported
from tests.layouts.make_parquet import image_of, write_parquet
from tests.layouts.make_voc import CAT, labelimg_xml
from tests.pictures import picture

FOLDER = Path(__file__).with_name("rows")
Made = TypeVar("Made")


def _voc(path: str, objects: str) -> str:
    """An annotation of 16 x 8 pixels: a class and its box, such as cat,1,1,5,6, of each object."""
    name = path.rpartition("/")[2].replace(".xml", ".jpg")
    shapes = [(kind, (*box,)) for kind, *box in (each.split(",") for each in objects.split())]
    return labelimg_xml(name, (16, 8), shapes)  # type: ignore[arg-type]


def _escaped(_: str, text: str) -> bytes:
    """Bytes as Python writes them."""
    return text.encode("latin-1").decode("unicode_escape").encode("latin-1")


def _cut(path: str) -> bytes:
    """An image, or a tar with one."""
    return tar_bytes({"cat/1.jpg": JPEG}) if path.endswith("tar") else image(1, path)


def _mask(_: str, words: str) -> bytes:
    """A grey PNG of a size whose pixels are some numbers in turn; of 16 bits if they need them."""
    size, *values = words.split()
    width, height = map(int, size.split("x"))
    pixels = [int(values[i % len(values)]) for i in range(width * height)]
    bits = 16 if max(pixels) > 255 else 8
    return grey_png(b"".join(p.to_bytes(bits // 8, "big") for p in pixels), width, height, bits)


def _coloured(_: str, words: str) -> bytes:
    """A PNG, of a palette or rgb, of a size whose pixels are some colours in turn, such as 800000."""
    kind, size, *colours = words.split()
    width, height = map(int, size.split("x"))
    kinds = [bytes.fromhex(colour) for colour in dict.fromkeys(colours)]
    values = [bytes.fromhex(colours[i % len(colours)]) for i in range(width * height)]
    of_palette = kind == "palette"
    pixels = [bytes((kinds.index(value),)) if of_palette else value for value in values]
    rows = (b"\0" + b"".join(pixels[y * width :][:width]) for y in range(height))
    fields = (width, height, 8, 3 if of_palette else 2)
    return stored_png(fields, b"".join(rows), b"".join(kinds) * of_palette)


def _ramp(path: str, _: str) -> bytes:
    """A grey PNG of 16 bits and 16 x 8 pixels, whose values begin at the number in its name."""
    first = int(Path(path).stem)
    return grey_png(bytes([*range(first, 256), *range(first)]), 16, 8, 16)


def _repeated(_: str, words: str) -> str:
    """A text with as many characters x for its X."""
    number, _, text = words.partition(" ")
    return text.replace("X", "x" * int(number)).replace("\\n", "\n")


def _parquet(_: str, columns: str) -> bytes:
    """A table, as pandas writes it, of an object of lists."""
    out = io.BytesIO()
    parquet.write_table(pyarrow.table(json.loads(columns)), out)
    return out.getvalue()


def _of_images(_: str, columns: str) -> bytes:
    """The same with a column of images, or several, as Hugging Face has them, or of bytes if `features` is null.

    Their cells may be given: the number of an image, null, a path, "" for no bytes, or a list of these.
    """
    lists = json.loads(columns)
    names, features = lists.pop("column", "image").split(","), lists.pop("features", {})

    def cell(value: Any, column: int) -> Any:
        if isinstance(value, list):
            return [cell(each, column) for each in value]
        if isinstance(value, int):
            data = jpeg(value + 100 * column)
            return data if features is None else image_of(data, f"{value}.jpg")
        if value == "":
            return image_of(b"")
        return value if value is None else image_of(None, value)

    count = len(next(iter(lists.values())))
    for column, name in enumerate(names):
        lists[name] = [cell(value, column) for value in lists.get(name, range(count))]
    rows = [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]
    images = {name: {"_type": "Image"} for name in names}
    described = None if features is None else {**images, **features}
    with tempfile.TemporaryDirectory() as folder:
        write_parquet(f"{folder}/x", rows, described)
        return Path(folder, "x").read_bytes()


GENERATORS: Mapping[str, Callable[[str, str], bytes | str]] = {
    "annotation": lambda _, __: CAT,
    "bytes": _escaped,
    "coco": lambda _, names: coco(paths(*names.split())),
    "coloured": _coloured,
    "copy": lambda path, number: image(int(number), path),
    "cut": lambda path, most: _cut(path)[: int(most)],
    "images": _of_images,
    "jpeg": lambda _, __: JPEG,
    "latin-1": lambda _, text: text.replace("\\n", "\n").encode("latin-1"),
    "parquet": _parquet,
    "ids": _mask,
    "png": lambda _, number: png(int(number)),
    "ramp": _ramp,
    "repeated": _repeated,
    "text": lambda _, text: text.replace("\\n", "\n"),
    "tiff": lambda _, __: tiff(),
    "utf-16": lambda _, text: text.replace("\\n", "\n").encode("utf-16"),
    "voc": _voc,
}


def generated(path: str, made: str) -> bytes | str:
    """What a generator makes, with some texts replaced: `name words ; old => new ; old => new`."""
    (generator, *words), *changes = (made.split(" ; ")[0].split(" ", 1), *made.split(" ; ")[1:])
    content = GENERATORS[generator](path, "".join(words))
    for change in changes:
        old, _, new = change.replace("\\n", "\n").replace("\\t", "\t").partition(" =>")
        assert isinstance(content, str)
        assert old in content, (old, content)
        content = content.replace(old, new.removeprefix(" "))
    return content


def _table(header: str, row: str, names: Sequence[str]) -> str:
    """A table with a row a name."""
    lines = []
    for i, name in enumerate(names):
        values = re.sub(r"<([^<>]*\|[^<>]*)>", lambda m, i=i: _nth(m[1].split("|"), i), row)  # type: ignore[misc]
        lines.append(values.replace("#", name).replace("\\t", "\t"))
    if header == "[":
        return f"[{', '.join(lines)}]"
    return "\n".join([*([] if header == "-" else [header]), *lines]) + "\n"


def _nth(values: Sequence[str], number: int) -> str:
    return values[number % len(values)].replace("¦", "|")


class _Parts:
    """The files and options that the parts of a line describe."""

    def __init__(self, parts: Sequence[str], base: str) -> None:
        self.options = [part for part in parts if part.startswith("--")]
        self.labels: list[str] = []
        self.files: dict[str, bytes | str] = {}
        self.makers: list[Callable[[str], object]] = []
        self.stable = not {"(encoded)", "--resize 8", "--object_features masks"} & {*parts}
        named = re.search(r"--images (?:\S*://)?([^ /]+)", " ".join(self.options))
        self._base = named[1] if named else base
        if not named:
            self.options.insert(0, f"--images {base}")
        for part in parts:
            if not part.startswith(("--", "(")):
                self._add(part)
        self.options += ["--labels", *self.labels] if self.labels else []

    def _placed(self, path: str) -> str:
        return path[1:] if path[0] == "/" else f"{self._base}/{path}"

    def _add(self, part: str) -> None:
        if part[0] == "!":
            self.makers.append(MAKERS[part[1:]])
        elif part[0] == "&":
            texts_of = exported(part[1:].removeprefix("/"))
            place = "/" if part[1] == "/" else ""
            self.files |= {self._placed(place + name): text for name, text in texts_of.items()}
        elif part[0] in "%@":
            name, header, row, *names = part[1:].split(" ; ")
            content = _table(header, row, paths(*names or ["{0..5}"]))
            self.files |= texts(content, self._placed(name))
            self.labels += [self._placed(name)] if part[0] == "@" else []
        elif " := " in part:
            name, _, made = part.partition(" := ")
            self.files |= {path: generated(path, made) for path in paths(self._placed(name))}
        elif " = " in part:
            name, _, text = part.partition(" = ")
            self.files |= texts(text.replace("\\n", "\n"), self._placed(name))
        elif part[0] == "~":
            of_png = any(name.endswith(".png") for name in self.files)
            patterns = map(self._placed, part[1:].split(" + "))
            self.files |= masks(*patterns, size=(100, 80) if of_png else (16, 8))
        else:
            self._add_images(part)

    def _add_images(self, part: str) -> None:
        match = re.fullmatch(r"(.*?)(?: (\d+)x(\d+))?(?: #(\d+))?", part)
        assert match
        size = (int(match[2]), int(match[3])) if match[2] else ()
        for i, name in enumerate(paths(*map(self._placed, match[1].split(" + ")))):
            number = i + int(match[4] or 0)
            if size and name.endswith("jpg"):
                self.stable = False
                self.files[name] = picture(number, size=size)
            else:
                self.files[name] = image(number, name, *size)


def _row(parts: Sequence[str], base: str, **settings: bool) -> Row:
    """The conversion that the parts of a line describe."""
    found = _Parts(parts, base)
    settings |= {"stable": found.stable and not found.makers, "every_file": "(files)" in parts}
    return Row(" ".join(found.options), _packed(found.files), tuple(found.makers), **settings)


def _packed(files: Tree) -> Tree:
    """The files, with those below folders called as archives in these archives."""
    packed: dict[str, bytes | str] = {}
    members: dict[str, dict[str, bytes]] = {}
    for path, content in files.items():
        if inside := re.fullmatch(r"(.*?\.(?:zip|tar))/(.*)", path):
            data = content.encode() if isinstance(content, str) else content
            members.setdefault(inside[1], {})[inside[2]] = data
        else:
            packed[path] = content
    for path, contents in members.items():
        packed[path] = (zip_bytes if path.endswith("zip") else tar_bytes)(contents)
    return packed


def lines_of(group: str) -> Iterator[list[str]]:
    """The parts of each row, its name first."""
    text = (FOLDER / f"{group}.txt").read_text(encoding="utf-8")
    words: dict[str, str] = {}
    lines = []
    for line in re.sub(r"\n +", "  ", re.sub(r"\n +; ", " ; ", text)).splitlines():
        line = re.sub(r"\$([A-Z_]+)(?![A-Z_]| = )", lambda match: words[match[1]], line)
        if defined := re.fullmatch(r"\$([A-Z_]+) = (.*)", line):
            words[defined[1]] = defined[2]
        elif line and line[0] != "#":
            lines.append(re.split("  +", line))
    shared: list[str] = []
    for (name, *parts), following in itertools.zip_longest(lines, lines[1:]):
        if name[0] == "*":
            own = name[2:] or " ".join(part for part in parts if part.startswith("--"))
            yield [f"{shared[0]} {own}", *shared[1:], *parts]
        else:
            shared = [name, *parts]
            if not following or following[0][0] != "*":
                yield shared


def by_name(named: Iterable[tuple[str, Made]]) -> dict[str, Made]:
    """Name -> what it names, of which no two have the same."""
    found: dict[str, Made] = {}
    for name, made in named:
        assert name not in found, f"two rows are called {name!r}"
        found[name] = made
    return found


def rows(group: str, *further: str, base: str = "set", **settings: bool) -> dict[str, Row]:
    """Name -> the conversion that a line of a group describes, with further options unless it is marked."""
    return by_name(
        (name, _row([*parts, *([] if "(asks)" in parts else further)], base, **settings))
        for name, *parts in lines_of(group)
    )
