"""Looks around a folder of images whose folders would be its classes, as no other layout fits.

Users often name the folder above or below the one that a layout expects, and label files among the images or
beside them would be ignored. So names, and the first bytes of a few files, are checked: an `Alternative` that
certainly contains the same images is taken; anything less certain becomes a question. The search is bounded:
thousands of names per folder, tens of folders, no images.
"""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from beam_pipeline.core.errors import ConversionError
from beam_pipeline.core.labels.mask_names import Addition, find_names
from beam_pipeline.core.labels.path_roles import last_folder_pattern
from beam_pipeline.core.listing.folders import SPLIT_NAMES
from beam_pipeline.core.questions import Question, question
from beam_pipeline.core.text import counted, enumerated
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.heads import first_line
from beam_pipeline.layouts.label_files import typed_path
from beam_pipeline.layouts.layout import Layout, SourceOptions
from beam_pipeline.layouts.registry import all_layouts, layout_named
from beam_pipeline.layouts.table_looks import (
    ENOUGH_NAMES,
    MOST_FOLDERS,
    look_at_tables,
    tables_in,
    tree,
)
from beam_pipeline.layouts.tree import IMAGE_FOLDERS, Folder, names_in
from beam_pipeline.storage import files

TEXTS = (".txt", ".caption")
"""Extensions of texts beside images: captions, or labels of YOLO and KITTI."""

LABEL_FOLDERS = frozenset(
    [
        *("masks", "segmentationclass", "segmentationobject"),
        *("labels", "label", "label_2", "annotations", "annotation", "xmls"),
    ]
)
"""Usual names of folders of label files or masks, in lower case."""

_LABELS_IN_NAME = re.compile("annot|label|xml")

_LAST_RESORTS = frozenset(["caption_files", "table", "automl", "class_folders"])
_COCO = re.compile(
    rb'[\xef\xbb\xbf\s]*\{(?s:.*)"(?:images|annotations|categories)"\s*:\s*\[', re.ASCII
)
_VOC = re.compile(rb"<annotation[\s>]")
_YOLO = re.compile(rb"\d+(?:\s+[01]?\.?\d+(?:[eE]-?\d+)?){4,}")
_OBJECTS = re.compile(rb"^\s*(?:-?\d[\d.]*[\s,]+){4}", re.MULTILINE)  # such as DOTA's corners
_KITTI_FIELDS = (15, 16)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_PAIRED = frozenset(
    [
        *("A", "B", "rgb", "color", "colour", "gray", "depth", "thermal", "infrared", "ir"),
        *("left", "right", "input", "target", "output", "photo", "sketch", "edges"),
        *("image", "images", "hr", "lr", "high", "low", "before", "after", "clean", "noisy"),
        *("real", "synthetic", "source", "original", "originals"),
    ]
)
"""Words in names of folders with the parts of pairs; but for single letters, in lower case."""
_OF_MASKS = re.compile(
    r"mask|ground.?truth|(?<![a-z])gt(?![a-z])|label|annot|segment", re.IGNORECASE
)
_OF_IMAGE = re.compile(r"(.+)([_\- ](?:mask|seg|segmentation|gt))", re.IGNORECASE)

_LOOKED_AT = 10  # text files, for one that is not empty
_EXAMPLES = 3
_MOST_COLUMNS = 6


# --- names ----------------------------------------------------------------------------------------


def only_folder(options: SourceOptions) -> str:
    """Returns the only path of --images if it is a local folder and no labels are given, else empty."""
    if options.labels or len(options.images) != 1 or not options.images[0].strip():
        return ""
    root = files.canonical(options.images[0])
    return root if not is_remote(root) and os.path.isdir(root) else ""


def folders_with_images(here: Folder, levels: int = 3) -> list[str]:
    """Returns the paths of the folders that contain images, up to some levels below a folder."""
    below = map(names_in, here.folders[:MOST_FOLDERS])
    return [
        folder.path
        for folder in below
        if folder.images or (levels > 1 and folders_with_images(folder, levels - 1))
    ]


def _name(path: str) -> str:
    return posixpath.basename(path).lower()


def _beginning(path: str) -> bytes:
    head = first_line(path)
    return head.data if head else b""


