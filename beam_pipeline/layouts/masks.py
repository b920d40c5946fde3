"""Masks: for each image a file of the same size whose pixels are class ids.

images/a.jpg              masks/a.png                     or in the folder of each split
train/a.png               train_labels/a_L.png            CamVid
JPEGImages/a.jpg          SegmentationClass/a.png         as Pascal VOC's, with SegmentationObject/
"""

from __future__ import annotations

import functools
import itertools
import os
import posixpath
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from beam_pipeline.core import errors, references, text
from beam_pipeline.core.images import header, jpeg
from beam_pipeline.core.images.masks import grey_values, is_coloured, png_kind
from beam_pipeline.core.labels import classes, mask_colours, mask_names, schema
from beam_pipeline.core.listing.filters import ImageRoot, ListingFilter, ObjectFilter
from beam_pipeline.core.listing.folders import SPLIT_NAMES
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts import layout, tree
from beam_pipeline.layouts.label_files import Splits, read_split_lists, typed_path
from beam_pipeline.layouts.paths import image_roots, label_files
from beam_pipeline.layouts.voc import IMAGES, LISTED, YEAR, years
from beam_pipeline.storage import files

_LOOKED_AT = 3  # masks whose first bytes are read
_HEAD_BYTES = 64
MOST_NAMES = 4000  # looked at on either side
_CERTAIN = 0.9  # of the masks found that match an image, for folders to be taken without --masks
_MASKS = (
    *("masks", "mask", "annotations", "labels", "label", "segmentationclass", "gtfine"),
    *("segmentations", "segmentation", "groundtruth", "ground_truth", "gt"),
)
_MASK_ENDINGS = ("_labels", "_label", "_masks", "_mask", "_annotations", "annot")
_LOSSLESS = frozenset({".png", ".gif", ".bmp", ".tif", ".tiff"})


@dataclass(frozen=True)
class MaskReader:
    """Tells which image a mask is for.

    Attributes:
      names: how masks are called.
      folders: the folder of the masks of each column; empty where there is one column.
      splits: the split of each image.
    """

    names: mask_names.MaskNames
    folders: tuple[str, ...] = ()
    splits: Splits = Splits()  # noqa: RUF009, it is frozen

    def row(self, file: references.ImageRef) -> references.LabelRow:
        """The row of a mask: a reference to it in its column."""
        values: list[Any] = [None] * max(1, len(self.folders))
        own = [i for i, folder in enumerate(self.folders) if file.uri.startswith(f"{folder}/")]
        values[own[0] if own else 0] = (file.uri, file.size, file.version)
        name = self.names.image_name(file.key)
        return references.LabelRow(name, tuple(values), self.splits.of(name), file.uri, 0)


class Masks:
    """A mask for each image, named like it."""

    name = "masks"
    option_names = frozenset({"masks", "mask_colors"})

    def recognise(self, options: layout.SourceOptions) -> str:
        """--masks, or folders of images and masks beside each other whose names match."""
        if options.masks:
            return "masks are given"
        if options.labels or len(options.images) != 1:
            return ""
        (typed,) = options.images
        uri = files.canonical(typed)
        sets = voc_sets([typed])
        if sets and not any(tree.has_folder(f"{folder}/Annotations") for folder in sets):
            places = ", ".join(typed_path(folder, typed) for folder in sets)
            return f"{CLASSES}/ beside JPEGImages/ in {places}"
        pairs = look_for_pairs(uri)
        return pairs.why.replace(uri, typed_path(uri, typed)) if pairs else ""

    def open(self, options: layout.SourceOptions) -> layout.Source:
        """Finds images and masks, and looks at the first few masks' headers.

        Raises:
          UsageError: masks are missing, are of several kinds, or do not contain ids.
        """
        if options.labels:
            raise errors.UsageError("--labels and --masks are both labels; name one of them")
        colours = _colours(options)
        known = colours.classes if colours else ()
        sets = voc_sets(options.images)
        folders = [f"{folder}/{CLASSES}" for folder in sets]
        given = {files.canonical(path) for path in options.masks}
        of_objects: tuple[schema.Column, ...] = ()
        if sets and (not given or given == {*folders}):
            images = image_roots([f"{folder}/{IMAGES}" for folder in sets])
            class_masks = image_roots(folders, option="--masks")
            lists = read_split_lists([f"{folder}/{LISTS}" for folder in sets], LISTED)
            if len(sets) == 1 and tree.has_folder(f"{sets[0]}/{OBJECTS}") and not colours:
                folders.append(f"{sets[0]}/{OBJECTS}")
                of_objects = (schema.segmentation_column("object", required=False),)
            masks = image_roots(folders, option="--masks")
            of_columns = tuple(folders) if of_objects else ()
            reader = MaskReader(mask_names.MaskNames(), of_columns, Splits(lists.splits, bare=True))
            of_lists = f"{text.counted(len(lists.splits), 'image')} in the lists of {LISTS}/"
            unlisted = "other images have no mask, and are left out"
            notes = [f"{of_lists}; {unlisted}"] * bool(lists.splits)
            if not colours and all(YEAR.fullmatch(posixpath.basename(folder)) for folder in sets):
                known = tuple((name, i) for i, name in enumerate(VOC_CLASSES))
        else:
            pairs = _given_pairs(options) if options.masks else _pairs_in_images(options)
            images = pairs.images
            class_masks = masks = _known_kind(pairs)
            reader, notes = MaskReader(pairs.names.names), _notes(pairs.names)
            notes += [] if colours else _only_black_and_white(masks)
        bits = _bits(class_masks, colours)
        of_classes = schema.segmentation_column("class", required=True, bits=bits)
        ids = colours.ids if colours else ()
        return layout.Source(
            self.name,
            images,
            layout.ListedLabels(reader, masks),
            LabelledImages((of_classes, *of_objects), mask_colours=ids),
            classes.ClassNumbering(known=known),
            tuple(notes),
        )


