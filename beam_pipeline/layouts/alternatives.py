"""Alternatives to the folder given: data sets above or below it that hold its images.

Users often name the folder above or below the one that a layout expects. The other folder is used
if a layout recognises it and it holds exactly the images in the folder given. For
`kitti/training/image_2` that is `kitti/training`.
"""

from __future__ import annotations

import posixpath
from dataclasses import replace
from typing import NamedTuple

from beam_pipeline.core.errors import ConversionError
from beam_pipeline.core.text import enumerated
from beam_pipeline.layouts.label_files import shown
from beam_pipeline.layouts.layout import Layout, Source, SourceOptions
from beam_pipeline.layouts.nearby_folders import (
    IMAGE_FOLDERS,
    MOST_FOLDERS,
    Folder,
    folders_with_images,
    is_split,
    look,
    look_at_table,
    names_images,
    only_folder,
)
from beam_pipeline.layouts.registry import all_layouts, layout_named
from beam_pipeline.storage import files

_LAST_RESORTS = frozenset(["caption_files", "table", "automl", "class_folders"])
_SHOWN = 3


class Alternative(NamedTuple):
    """A data set to which the images of --images may belong.

    Attributes:
      options: its paths, and the options given.
      layout: the layout that recognises it.
      why: the files by which the layout recognises it.
    """

    options: SourceOptions
    layout: Layout
    why: str


def certain_alternative(options: SourceOptions) -> Alternative | None:
    """Returns the data set to which the folder in --images certainly belongs; None if there is none.

    Args:
      options: the options given.
    """
    root = only_folder(options)
    if not root:
        return None
    for alternative in alternatives_above(root, options):
        if _lists_only(alternative, root):
            return alternative
    here = look(root)
    if here.images:
        return None
    with_images = folders_with_images(here)
    below = alternatives_below(here, options)
    if len(below) == 1 and set(with_images) <= _folders_of(below[0]):
        return below[0]
    if below or len(with_images) != 1:
        return None
    return _table_beside(here, with_images[0], options) or _splits_below(with_images[0], options)


def alternatives_above(root: str, options: SourceOptions) -> list[Alternative]:
    """Finds recognised folders above, if a folder's name is that of a part of a data set.

    Such names are `images` and similar ones, and splits in them: `images/train`.
    """
    parent = posixpath.dirname(root)
    if posixpath.basename(root).lower() in IMAGE_FOLDERS:
        above = [parent]
    elif is_split(root) and posixpath.basename(parent).lower() in IMAGE_FOLDERS:
        above = [parent, posixpath.dirname(parent)]
    else:
        return []
    found = (_recognised(options, folder) for folder in above)
    return [alternative for alternative in found if alternative]


def alternatives_below(here: Folder, options: SourceOptions) -> list[Alternative]:
    """Finds recognised folders in a folder."""
    found = (_recognised(options, folder) for folder in here.folders[:MOST_FOLDERS])
    return [alternative for alternative in found if alternative]


def _recognised(options: SourceOptions, folder: str) -> Alternative | None:
    """Recognises a folder by any layout but captions, tables and class folders; None if none fits."""
    there = replace(options, images=(shown(folder, options.images[0]),))
    for layout in all_layouts():
        if layout.name not in _LAST_RESORTS:
            why = layout.recognise(there)
            if why:
                return Alternative(there, layout, why)
    return None


def _folders_of(alternative: Alternative) -> set[str]:
    """Returns the folder of an alternative, and those that its layout lists; none if opening fails."""
    source = _opened(alternative)
    folder = files.canonical(alternative.options.images[0])
    return {folder, *(root.uri for root in source.roots)} if source else set()


def _lists_only(alternative: Alternative, root: str) -> bool:
    """True if an alternative holds only images of a folder."""
    source = _opened(alternative)
    if source is None or not source.roots:
        return False
    return all(_no_others(listed.uri, root) for listed in source.roots)


def _no_others(listed: str, root: str) -> bool:
    """True if all images below a listed folder are below the root."""
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


def _table_beside(here: Folder, images: str, options: SourceOptions) -> Alternative | None:
    """Finds the only table beside a folder of images whose rows name them."""
    tables = map(look_at_table, here.tables[:MOST_FOLDERS])
    naming = [
        table.path for table in tables if table.may_label and names_images(table, images, here.path)
    ]
    if len(naming) != 1:
        return None
    typed = options.images[0]
    there = replace(options, images=(shown(images, typed),), labels=(shown(naming[0], typed),))
    why = f"{there.labels[0]} names the images in {there.images[0]}"
    return Alternative(there, layout_named("table"), why)


def _splits_below(folder: str, options: SourceOptions) -> Alternative | None:
    """Finds a folder that holds only splits with class folders."""
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
    return Alternative(there, layout_named("class_folders"), why)