def is_of_numbers(line: str) -> bool:
    """True if most words of a line are numbers, such as YOLO, KITTI and DOTA labels.

    >>> is_of_numbers("Car 0.00 0 1.85 387.63 181.54"), is_of_numbers("3"), is_of_numbers("3 cats")
    (True, True, False)
    """
    words = line.replace(",", " ").split()
    return 2 * sum(map(bool, map(_NUMBER.fullmatch, words))) > len(words)


# --- data sets above and below --------------------------------------------------------------------


class Alternative(NamedTuple):
    """A data set that may include the images of --images.

    Attributes:
      options: its paths, and the options given.
      layout: the layout that recognises it.
      why: the files that the layout recognises it by.
    """

    options: SourceOptions
    layout: Layout
    why: str


def certain_alternative(options: SourceOptions) -> Alternative | None:
    """Returns the data set that certainly includes the folder in --images, or None.

    For `kitti/training/image_2` that is `kitti/training`. A layout recognises it, and it contains exactly
    the images in the folder given.
    """
    root = only_folder(options)
    if not root:
        return None
    for alternative in _above(root, options):
        if _lists_only(alternative, root):
            return alternative
    here = names_in(root)
    if here.images:
        return None
    with_images = folders_with_images(here)
    below = _recognised(here.folders, options)
    if below:
        folder = files.canonical(below[0].options.images[0])
        return below[0] if len(below) == 1 and set(with_images) <= {folder} else None
    if len(with_images) != 1:
        return None
    (folder,) = with_images
    return _table_beside(here, folder, options) or _splits_below(folder, options)


def _above(root: str, options: SourceOptions) -> list[Alternative]:
    """Finds recognised folders above one called `images` or alike, or above a split in one."""
    parent = posixpath.dirname(root)
    above = []
    if _name(root) in IMAGE_FOLDERS:
        above = [parent]
    elif _name(root) in SPLIT_NAMES and _name(parent) in IMAGE_FOLDERS:
        above = [parent, posixpath.dirname(parent)]
    return _recognised(above, options)


def _recognised(folders: Sequence[str], options: SourceOptions) -> list[Alternative]:
    """Those folders that any layout recognises but captions, tables and class folders."""
    layouts = [layout for layout in all_layouts() if layout.name not in _LAST_RESORTS]
    alternatives = []
    for folder in folders[:MOST_FOLDERS]:
        there = replace(options, images=(typed_path(folder, options.images[0]),))
        reasons = ((layout, layout.recognise(there)) for layout in layouts)
        alternatives += [Alternative(there, layout, why) for layout, why in reasons if why][:1]
    return alternatives


def _lists_only(alternative: Alternative, root: str) -> bool:
    """True if an alternative contains only images of a folder."""
    try:
        roots = alternative.layout.open(alternative.options).roots
    except ConversionError:
        return False
    return bool(roots) and all(_no_more(listed.uri, root) for listed in roots)


def _no_more(listed: str, root: str) -> bool:
    """True if all images below a listed folder are below the root."""
    if f"{listed}/".startswith(f"{root}/"):
        return True
    if not root.startswith(f"{listed}/"):
        return False
    here = names_in(listed)
    towards = f"{listed}/{root[len(listed) + 1 :].partition('/')[0]}"
    return not here.images and folders_with_images(here) == [towards] and _no_more(towards, root)


def _table_beside(here: Folder, images: str, options: SourceOptions) -> Alternative | None:
    """Finds the only table beside a folder of images whose rows name them."""
    naming = [
        table.path
        for table in look_at_tables(tables_in(here))
        if len(table.columns) != 1 and table.names_images_in(images)
    ]
    if len(naming) != 1:
        return None
    typed = options.images[0]
    there = replace(
        options, images=(typed_path(images, typed),), labels=(typed_path(naming[0], typed),)
    )
    why = f"{there.labels[0]} names the images in {there.images[0]}"
    return Alternative(there, layout_named("table"), why)