# --- pairs of folders -----------------------------------------------------------------------------


def _given_pairs(options: layout.SourceOptions) -> Pairs:
    images = image_roots(options.images)
    masks = image_roots(options.masks, option="--masks")
    patterns = {root.uri: root.patterns for root in masks if not root.archive}
    images, masks = without(images, masks), without(masks, images)
    images = tuple(  # without the masks that patterns below the same folder name
        replace(root, but=() if root.patterns == but else but)
        for root in images
        for but in [patterns.get(root.uri, ())]
    )
    of_images, of_masks = first_keys(images), first_keys(masks)
    if not of_masks and not any(is_remote(root.uri) for root in masks):
        raise errors.UsageError(
            f"--masks {' '.join(options.masks)}: no masks there; expected PNGs named like the images"
        )
    if twice := sorted({*_first_uris(images)} & {*_first_uris(masks)}):
        folder = posixpath.dirname(twice[0])
        raise errors.UsageError(
            f"--images and --masks both list {twice[0]}, which would be an image and a mask; tell them "
            f"apart with a pattern, such as --images {folder} --masks '{folder}/*_mask.png'"
        )
    return Pairs(images, masks, mask_names.find_names(of_images, of_masks))


def without(roots: tuple[ImageRoot, ...], inner: tuple[ImageRoot, ...]) -> tuple[ImageRoot, ...]:
    """The roots without folders in them that other roots list."""
    return tuple(
        replace(root, without=tuple(f"{uri[len(root.uri) + 1 :]}/" for uri in uris))
        for root in roots
        for uris in [[folder.uri for folder in inner if folder.uri.startswith(f"{root.uri}/")]]
    )


def _pairs_in_images(options: layout.SourceOptions) -> Pairs:
    paths = [*map(files.canonical, options.images)]
    pairs = look_for_pairs(paths[0]) if len(paths) == 1 else None
    if pairs is None:
        raise errors.UsageError(
            f"--images {' '.join(options.images)}: no masks found there; expected images/ beside masks/ "
            "with matching names, or name the folder of masks with --masks"
        )
    return pairs


def _known_kind(pairs: Pairs) -> tuple[ImageRoot, ...]:
    """The masks, or those with class ids where there are several of each image.

    Raises:
      UsageError: it is ambiguous which are meant.
    """
    if not pairs.names.further_kinds:
        return pairs.masks
    kinds = (pairs.names.names.addition, *pairs.names.further_kinds)
    patterns = [f"**/{kind.mask_prefix}*{kind.mask_suffix}.*" for kind in kinds]
    if pairs.names.certain and not pairs.masks[0].patterns:
        return tuple(replace(root, patterns=(patterns[0],)) for root in pairs.masks)
    folder = pairs.masks[0].uri
    named = text.enumerated([f"{folder}/{pattern}" for pattern in patterns], 4)
    raise errors.UsageError(
        f"--masks: there are {len(kinds)} masks of each image: {named}; name those whose pixels are "
        f"class ids, such as --masks '{folder}/{patterns[0]}'"
    )


