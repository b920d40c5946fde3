"""Classes of whole images in COCO's JSON: annotations with a category and without a box.

    {"images": [{"id": 0, "file_name": "train/02912_Animalia/a.jpg", "latitude": 43.8, ...}, ...],
     "annotations": [{"id": 0, "image_id": 0, "category_id": 2912}, ...],
     "categories": [{"id": 2912, "name": "Lumbricus terrestris", "supercategory": "Animalia"}, ...]}

Sources: https://github.com/visipedia/inat_comp and https://lila.science/coco-camera-traps
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels.classes import AUTO_ORDER, ClassNumbering
from beam_pipeline.core.labels.numbers import is_integer
from beam_pipeline.core.labels.schema import Column, ColumnKind, further_column
from beam_pipeline.core.references import LabelRow, LabelValue
from beam_pipeline.core.text import counted, shown, some
from beam_pipeline.layouts.coco.extras import NO_EXTRAS, Extras
from beam_pipeline.layouts.coco.instances import (
    Categories,
    ImageEntries,
    annotation_name,
    bad_row,
    is_id,
    parse_categories,
    read_lists,
)
from beam_pipeline.layouts.layout import SourceOptions

CLASS = "category"
"""The name of the column of classes."""


@dataclass(frozen=True)
class ImageClasses:
    """How the classes of whole images are read.

    Attributes:
      several: True for a list of classes per image; otherwise an image with several categories is
        faulty.
      unlabelled: True to yield rows of images without annotations, too, without a class.
    """

    several: bool = False
    unlabelled: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of a file without extras: the class of an image, and its id as text."""
        return (
            Column(CLASS, ColumnKind.CLASS, "image/class", required=True, repeated=self.several),
            further_column("image_id", ColumnKind.BYTES),
        )


# --- before the job starts -----------------------------------------------------------------------


def image_classes(
    options: SourceOptions, described: Mapping[str, Categories]
) -> ImageClasses | None:
    """Decides how the classes of whole images are read; None if the files hold objects.

    Raises:
      UsageError: some files hold objects and some classes, or --list_column names another column.
    """
    holding = [uri for uri, categories in described.items() if categories.of_images]
    if not holding:
        return None
    others = [uri for uri in described if uri not in holding]
    if others:
        raise UsageError(
            f"{holding[0]} holds the classes of whole images, as none of its annotations has a bbox, "
            f"and {others[0]} holds objects; convert them one after the other"
        )
    for name in options.list_column:
        if name != CLASS:
            raise UsageError(
                f"--list_column {name}: the layout coco has one column that may be a list, {CLASS}; "
                f"expected --list_column {CLASS}=,"
            )
    return ImageClasses(several=bool(options.list_column), unlabelled=options.unlabelled == "keep")


def class_numbering(options: SourceOptions, categories: Mapping[int, str]) -> ClassNumbering:
    """Numbers classes from 0 in the order of their categories' ids.

    Another first id or order may be asked for, and so may the ids of the categories.

    Args:
      options: those given.
      categories: id -> name.

    Raises:
      UsageError: a negative id is to be kept, or options contradict each other.
    """
    numbering = options.numbering()
    if options.class_ids == "keep":
        negative = [i for i in sorted(categories) if i < 0]
        if negative:
            raise UsageError(
                f"--class_ids keep: category {categories[negative[0]]!r} has the id {negative[0]}, "
                "and losses and metrics count ids from 0; leave it out"
            )
        return ClassNumbering(known=tuple((name, i) for i, name in sorted(categories.items())))
    if options.label_order == AUTO_ORDER:
        names = [name for _, name in sorted(categories.items())]
        return ClassNumbering(
            known=tuple((name, i) for i, name in enumerate(names, numbering.base))
        )
    return ClassNumbering(known=numbering.number(categories.values()))


def numbering_notes(options: SourceOptions, categories: Mapping[int, str]) -> tuple[str, ...]:
    """Returns a note on categories whose classes have other ids."""
    ids = {name: i for i, name in categories.items()}
    changed = [
        f"{ids[name]} -> {i}"
        for name, i in class_numbering(options, categories).known
        if ids[name] != i
    ]
    if not changed:
        return ()
    return (
        f"class ids are not the ids of the categories: {some(changed)}; --class_ids keep writes "
        "those of the categories",
    )