def _splits_below(folder: str, options: SourceOptions) -> Alternative | None:
    """Finds a folder that contains only splits with class folders."""
    here = names_in(folder)
    splits = list(map(names_in, here.folders))
    flat = [split for split in splits if split.images or not folders_with_images(split)]
    if here.images or not splits or flat or {_name(s.path) for s in splits} - SPLIT_NAMES.keys():
        return None
    there = replace(options, images=(typed_path(folder, options.images[0]),))
    names = enumerated([posixpath.basename(split.path) for split in splits], _EXAMPLES)
    why = f"splits with class folders ({names}) in {there.images[0]}"
    return Alternative(there, layout_named("class_folders"), why)


# --- questions ------------------------------------------------------------------------------------


def class_doubts(options: SourceOptions) -> list[Question]:
    """Asks where other files nearby are reasons why names of folders may not be classes."""
    root = only_folder(options)
    if not root:
        return []
    here, typed = names_in(root), options.images[0]
    return (
        [*_parts(here, typed, _above(root, options))]
        or [*_sets_below(here, typed, _recognised(here.folders, options))]
        or [*ignored_label_files(here, typed), *_masks_among(tree(here), typed)]
        or [*_images_and_masks(here, typed)]
        or [*_same_names(here, typed)]
    )


def _parts(here: Folder, typed: str, above: Sequence[Alternative]) -> Iterator[Question]:
    """Finds data sets above that the folder is only a part of."""
    for alternative in above[:1]:
        yield question(
            "part_of_data_set",
            f"{typed_path(here.path, typed)} is part of a data set of the layout {alternative.layout.name} "
            f"in a folder above: {alternative.why}.",
            images=alternative.options.images,
            layout=alternative.layout.name,
        )


def _sets_below(here: Folder, typed: str, below: Sequence[Alternative]) -> Iterator[Question]:
    """Finds folders that look like separate data sets."""
    if not below:
        return
    layout, why = below[0].layout.name, below[0].why
    images = [path for set_ in below if set_.layout.name == layout for path in set_.options.images]
    yield question(
        "data_sets_below",
        f"{typed_path(here.path, typed)} contains {counted(len(images), 'data set')} of the layout {layout}, which "
        f"would become classes: {why}.",
        images=tuple(images),
        layout=layout,
    )


def ignored_label_files(here: Folder, typed: str) -> list[Question]:
    """Questions about label files among the images of a folder or beside it, by kind.

    Args:
      here: the folder.
      typed: its path as typed, for paths in the same style.
    """
    inside = tree(here)
    beside = [folder for place in _label_folders(here.path) for folder in tree(names_in(place))]
    among = [
        *_tables(here, [path for folder in inside for path in tables_in(folder)], typed),
        *_json_files(here, inside, beside, typed),
        *_xml_files(inside, beside, typed),
    ]
    if not among:
        above = look_at_tables(tables_in(names_in(posixpath.dirname(here.path))))
        naming = [table.path for table in above if table.names_images_in(here.path)]
        among = [*_tables(here, naming, typed)]
    return [*among, *_text_files(inside, beside, typed)]


def _label_folders(root: str) -> Iterator[str]:
    """Folders named like labels beside the images: for `images/train/`, `labels/` beside `images/`, too."""
    parent = posixpath.dirname(root)
    for place in (root, parent) if _name(parent) in IMAGE_FOLDERS else (root,):
        for folder in names_in(posixpath.dirname(place)).folders:
            is_usual = _name(folder) in LABEL_FOLDERS or _LABELS_IN_NAME.search(_name(folder))
            if is_usual and folder != place:
                yield folder


def _ignored(paths: Sequence[str], typed: str, kind: str = "") -> str:
    """The beginning of a question about files, and their kind if it is known."""
    names = enumerated([typed_path(path, typed) for path in paths], _EXAMPLES)
    looks = "looks" if len(paths) == 1 else "look"
    return f"{names} would be ignored" + (f", but {looks} like {kind}." if kind else ".")


