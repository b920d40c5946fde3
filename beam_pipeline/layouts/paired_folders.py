"""Folders of images and masks, before and after, or several views: questions where they would become classes."""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from beam_pipeline.core.labels.mask_names import Addition, find_names
from beam_pipeline.core.labels.path_roles import last_folder_pattern
from beam_pipeline.core.listing.folders import SPLIT_NAMES
from beam_pipeline.core.questions import Question, question
from beam_pipeline.core.text import counted, enumerated
from beam_pipeline.layouts.label_files import typed_path
from beam_pipeline.layouts.pairs import MASK_NAMES, find_parts, is_scene
from beam_pipeline.layouts.table_looks import (
    ENOUGH_NAMES,
    MOST_FOLDERS,
    folders_with_images,
    tree,
)
from beam_pipeline.layouts.tree import IMAGE_FOLDERS, LABEL_FOLDERS, Folder, names_in

_PAIRED = re.compile(
    "A|B|rgb|colou?r|gray|depth|thermal|infrared|ir|left|right|input|target|output|photo|sketch|edges|images?"
    "|hr|lr|high|low|before|after|clean|noisy|real|synthetic|source|originals?"
)
"""Words in names of folders with the parts of pairs; but for single letters, in lower case."""
_OF_IMAGE = re.compile(r"(.+)([_\- ](?:mask|seg|segmentation|gt))", re.IGNORECASE)
_EXAMPLES = 3


def masks_among(inside: Sequence[Folder], typed: str) -> Iterator[Question]:
    """A question about files named like a mask of an image beside them, of at least half of the images."""
    masks = []
    for folder in inside:
        parts = [os.path.splitext(name) for name in folder.images]
        stems = {stem for stem, _ in parts}
        for stem, extension in parts:
            match = _OF_IMAGE.fullmatch(stem)
            if match and match[1] in stems:
                masks.append((f"{folder.path}/{stem}{extension}", match[2], extension))
    images = sum(len(folder.images) for folder in inside) - len(masks)
    if not masks or 2 * len(masks) < images:
        return
    mark, extension = Counter(mask[1:] for mask in masks).most_common(1)[0][0]
    pattern = rf"(?:(?P<split>train|val|test)/)?(?P<label>.+)/.+(?<!{re.escape(mark)})[.]\w+"
    yield question(
        "masks_among_images",
        f"{counted(len(masks), 'file')} with names of masks, such as {typed_path(masks[0][0], typed)}, would be "
        "images like those beside them.",
        f"If folders are the classes, --label_from {shlex.quote(pattern)} leaves the masks out. If the masks "
        "are the labels:",
        images=(typed,),
        masks=(f"{typed.rstrip('/')}/**/*{mark}{extension}",),
    )


def images_and_masks(here: Folder, typed: str) -> Iterator[Question]:
    """A question about a folder of images beside one of masks, and no other folders of labels."""
    folders = folders_with_images(here)
    images = [folder for folder in folders if posixpath.basename(folder).lower() in IMAGE_FOLDERS]
    labels = [folder for folder in folders if posixpath.basename(folder).lower() in LABEL_FOLDERS]
    if len(images) == len(labels) == 1 and not any(
        below.files for below in tree(names_in(labels[0]))
    ):
        both = [f"{posixpath.basename(folder)}/" for folder in (*images, *labels)]
        yield question(
            "images_and_masks",
            f"{enumerated(both, _EXAMPLES)} in {typed_path(here.path, typed)} would become classes, but such names "
            "are usual for images and a mask for each.",
            images=(typed_path(images[0], typed),),
            masks=(typed_path(labels[0], typed),),
        )


