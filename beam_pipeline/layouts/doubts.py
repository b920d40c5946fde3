"""Doubts about classes that come from folders by default, raised by other files nearby.

If no other layout fits, an image's class is its folder. But then label files among the images or
beside their folder would be ignored, and folders called `images` or `train` would be classes. So
this module checks names and the first bytes of a few files. Each doubt states what was found, what
it looks like, and which paths were probably meant.
"""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence

from beam_pipeline.core.questions import Question, question
from beam_pipeline.core.text import counted, enumerated
from beam_pipeline.layouts.alternatives import (
    Alternative,
    alternatives_above,
    alternatives_below,
)
from beam_pipeline.layouts.label_files import shown
from beam_pipeline.layouts.layout import SourceOptions
from beam_pipeline.layouts.masks_among import masks_among
from beam_pipeline.layouts.nearby_folders import (
    IMAGE_FOLDERS,
    LABEL_FOLDERS,
    MOST_FOLDERS,
    TEXTS,
    Folder,
    TableLook,
    beginning,
    extension,
    folders_with_images,
    is_coco,
    is_of_colours,
    is_of_numbers,
    look,
    look_at_table,
    names_images,
    names_images_of,
    only_folder,
    tree,
)

_SHOWN = 3
_SHOWN_COLUMNS = 6
_LOOKED_AT = 10  # text files to search for one that is not empty
_KITTI_FIELDS = (15, 16)
_YOLO_LINE = re.compile(rb"\d+(?:\s+[01]?\.?\d+(?:[eE]-?\d+)?){4,}")
_OBJECTS = re.compile(rb"^\s*(?:-?\d[\d.]*[\s,]+){4}", re.MULTILINE)  # such as DOTA's corners
_VOC_ROOT = re.compile(rb"<annotation[\s>]")


def find_doubts(options: SourceOptions) -> list[Question]:
    """Finds reasons why folder names may not be classes.

    Args:
      options: the options given.
    """
    root = only_folder(options)
    if not root:
        return []
    here, typed = look(root), options.images[0]
    return (
        [*_parts(here, typed, alternatives_above(root, options))]
        or [*_sets_below(here, typed, alternatives_below(here, options))]
        or [*ignored_label_files(here, typed), *masks_among(tree(here), typed)]
        or [*_images_and_masks(here, typed)]
    )


# --- other layouts nearby -------------------------------------------------------------------------


def _parts(here: Folder, typed: str, above: Sequence[Alternative]) -> Iterator[Question]:
    """Finds data sets above of which the folder is only a part."""
    for alternative in above[:1]:
        yield question(
            "part_of_data_set",
            f"{shown(here.path, typed)} is part of a data set of the layout {alternative.layout.name} "
            f"in a folder above: {alternative.why}.",
            images=alternative.options.images,
            layout=alternative.layout.name,
        )


def _sets_below(here: Folder, typed: str, below: Sequence[Alternative]) -> Iterator[Question]:
    """Finds folders that look like separate data sets."""
    if not below:
        return
    layout, why = below[0].layout.name, below[0].why
    same = [alternative for alternative in below if alternative.layout.name == layout]
    looks, classes = ("looks like a data set", "a class")
    if len(same) > 1:
        looks, classes = ("look like data sets", "classes")
    yield question(
        "data_sets_below",
        f"{counted(len(same), 'folder')} in {shown(here.path, typed)} {looks} of the layout {layout}, "
        f"not like {classes}: {why}.",
        images=tuple(path for alternative in same for path in alternative.options.images),
        layout=layout,
    )


# --- label files that would be ignored ------------------------------------------------------------


def ignored_label_files(here: Folder, typed: str) -> list[Question]:
    """Questions about label files among the images of a folder or beside it, by kind.

    Args:
      here: the folder.
      typed: its path as typed, for paths in the same style.
    """
    inside = tree(here)
    beside = [found for folder in _beside(here.path) for found in tree(look(folder))]
    tables = [path for folder in inside for path in folder.tables]
    among = [
        *_tables(here, tables, typed),
        *_json_files(here, inside, beside, typed),
        *_xml_files(inside, typed),
    ]
    among = among or [*_tables(here, _naming_tables_above(here), typed)]
    return [*among, *_text_files(inside, beside, typed)]