def _tables(here: Folder, paths: Sequence[str], typed: str) -> Iterator[Question]:
    """A question about the tables whose rows name the images or, if there are none, about all."""
    folders_below = {posixpath.basename(path) for folder in tree(here) for path in folder.folders}
    tables = [t for t in look_at_tables(paths) if not t.is_of_classes(folders_below)]
    if not tables:
        return
    paths = [table.path for table in tables]
    images: set[str] = set()
    naming = [table for table in tables if table.names_images_in(here.path)]
    if not naming and not here.images:  # the tables of some of the folders beside them
        for table in tables:
            folders = folders_with_images(here)[:_EXAMPLES]
            folders = [folder for folder in folders if table.names_images_in(folder)]
            if folders and posixpath.dirname(table.path) == here.path:
                naming.append(table)
                images.update(typed_path(folder, typed) for folder in folders)
    naming = naming or [t for t in tables if t.names_images_in(here.path, by_file_name=True)]
    colours = [] if naming else [table.path for table in tables if table.is_of_colours]
    if colours:
        yield question(
            "mask_colours",
            _ignored(colours, typed, "the colours of masks"),
            "Name the folders of images and of masks: --images ... --masks ... --mask_colors "
            f"{shlex.quote(typed_path(colours[0], typed))}.",
        )
        return
    columns = (naming or tables)[0].columns
    described = f" with the columns {enumerated(columns, _MOST_COLUMNS)}" if columns else ""
    meant = [table.path for table in naming] if len(paths) <= MOST_FOLDERS and naming else paths
    answer = {"images": tuple(sorted(images)) or (typed,), "labels": _as_typed(meant, typed)}
    reason = _ignored(meant, typed, f"labels{described}")
    yield Question("tables_ignored", reason, answer=answer if naming else None)


def _json_files(
    here: Folder, inside: Sequence[Folder], beside: Sequence[Folder], typed: str
) -> Iterator[Question]:
    """A question about COCO's files among the images or beside them, or about other JSON among them."""
    paths = [path for folder in inside for path in folder.of_kind(".json")]
    around = [path for folder in beside for path in folder.of_kind(".json")]
    coco = [path for path in (*paths, *around) if _COCO.match(_beginning(path))]
    for part in ("instances_", posixpath.basename(here.path)):  # of many, those probably meant
        coco = [path for path in coco if part in posixpath.basename(path)] or coco
    if coco:
        yield question(
            "coco_ignored",
            _ignored(coco, typed, "COCO's annotations"),
            images=(typed,),
            labels=_as_typed(coco, typed),
            layout="coco",
        )
    elif paths:
        yield question(
            "json_ignored",
            _ignored(paths, typed),
            'If labels are in it, write them as JSON Lines, such as {"file_name": "a.jpg", "label": '
            '"cat"}, and name the file with --labels.',
        )


def _xml_files(
    inside: Sequence[Folder], beside: Sequence[Folder], typed: str
) -> Iterator[Question]:
    """A question about XML files among the images, or about annotations beside them."""
    paths = [path for folder in inside for path in folder.of_kind(".xml")]
    around = [path for folder in beside for path in folder.of_kind(".xml")]
    annotations = paths or around
    if annotations and _VOC.search(_beginning(annotations[0])):
        folder = typed if paths else typed_path(posixpath.dirname(around[0]), typed)
        reason = _ignored(annotations, typed, "Pascal VOC's annotations")
        yield question("voc_ignored", reason, images=(typed,), labels=(folder,), layout="voc")
    elif paths:
        reason = _ignored(paths, typed)
        yield question("xml_ignored", reason, "The only XML that is read is Pascal VOC's.")


def _text_files(
    inside: Sequence[Folder], beside: Sequence[Folder], typed: str
) -> Iterator[Question]:
    """A question about text files named like the images, if there are about as many as images."""
    images = {os.path.splitext(name)[0] for folder in inside for name in folder.images}
    paths = [path for folder in (*inside, *beside) for path in folder.of_kind(*TEXTS)]
    paths = [path for path in paths if posixpath.splitext(posixpath.basename(path))[0] in images]
    if not paths or 2 * len(paths) < len(images):
        return
    lines = (line.strip() for path in paths[:_LOOKED_AT] for line in _beginning(path).splitlines())
    line = next(filter(None, lines), b"")
    text = line.decode(errors="replace")
    folder = posixpath.dirname(paths[0])
    ignored = (
        f"{counted(len(paths), 'text file')} with names of images, such as {typed_path(paths[0], typed)}, "
        f"would be ignored; the first is {text[:40]!r}."
    )
    labels: tuple[str, ...] = (typed_path(folder, typed),)
    name, layout = "captions_ignored", "caption_files"
    if len(line.split()) in _KITTI_FIELDS:
        name, layout = "kitti_ignored", "kitti"
    elif _YOLO.fullmatch(line):
        name, layout = "yolo_ignored", "yolo"
    elif is_of_numbers(text) or any(_OBJECTS.search(_beginning(p)) for p in paths[:_LOOKED_AT]):
        advice = (
            "If they are labels, write a table such as filename,label and name it with --labels."
        )
        yield question("texts_ignored", ignored, advice)
        return
    elif any(folder == place.path and place.images for place in inside):
        labels = ()  # captions beside their images
    yield question(name, ignored, images=(typed,), labels=labels, layout=layout)