def same_names(here: Folder, typed: str) -> Iterator[Question]:
    """A question about the first folders beside each other whose images have the same names, at any level."""
    below = [names_in(path) for path in here.folders[:_EXAMPLES]]
    lowest = [names_in(path) for folder in below for path in folder.folders[:_EXAMPLES]]
    parent = next(filter(_contains_pairs, (here, *below, *lowest)), None)
    scenes = len(below) > 1 and all(is_scene(_stems(folder.path)) for folder in below)
    parts = find_parts(here.path) if parent or scenes else None
    if parts and scenes:
        parent = here
    if parent is None:
        return
    names = [posixpath.basename(path) for path in parent.folders]
    reason = (
        f"{enumerated([f'{name}/' for name in names], _EXAMPLES)} in {typed_path(parent.path, typed)} would become "
        "classes, but contain images of the same names, as pairs, masks and several views do."
    )
    splits = [name for name in map(posixpath.basename, here.folders) if name.lower() in SPLIT_NAMES]
    at_top = parent is here or (splits and posixpath.dirname(parent.path) == here.path)
    advice = (
        "Name the folder of images with --images and that of masks with --masks, or one folder and a table "
        "of labels with --labels. If they are classes:"
    )
    answer: dict[str, Any] = {"label_from": last_folder_pattern(splits)}
    if at_top:
        answer = {"layout": "class_folders"}
    masks = [name for name in names if MASK_NAMES.search(name)]
    images = [name for name in names if name not in masks]
    if len(images) == len(masks) == 1:  # anywhere below, if there are further levels
        path = typed.rstrip("/") + ("/{}" if parent is here else "/**/{}/*")
        answer = {"images": (path.format(*images),), "masks": (path.format(*masks),)}
        advice = ""
    elif parts and (scenes or all(map(_is_of_pair, (parts.image, *parts.partners)))):
        both = enumerated([parts.image, *parts.partners], _EXAMPLES)
        answers = [
            (f"If {both} are parts of one sample, the first the image:", {"layout": "pairs"}),
            ("If the folders are classes:", answer),
        ]
        if max(map(len, (parts.image, *parts.partners))) == 1:  # letters, as of an alphabet
            answers.reverse()
        yield Question("same_names_in_folders", reason, *answers[0], (answers[1],))
        return
    yield Question("same_names_in_folders", reason, advice, answer)


def _contains_pairs(parent: Folder) -> bool:
    """True if the folders in a folder contain images of the same names.

    Mere numbers from 0 or 1 on are no evidence, unless the folders are called like parts of a pair. Names with an
    addition are, such as `7.png` and `7_mask.png`.
    """
    if parent.images or len(parent.folders) < 2 or len(parent.folders) > MOST_FOLDERS:
        return False
    first, second = (_stems(path) for path in parent.folders[:2])
    if len(parent.folders) == 2 and len(first) >= ENOUGH_NAMES and _added(first, second):
        return True
    if first != second or (len(parent.folders) - 1) * (len(first) - 1) < ENOUGH_NAMES - 1:
        return False
    if any(_stems(path) != first for path in parent.folders[2:]):
        return False
    numbers = sorted(int(digits) for stem in first if (digits := re.sub(r"\D", "", stem)))
    counted_up = numbers == [*range(numbers[0], numbers[0] + len(first))] if numbers else False
    return not counted_up or all(map(_is_of_pair, map(posixpath.basename, parent.folders)))


def _stems(folder: str) -> frozenset[str]:
    return frozenset(os.path.splitext(name)[0] for name in names_in(folder).images)


def _added(first: Collection[str], second: Collection[str]) -> bool:
    """True if the names in one of two folders are those in the other, with the same addition."""
    names, longer = sorted((sorted(first), sorted(second)), key=lambda stems: sum(map(len, stems)))
    pairs = find_names(names, longer)
    added = pairs.names.addition
    of_longer = added == Addition(mask_prefix=added.mask_prefix, mask_suffix=added.mask_suffix)
    return len(names) == len(longer) and pairs.met == 1 and of_longer and added != Addition()


def _is_of_pair(name: str) -> bool:
    words = (name, *re.split(r"[\W_]+", name.lower()))
    return any(map(_PAIRED.fullmatch, words)) or bool(MASK_NAMES.search(name))