def _beside(root: str) -> list[str]:
    """Finds folders beside the images with the usual names of label folders.

    For `images/` and for `images/train/`, that is `labels/` beside `images/`.
    """
    parent = posixpath.dirname(root)
    beside = _folders_of_labels(parent, root)
    if posixpath.basename(parent).lower() in IMAGE_FOLDERS:
        beside += _folders_of_labels(posixpath.dirname(parent), parent)
    return beside


def _folders_of_labels(parent: str, images: str) -> list[str]:
    return [
        folder
        for folder in look(parent).folders
        if posixpath.basename(folder).lower() in LABEL_FOLDERS and folder != images
    ]


def _naming_tables_above(here: Folder) -> list[str]:
    """Finds tables in the folder above whose rows name the images."""
    parent = look(posixpath.dirname(here.path))
    tables = map(look_at_table, parent.tables[:MOST_FOLDERS])
    return [table.path for table in tables if names_images(table, here.path, parent.path)]


def _tables(here: Folder, paths: Sequence[str], typed: str) -> Iterator[Question]:
    """Doubts because of tables: those whose rows name the images or, if there are none, all."""
    if not paths:
        return
    tables = [look_at_table(path) for path in paths[:MOST_FOLDERS]]
    tables = [table for table in tables if table.may_label] or tables
    naming = [
        table for table in tables if names_images(table, here.path, posixpath.dirname(table.path))
    ]
    below = [] if naming else _naming_below(here, tables)
    naming = (
        naming
        or [table for table in tables if table.path in {named.path for named, _ in below}]
        or [table for table in tables if names_images_of(table, here)]
    )
    colours = [] if naming else [table.path for table in tables if is_of_colours(table)]
    if colours:
        yield question(
            "mask_colours",
            f"{_listed(colours, typed)} would be ignored, but {'looks' if len(colours) == 1 else 'look'} "
            "like a table of the colours of masks.",
            "Name the folders of images and of masks: --images ... --masks ... --mask_colors "
            f"{shlex.quote(shown(colours[0], typed))}.",
        )
        return
    columns = (naming or tables)[0].columns
    described = f" with the columns {enumerated(columns, _SHOWN_COLUMNS)}" if columns else ""
    meant = [table.path for table in naming] if len(paths) <= MOST_FOLDERS and naming else paths
    what = "looks like a table" if len(meant) == 1 else "look like tables"
    yield question(
        "tables_ignored",
        f"{_listed(meant, typed)} would be ignored, but {what} of labels{described}.",
        images=tuple(sorted({shown(folder, typed) for _, folder in below})) or (typed,),
        labels=_as_typed(meant, typed),
    )


def _naming_below(here: Folder, tables: Sequence[TableLook]) -> list[tuple[TableLook, str]]:
    """Finds tables in a folder, each with the folder of images beside it whose images it names."""
    if here.images:
        return []
    folders = folders_with_images(here)[:_SHOWN]
    beside = [table for table in tables if posixpath.dirname(table.path) == here.path]
    return [
        (table, folder)
        for table in beside
        for folder in folders
        if names_images(table, folder, here.path)
    ]


def _json_files(
    here: Folder, inside: Sequence[Folder], beside: Sequence[Folder], typed: str
) -> Iterator[Question]:
    """Doubts because of COCO's files among the images or in `annotations/` beside them, or other JSON."""
    paths = _of_kind(".json", inside)
    coco = [path for path in (*paths, *_of_kind(".json", beside)) if is_coco(path)]
    for telling in (
        "instances_",
        posixpath.basename(here.path),
    ):  # if there are many, the ones probably meant
        coco = [path for path in coco if telling in posixpath.basename(path)] or coco
    if coco:
        what = "looks like a file" if len(coco) == 1 else "look like files"
        yield question(
            "coco_ignored",
            f"{_listed(coco, typed)} would be ignored, but {what} of COCO's.",
            images=(typed,),
            labels=_as_typed(coco, typed),
            layout="coco",
        )
    elif paths:
        yield question(
            "json_ignored",
            f"{_listed(paths, typed)} would be ignored.",
            'If labels are in it, write them as JSON Lines, such as {"file_name": "a.jpg", "label": '
            '"cat"}, and name the file with --labels.',
        )


def _xml_files(inside: Sequence[Folder], typed: str) -> Iterator[Question]:
    paths = _of_kind(".xml", inside)
    if not paths:
        return
    ignored = f"{_listed(paths, typed)} would be ignored"
    if _VOC_ROOT.search(beginning(paths[0])):
        what = "looks like an annotation" if len(paths) == 1 else "look like annotations"
        yield question(
            "voc_ignored",
            f"{ignored}, but {what} of Pascal VOC.",
            images=(typed,),
            labels=(typed,),
            layout="voc",
        )
    else:
        yield question("xml_ignored", f"{ignored}; the only XML that is read is Pascal VOC's.")


