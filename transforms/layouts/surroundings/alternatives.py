"""Alternatives to the folder that was named: data sets above or below it that hold its images.

People name the folder above or below the one that a layout expects. Another one is taken if its
layout is recognised there, and it holds the images that were named and no others: for
`kitti/training/image_2` that is `kitti/training`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from beam_pipeline.transforms.core.errors import ConversionError
from beam_pipeline.transforms.core.text import enumerated
from beam_pipeline.transforms.layouts.layout import Layout, Source, SourceOptions
from beam_pipeline.transforms.layouts.shared.label_folders import shown
from beam_pipeline.transforms.layouts.surroundings.folders import (
    IMAGE_FOLDERS,
    MOST_FOLDERS,
    TABLES,
    Folder,
    folders_with_images,
    is_split,
    look,
    look_at_table,
    names_images,
    only_folder,
)
from beam_pipeline.transforms.storage import files

_LAST_RESORTS = frozenset(["table", "automl", "class_folders"])
_SHOWN = 3


class Alternative(NamedTuple):
    """A data set to which the images of --images may belong.

    Attributes:
      options: its paths, and the options that were set.
      layout: the layout that recognises it.
      why: the files by which it does.
    """

    options: SourceOptions
    layout: Layout
    why: str


def certain_alternative(options: SourceOptions, layouts: Sequence[Layout]) -> Alternative | None:
    """The data set to which the one folder of --images certainly belongs; None if there is none.

    Args:
      options: what the person named.
      layouts: all of them, in the order in which they are asked.
    """
    root = only_folder(options)
    if not root:
        return None
    for alternative in alternatives_above(root, options, layouts):
        if _lists_only(alternative, root):
            return alternative
    here = look(root)
    if here.images:
        return None
    with_images = folders_with_images(here)
    below = alternatives_below(here, options, layouts)
    if len(below) == 1 and set(with_images) <= _folders_of(below[0]):
        return below[0]
    if below or len(with_images) != 1:
        return None
    return _table_beside(here, with_images[0], options, layouts) or _splits_below(
        with_images[0], options, layouts
    )


def alternatives_above(
    root: str, options: SourceOptions, layouts: Sequence[Layout]
) -> list[Alternative]:
    """Folders above that are recognised, if names tell that a folder is a part of a data set.

    Those are `images` and its like, and splits in it: `images/train`.
    """
    parent = posixpath.dirname(root)
    if posixpath.basename(root).lower() in IMAGE_FOLDERS:
        above = [parent]
    elif is_split(root) and posixpath.basename(parent).lower() in IMAGE_FOLDERS:
        above = [parent, posixpath.dirname(parent)]
    else:
        return []
    found = (_recognised(layouts, options, folder) for folder in above)
    return [alternative for alternative in found if alternative]


def alternatives_below(
    here: Folder, options: SourceOptions, layouts: Sequence[Layout]
) -> list[Alternative]:
    """Folders in a folder that are recognised."""
    found = (_recognised(layouts, options, folder) for folder in here.folders[:MOST_FOLDERS])
    return [alternative for alternative in found if alternative]


def _recognised(
    layouts: Sequence[Layout], options: SourceOptions, folder: str
) -> Alternative | None:
    """A folder of another layout than tables and class folders; None if it is none."""
    there = replace(options, images=(shown(folder, options.images[0]),))
    for layout in layouts:
        if layout.name not in _LAST_RESORTS:
            why = layout.recognise(there)
            if why:
                return Alternative(there, layout, why)
    return None


def _folders_of(alternative: Alternative) -> set[str]:
    """The folder of an alternative, and those that its layout lists; none if it cannot be opened."""
    source = _opened(alternative)
    folder = files.canonical(alternative.options.images[0])
    return {folder, *(root.uri for root in source.roots)} if source else set()


def _lists_only(alternative: Alternative, root: str) -> bool:
    """True if an alternative holds images of a folder and no others."""
    source = _opened(alternative)
    if source is None or not source.roots:
        return False
    return all(_no_others(listed.uri, root) for listed in source.roots)


def _no_others(listed: str, root: str) -> bool:
    """Whether all images below a folder that is listed lie below the root."""
    if f"{listed}/".startswith(f"{root}/"):
        return True
    if not root.startswith(f"{listed}/"):
        return False
    here = look(listed)
    towards = f"{listed}/{root[len(listed) + 1 :].partition('/')[0]}"
    return not here.images and folders_with_images(here) == [towards] and _no_others(towards, root)


def _opened(alternative: Alternative) -> Source | None:
    try:
        return alternative.layout.open(alternative.options)
    except ConversionError:
        return None


def _table_beside(
    here: Folder, images: str, options: SourceOptions, layouts: Sequence[Layout]
) -> Alternative | None:
    """The one table beside a folder of images whose rows name them."""
    tables = map(look_at_table, here.of_kind(TABLES)[:MOST_FOLDERS])
    naming = [table.path for table in tables if names_images(table, images, here.path)]
    if len(naming) != 1:
        return None
    typed = options.images[0]
    there = replace(options, images=(shown(images, typed),), labels=(shown(naming[0], typed),))
    why = f"{there.labels[0]} names the images in {there.images[0]}"
    return Alternative(there, _named("table", layouts), why)


def _splits_below(
    folder: str, options: SourceOptions, layouts: Sequence[Layout]
) -> Alternative | None:
    """A folder that holds splits with class folders, and nothing else."""
    found = look(folder)
    if found.images or not found.folders:
        return None
    for split in found.folders:
        below = look(split)
        if not is_split(split) or below.images or not folders_with_images(below):
            return None
    there = replace(options, images=(shown(folder, options.images[0]),))
    names = enumerated([posixpath.basename(split) for split in found.folders], _SHOWN)
    why = f"splits with class folders ({names}) in {there.images[0]}"
    return Alternative(there, _named("class_folders", layouts), why)


def _named(name: str, layouts: Sequence[Layout]) -> Layout:
    return next(layout for layout in layouts if layout.name == name)