def _notes(matched: mask_names.FoundNames) -> list[str]:
    names = matched.names
    addition = names.addition
    kinds = (addition, *matched.further_kinds)
    mask, *further = [f"{kind.mask_prefix}NAME{kind.mask_suffix}" for kind in kinds]
    image = f"{addition.image_prefix}NAME{addition.image_suffix}"
    pairs = text.enumerated([f"{ours}/ are for {theirs}/" for ours, theirs in names.folders], 3)
    notes = {
        f"the mask of an image {image} is called {mask}": addition != mask_names.Addition(),
        f"other masks of the same images are passed over: {text.enumerated(further, 4)}": further,
        f"masks in {pairs}": names.folders,
        "folders of masks and images differ, so masks are matched by file name alone": names.bare,
    }
    return [note for note, applies in notes.items() if applies]


# --- the content of masks ------------------------------------------------------------------------------


def _colours(options: layout.SourceOptions) -> mask_colours.MaskColours | None:
    """The table of --mask_colors; None without one. Raises UsageError."""
    if not options.mask_colors:
        return None
    (uri, *_) = label_files([options.mask_colors], "--mask_colors")
    with files.naming(f"--mask_colors {uri}", errors.UsageError):
        data = files.read_bytes(uri)
    return mask_colours.parse_mask_colours(data, uri)


def _bits(masks: Sequence[ImageRoot], colours: mask_colours.MaskColours | None) -> int:
    """Bits a pixel of the masks that are written, by the first few masks or by their ids.

    Raises:
      UsageError: all of the first few are in colours without a table, or JPEGs.
    """
    if colours:
        return 16 if max(i for *_, i in colours.ids) > 255 else 8
    uris = _first_uris(masks, _LOOKED_AT)[:_LOOKED_AT]
    heads = [head for uri in uris if (head := tree.beginning(uri, _HEAD_BYTES))]
    if heads and all(head.startswith(jpeg.MAGIC) for head in heads):
        raise errors.UsageError(
            f"the masks are JPEGs, such as {uris[0]}: compression mixes the ids at every edge, so "
            "they cannot be read back. Save masks as PNG, from what they were drawn with"
        )
    if heads and all(map(is_coloured, heads)):
        raise errors.UsageError(
            f"the masks are in colours, such as {uris[0]}, and colours are not class ids. Give the "
            f"class of each with --mask_colors FILE, lines of name,r,g,b, or "
            "save masks with one channel"
        )
    return 16 if (16, 0) in map(png_kind, heads) else 8


def _only_black_and_white(masks: Sequence[ImageRoot]) -> list[str]:
    """A note if the first masks contain only 0 and 255, like drawings; 255 is not a class."""
    values: set[int] = set()
    with suppress(OSError, header.BadImageError):
        for uri in _first_uris(masks, _LOOKED_AT)[:_LOOKED_AT]:
            values |= grey_values(files.read_bytes(uri))
    return [
        "the first masks contain only 0 and 255, and 255 usually means void. A table with the lines "
        "background,0,0,0 and object,255,255,255 for --mask_colors would make these 0 and 1"
    ] * (values == {0, 255})


# --- Pascal VOC -----------------------------------------------------------------------------------

CLASSES, OBJECTS = "SegmentationClass", "SegmentationObject"
LISTS = "ImageSets/Segmentation"

VOC_CLASSES = (
    *("background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat"),
    *("chair", "cow", "diningtable", "dog", "horse", "motorbike", "person", "pottedplant"),
    *("sheep", "sofa", "train", "tvmonitor"),
)
"""VOC's classes in the order of their ids in masks; 255 is void. Source: VOC2012's VOClabelcolormap."""


def voc_sets(paths: Sequence[str]) -> list[str]:
    """The folders with masks that paths of --images mean: years of VOC, or sets kept like one; see `years`."""
    folders = itertools.chain.from_iterable(years(files.canonical(path)) for path in paths)
    return [folder for folder in folders if tree.has_folder(f"{folder}/{CLASSES}")]


# --- folders of masks beside folders of images ----------------------------------------------------