def _text_files(
    inside: Sequence[Folder], beside: Sequence[Folder], typed: str
) -> Iterator[Question]:
    """Doubts because of text files named like the images, if there are about as many as images."""
    images = {os.path.splitext(name)[0] for folder in inside for name in folder.images}
    found: list[str] = []
    for folder in (*inside, *beside):
        texts = (name for name in folder.files if extension(name) in TEXTS)
        found += [f"{folder.path}/{name}" for name in texts if os.path.splitext(name)[0] in images]
    if not found or 2 * len(found) < len(images):
        return
    line = next(filter(None, map(_first_line, found[:_LOOKED_AT])), b"")
    ignored = (
        f"{counted(len(found), 'text file')} with names of images, such as {shown(found[0], typed)}, "
        "would be ignored"
    )
    if len(line.split()) in _KITTI_FIELDS:
        yield question(
            "kitti_ignored",
            f"{ignored}, but look like KITTI's labels.",
            images=(typed,),
            labels=(shown(posixpath.dirname(found[0]), typed),),
            layout="kitti",
        )
    elif _YOLO_LINE.fullmatch(line):
        yield question(
            "yolo_ignored",
            f"{ignored}, but look like YOLO's labels: a class number and a box or outline per line.",
            images=(typed,),
            labels=(shown(posixpath.dirname(found[0]), typed),),
            layout="yolo",
        )
    else:
        text = line.decode(errors="replace")
        says = f"{ignored}; the first says {text[:40]!r}."
        if is_of_numbers(text) or any(_OBJECTS.search(beginning(p)) for p in found[:_LOOKED_AT]):
            yield question(
                "texts_ignored",
                says,
                "If they are labels, write a table such as filename,label and name it with --labels.",
            )
        else:
            yield question(
                "captions_ignored",
                says,
                images=(typed,),
                labels=_beside_images(found[0], inside, typed),
                layout="caption_files",
            )


def _beside_images(path: str, inside: Sequence[Folder], typed: str) -> tuple[str, ...]:
    """The folder of captions for --labels; none if they lie beside the images."""
    folder = posixpath.dirname(path)
    beside = any(folder == found.path and found.images for found in inside)
    return () if beside else (shown(folder, typed),)


def _of_kind(ending: str, folders: Sequence[Folder]) -> list[str]:
    return [path for folder in folders for path in folder.of_kind(frozenset([ending]))]


def _first_line(path: str) -> bytes:
    lines = map(bytes.strip, beginning(path).splitlines())
    return next(filter(None, lines), b"")


def _listed(paths: Sequence[str], typed: str) -> str:
    return enumerated([shown(path, typed) for path in paths], _SHOWN)


def _as_typed(paths: Sequence[str], typed: str) -> tuple[str, ...]:
    """Returns files in the form of --labels: a few by name, many by one pattern per folder."""
    if len(paths) <= _SHOWN:
        return tuple(shown(path, typed) for path in paths)
    folders = {posixpath.dirname(path) for path in paths}
    if len(folders) > _SHOWN:
        folders = {f"{posixpath.dirname(folder)}/*" for folder in folders}
    endings = {extension(path) for path in paths}
    patterns = sorted(f"{folder}/*{ending}" for folder in folders for ending in endings)
    return tuple(shown(pattern, typed) for pattern in patterns)


# --- images and masks -----------------------------------------------------------------------------


def _images_and_masks(here: Folder, typed: str) -> Iterator[Question]:
    """A folder of images beside one of masks, and no other folders of labels."""
    names = {posixpath.basename(folder).lower(): folder for folder in folders_with_images(here)}
    images = [folder for name, folder in names.items() if name in IMAGE_FOLDERS]
    labels = [folder for name, folder in names.items() if name in LABEL_FOLDERS]
    if len(images) == len(labels) == 1 and not any(
        folder.files for folder in tree(look(labels[0]))
    ):
        both = [f"{posixpath.basename(folder)}/" for folder in (*images, *labels)]
        yield question(
            "images_and_masks",
            f"{enumerated(both, _SHOWN)} in {shown(here.path, typed)} would become classes, but such names "
            "are usual for images and a mask for each.",
            images=(shown(images[0], typed),),
            masks=(shown(labels[0], typed),),
        )