def several_questions(
    described: Mapping[str, Categories], kind: ImageClasses | None
) -> tuple[str, ...]:
    """Returns a question for each file with images of several categories, if one is expected."""
    if kind is None or kind.several:
        return ()
    questions = []
    for uri, categories in described.items():
        found = categories.of_images
        if found and found.example:
            image_id, ids = found.example
            names = ", ".join(repr(categories.names.get(i, i)) for i in ids)
            questions.append(
                f"{counted(found.several, 'image')} of the first {found.images} with annotations in "
                f"{uri} {'has' if found.several == 1 else 'have'} several categories, such as "
                f"{image_id!r} with {names}. Say --list_column {CLASS}=, to write lists of classes; "
                "--yes leaves these images out."
            )
    return tuple(questions)


# --- in the job ----------------------------------------------------------------------------------


def read_classes(
    file: BinaryIO,
    uri: str,
    *,
    kind: ImageClasses,
    split: str = "",
    folder: str = "",
    extras: Extras = NO_EXTRAS,
) -> Iterator[LabelRow | DeadLetter]:
    """Yields a row for each image that has an annotation, in the order of the images.

    Its values are those of `ImageClasses.columns`, then those of the extras. The classes of an
    image are in the order of the annotations, each once.

    Args:
      file: open at its beginning.
      uri: its URI.
      kind: how they are read.
      split: the split of its images, or empty.
      folder: URI of the folder of the images, or empty, as for `read_instances`.
      extras: the fields of images to read.

    Raises:
      LabelTableError: the file is broken.
    """
    images = ImageEntries(extras)
    labels = _Labels()
    names: Mapping[int, str] = {}
    for key, entries in read_lists(file, uri, ("images", "annotations", "categories")):
        if key == "images":
            images.read(entries, uri)
        elif key == "annotations":
            images.dead_letters += labels.read(entries, uri)
        else:
            names = parse_categories(list(entries), uri)
    yield from images.dead_letters
    nothing = (() if kind.several else None, None, *extras.nothing)
    for image in images.images:
        found = labels.of(image.id)
        fault = labels.problems.get(image.id, "")
        if not found and not fault and not kind.unlabelled:
            continue
        problem = images.problem(image) or fault or _problem(found, names, several=kind.several)
        values: tuple[LabelValue, ...] = nothing
        if not problem:
            classes = tuple(names[category] for category in found)
            value = classes if kind.several and classes else next(iter(classes), None)
            values = (value, str(image.id), *image.extras)
        yield image.row(values, problem, split=split, folder=folder, uri=uri)
    yield from images.missing(labels.elsewhere(images), uri)


class _Labels:
    """The categories of all images of a file.

    Attributes:
      problems: image id -> the fault of its first bad annotation.
    """

    def __init__(self) -> None:
        self._first: dict[int | str, int] = {}  # image id -> category
        self._several: dict[int | str, list[int]] = {}  # image id -> categories, if there are more
        self.problems: dict[int | str, str] = {}

    def read(self, entries: Iterator[Any], uri: str) -> list[DeadLetter]:
        """Reads the annotations. Returns those that name no image."""
        dead_letters = []
        for number, entry in enumerate(entries, 1):
            fields = entry if isinstance(entry, dict) else {}
            image_id, category = fields.get("image_id"), fields.get("category_id")
            if not is_id(image_id):
                problem = f"is {shown(entry)}, expected an object with an image_id"
                dead_letters.append(bad_row(annotation_name(fields, number), problem, uri))
            elif not is_integer(category):
                name = annotation_name(fields, number)
                problem = f"{name}: category_id {shown(category)} is not an integer"
                self.problems.setdefault(image_id, problem)
            elif self._first.setdefault(image_id, category) != category:
                found = self._several.setdefault(image_id, [self._first[image_id]])
                if category not in found:
                    found.append(category)
        return dead_letters

    def of(self, image_id: int | str) -> list[int]:
        """Returns the categories of an image, each once, in the order of the annotations."""
        if image_id in self._several:
            return self._several[image_id]
        first = self._first.get(image_id)
        return [] if first is None else [first]

    def elsewhere(self, images: ImageEntries) -> dict[int | str, str]:
        """Returns the images that annotations name and the list of images does not have."""
        there = {image.id for image in images.images}
        return {
            image_id: self.problems.get(image_id, "an annotation")
            for named in (self._first, self.problems)
            for image_id in named
            if image_id not in there
        }


def _problem(found: list[int], names: Mapping[int, str], *, several: bool) -> str:
    """Returns the fault of an image's categories, or empty."""
    for category in found:
        if category not in names:
            return f"category_id {category} is not among the categories"
    if len(found) > 1 and not several:
        listed = ", ".join(repr(names[category]) for category in found)
        return (
            f"the image has several categories, {listed}; expected one. --list_column {CLASS}=, "
            "writes lists of classes"
        )
    return ""