class Pairs(NamedTuple):
    """Images and their masks.

    Attributes:
      images, masks: their folders.
      names: how masks are called.
      why: what was found, for people.
    """

    images: tuple[ImageRoot, ...]
    masks: tuple[ImageRoot, ...]
    names: mask_names.FoundNames
    why: str = ""


def first_keys(roots: Sequence[ImageRoot], most: int = MOST_NAMES) -> list[str]:
    """The first few files below some roots, in order of their paths below them.

    There are none in a folder that cannot be listed: the job reports that.
    """
    return sorted(
        key for root in roots for key in tree.once(root, functools.partial(_first_of, root))[:most]
    )


def _first_uris(roots: Sequence[ImageRoot], most: int = MOST_NAMES) -> list[str]:
    return [files.join(root.uri, key) for root in roots for key in first_keys([root], most)]


def _first_of(root: ImageRoot) -> list[str]:
    if not is_remote(root.uri):
        return list(itertools.islice(_local_keys(root), MOST_NAMES))
    rules, keys = ObjectFilter(root), list[str]()
    with suppress(Exception):
        names = (file.name for file in files.list_files(root.uri) if rules.lists(file.name))
        keys.extend(itertools.islice(names, MOST_NAMES))
    return keys


def _local_keys(root: ImageRoot) -> Iterator[str]:
    rules = ListingFilter(root)
    for folder, folders, names in os.walk(root.uri, followlinks=False):
        below = os.path.relpath(folder, root.uri)
        start = "" if below == "." else f"{below}/"
        entered = (name for name in folders if rules.can_hold(start + name) and rules.enters(name))
        folders[:] = sorted(entered)
        for name in sorted(names):
            if rules.lists(start + name, f"{root.uri}/{start}{name}"):
                yield start + name


def look_for_pairs(folder: str) -> Pairs | None:
    """Images and masks in a folder that certainly belong together; None if there are none.

    They are in one of these shapes, and names of files agree: `images/` beside `masks/`, with splits in
    both or in neither; the two in each folder of a split; and `train/` beside `train_labels/`, as CamVid
    has them.
    """
    names = [*map(posixpath.basename, tree.subfolders(folder))]
    splits = [name for name in names if name.lower() in SPLIT_NAMES]
    in_splits = [
        (f"{split}/{images}", f"{split}/{masks}")
        for split in splits
        for images, masks in _image_and_mask_folders(f"{folder}/{split}")
    ]
    beside_splits = [(split, split + end) for split in splits for end in _MASK_ENDINGS]
    shapes = (
        (_image_and_mask_folders(folder), False),
        (in_splits if len(in_splits) == len(splits) else [], True),
        (sorted(pair for pair in beside_splits if pair[1] in names), True),
    )
    for shape, in_one_root in shapes:
        pairs = _pairs(folder, shape, in_one_root) if shape else None
        if pairs and pairs.names.met >= _CERTAIN and pairs.names.certain:
            return pairs
    return None


def _pairs(folder: str, shape: Sequence[tuple[str, str]], in_one_root: bool) -> Pairs | None:
    """The images and masks in pairs of folders, which are roots or are in one root."""
    names: tuple[tuple[str, str], ...] = ()
    images, masks = ((ImageRoot(f"{folder}/{name}"),) for name in shape[0])
    if in_one_root:
        images, masks = (
            (ImageRoot(folder, within=tuple(f"{name}/" for name in side)),)
            for side in zip(*shape, strict=True)
        )
        names = tuple(sorted({(posixpath.basename(m), posixpath.basename(i)) for i, m in shape}))
    keys = first_keys(masks)
    if not keys or {posixpath.splitext(key)[1].lower() for key in keys} - _LOSSLESS:
        return None
    why = f"{shape[0][1]}/ beside {shape[0][0]}/ in {folder}"
    return Pairs(images, masks, mask_names.find_names(first_keys(images), keys, names), why)


def _image_and_mask_folders(folder: str) -> list[tuple[str, str]]:
    """Names of the one folder of images and the one of masks in a folder; none without either."""
    names = [posixpath.basename(below) for below in tree.subfolders(folder)]
    images = [name for name in names if name.lower() in tree.IMAGE_FOLDERS]
    masks = [name for name in names if name.lower() in _MASKS]
    return [(images[0], masks[0])] if len(images) == len(masks) == 1 else []