def _as_typed(paths: Sequence[str], typed: str) -> tuple[str, ...]:
    """Returns files in the form of --labels: a few by name, many by one pattern per folder."""
    if len(paths) <= _EXAMPLES:
        return tuple(typed_path(path, typed) for path in paths)
    folders = {posixpath.dirname(path) for path in paths}
    if len(folders) > _EXAMPLES:
        folders = {f"{posixpath.dirname(folder)}/*" for folder in folders}
    endings = {posixpath.splitext(path)[1].lower() for path in paths}
    patterns = sorted(f"{folder}/*{ending}" for folder in folders for ending in endings)
    return tuple(typed_path(pattern, typed) for pattern in patterns)


def _masks_among(inside: Sequence[Folder], typed: str) -> Iterator[Question]:
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


def _images_and_masks(here: Folder, typed: str) -> Iterator[Question]:
    """A question about a folder of images beside one of masks, and no other folders of labels."""
    folders = folders_with_images(here)
    images = [folder for folder in folders if _name(folder) in IMAGE_FOLDERS]
    labels = [folder for folder in folders if _name(folder) in LABEL_FOLDERS]
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


def _same_names(here: Folder, typed: str) -> Iterator[Question]:
    """A question about the first folders beside each other whose images have the same names, at any level."""
    below = [names_in(path) for path in here.folders[:_EXAMPLES]]
    lowest = [names_in(path) for folder in below for path in folder.folders[:_EXAMPLES]]
    parent = next(filter(_contains_pairs, (here, *below, *lowest)), None)
    if parent is None:
        return
    names = [posixpath.basename(path) for path in parent.folders]
    reason = (
        f"{enumerated([f'{name}/' for name in names], _EXAMPLES)} in {typed_path(parent.path, typed)} would become "
        "classes, but contain images of the same names, as pairs, masks and several views do."
    )
    of_masks = [name for name in names if _OF_MASKS.search(name)]
    if len(names) == 2 and len(of_masks) == 1:  # anywhere below, if there are further levels
        folder = typed.rstrip("/") + ("" if parent is here else "/**")
        ending = "" if parent is here else "/*"
        (images,) = {*names} - {*of_masks}
        sides = {"images": images, "masks": of_masks[0]}
        answer = {side: (f"{folder}/{name}{ending}",) for side, name in sides.items()}
        yield Question("same_names_in_folders", reason, answer=answer)
        return
    splits = [name for name in map(posixpath.basename, here.folders) if name.lower() in SPLIT_NAMES]
    at_top = parent is here or (splits and posixpath.dirname(parent.path) == here.path)
    yield Question(
        "same_names_in_folders",
        reason,
        "Name the folder of images with --images and that of masks with --masks, or one folder and a table "
        "of labels with --labels. If they are classes:",
        {"layout": "class_folders"} if at_top else {"label_from": last_folder_pattern(splits)},
    )


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
    for names, longer in ((first, second), (second, first)):
        pairs = find_names([*names], [*longer])
        addition = pairs.names.addition
        if len(names) == len(longer) and pairs.met == 1 and addition != Addition():
            return not (addition.image_prefix or addition.image_suffix)
    return False


def _is_of_pair(name: str) -> bool:
    words = {name, *re.split(r"[\W_]+", name.lower())}
    return bool(words & _PAIRED or _OF_MASKS.search(name))
