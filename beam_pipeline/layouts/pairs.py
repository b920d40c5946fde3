"""Parts of a sample in files of the same name: stereo pairs, depths, pictures before and after.

image_2/000000.png        image_3/000000.png      depth/000000.png        folders beside each other, as KITTI's
train/A/1.png             train/B/1.png           train/label/1.png       the same in the folder of each split
Piano/im0.png             Piano/im1.png           Piano/disp0GT.pfm       names in folders of scenes, as Middlebury's

The first part is the image. Each other one is a column of files of its name, as a table with --file_columns has.
"""

from __future__ import annotations

import glob
import itertools
import os
import posixpath
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, NamedTuple

from beam_pipeline.core import errors, questions, references, text
from beam_pipeline.core.labels import classes, path_roles, schema
from beam_pipeline.core.labels.further_columns import HEAD_BYTES, kind_of_files
from beam_pipeline.core.labels.mask_names import find_names
from beam_pipeline.core.listing import filters, globs
from beam_pipeline.core.listing.folders import SPLIT_NAMES
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.layouts import label_files, layout, paths, tree

_FIRST = re.compile(r"(images?|imgs?|im|left|rgb|colou?r|a|before|inputs?|source|lr|low|noisy)\d*")
"""Words in names of the part that is the image; of several such parts, the first by name is."""
_MASK_NAMES = re.compile(
    r"mask|ground.?truth|(?<![a-z])gt(?![a-z])|label|annot|segment|semantic|instance", re.IGNORECASE
)
"""Words in names of masks."""

_OF_SCENE = re.compile(r"im\d|view\d|left|right|im_?left|im_?right")
_ROLES = re.compile(
    "A|B|rgb|colou?r|gray|depth|thermal|infrared|ir|left|right|input|target|output|photo|sketch|edges|images?"
    "|hr|lr|high|low|before|after|day|night|clean|noisy|blur|sharp|real|synthetic|source|originals?|thumbnails?"
)
"""Words in names of folders with the parts of pairs; but for single letters, in lower case."""

_OF_IMAGE = re.compile(
    r"(.+)([_\- ](?:mask(?!ed)[a-z]*|seg|segmentation|gt|label|anno|annotation|depth[a-z]*|thumb(?:nail)?))",
    re.IGNORECASE,
)
"""A name of an image, and what the name of a mask, a depth or a thumbnail beside it has after it."""

_OF_PICTURE = re.compile(r"[_\- ](?:depth|thumb)", re.IGNORECASE)
_LAST_WORD = re.compile(r"[_\- ][a-z]+$", re.IGNORECASE)
_ENOUGH_NAMES = 3  # that are the same in several folders, but not by chance
_MOST_FOLDERS = 300
_EXAMPLES = 3
_LOOKED_AT = 3  # files of a part
_RESERVED = ("image", "label")  # the beginnings of the keys of other features
_SHOWN = 8


class Parts(NamedTuple):
    """The parts of samples. As `ListedReader`, it takes a partner for the image of the same path, but for its name.

    Attributes:
      image: the name of the first part.
      partners: the names of the others, sorted.
      are_folders: whether they are names of folders; otherwise of files, without extension.
    """

    image: str
    partners: tuple[str, ...]
    are_folders: bool

    def pattern(self, name: str) -> str:
        """The glob of a part's files."""
        return f"**/{glob.escape(name)}/**" if self.are_folders else f"**/{glob.escape(name)}.*"

    def row(self, file: references.ImageRef) -> references.LabelRow:
        """The row of a partner: a reference to it in its column."""
        *path, name = posixpath.splitext(file.key)[0].split("/")
        steps = path if self.are_folders else [name]
        at = max(i for i, step in enumerate(steps) if step in self.partners)
        of_file = (file.uri, file.size, file.version)
        values = tuple(of_file if partner == steps[at] else None for partner in self.partners)
        steps[at] = self.image
        key = "/".join([*path, name if self.are_folders else self.image])
        return references.LabelRow(key, values, "", file.uri, 0)


def find_parts(folder: str, image: str = "") -> Parts | None:
    """The parts of the samples in a folder, by the names in its first folders; None if there are none.

    Args:
      folder: its URI.
      image: the name of the part that is the image; empty for the likeliest.
    """
    places = [*tree.walk(folder, _MOST_FOLDERS)]
    pictures = {place.path: _stems(place.images) for place in places}
    names = {place.path: _stems(place.files) | pictures[place.path] for place in places}
    scenes = [path for path, images in pictures.items() if images]
    if scenes and 2 * sum(_is_scene(pictures[path], image) for path in scenes) >= len(scenes):
        counts = Counter(name for path in scenes for name in names[path])
        partners = {name for name, count in counts.items() if 2 * count >= len(scenes)}
        of_images = partners & {*itertools.chain(*pictures.values())}
        image = image or min(of_images, key=rank, default="")
    else:
        scenes = []
        beside: dict[str, dict[str, frozenset[str]]] = {}
        for path, stems in names.items():
            parent, name = posixpath.split(path)
            if stems and name.lower() not in SPLIT_NAMES and parent in names:
                beside.setdefault(parent, {})[name] = stems
        shared = {
            both
            for parent, folders in beside.items()
            for both in itertools.permutations(folders, 2)
            if pictures[f"{parent}/{both[0]}"] and not folders[both[0]].isdisjoint(folders[both[1]])
        }
        image = image or min((name for name, _ in shared), key=rank, default="")
        partners = {further for name, further in shared if name == image}
    ranked = sorted(partners - {image}, key=rank)
    return Parts(image, tuple(ranked), not scenes) if ranked else None


def _is_scene(images: Set[str], image: str = "") -> bool:
    """True if a folder has the parts of one sample, by the names of its images."""
    paired = sum(bool(_OF_SCENE.fullmatch(name.lower())) for name in images) > 1
    return image in images if image else paired


def _stems(names: Iterable[str]) -> frozenset[str]:
    return frozenset(os.path.splitext(name)[0] for name in names)


def rank(name: str) -> tuple[bool, bool, str]:
    """Where a part comes: images by their names first, what looks like masks last."""
    words = re.split(r"[\W_]+", name.lower())
    return is_mask(name), not any(map(_FIRST.fullmatch, words)), name


def is_mask(name: str) -> bool:
    """True for a name that looks like that of masks, which are never resized, as ids would be mixed."""
    return bool(_MASK_NAMES.search(name))


def column_name(part: str) -> str:
    """The column of a part, whose keys are those of no other feature."""
    return f"{part}s" if part in _RESERVED else part


class Pairs:
    """Files of the same names in folders beside each other, or of names that repeat in each scene."""

    name = "pairs"
    option_names = frozenset({"columns", "key_column"})

    def recognise(self, options: layout.SourceOptions) -> str:
        """Nothing: such folders may as well be classes, so that a question names this layout."""
        return ""

    def open(self, options: layout.SourceOptions) -> layout.Source:
        """Finds the parts, and looks at the first bytes of some of each.

        Raises:
          UsageError: there are none, or an option names a part that there is not.
        """
        root, *further = paths.image_roots(options.images)
        if options.labels or further or root.archive or root.patterns:
            raise errors.UsageError("--layout pairs needs one folder in --images, and no --labels")
        parts = find_parts(root.uri, options.key_column)
        if parts is None:
            raise errors.UsageError(
                f"--images {options.images[0]}: no folders beside each other there contain files of the same names, "
                "such as left/1.png and right/1.png, nor do folders of scenes, such as Piano/im0.png and "
                "Piano/im1.png"
                + (f" (--key_column {options.key_column})" if options.key_column else "")
            )
        chosen = _chosen(parts, options.columns)
        partners = tuple(replace(root, patterns=(parts.pattern(name),)) for name in chosen)
        columns = [_column(*both, options.columns) for both in zip(chosen, partners, strict=True)]
        note = f"{parts.image} is the image, with {text.enumerated(chosen, _SHOWN)} beside it"
        return layout.Source(
            self.name,
            (replace(root, but=tuple(map(parts.pattern, parts.partners))),),
            layout.ListedLabels(parts._replace(partners=chosen), partners, "partner"),
            LabelledImages(tuple(columns)),
            classes.ClassNumbering(),
            (f"{note}; an image without {chosen[0]} is left out",),
        )


def _chosen(parts: Parts, kinds: Mapping[str, str]) -> tuple[str, ...]:
    """The partners that are written: those that options name, or all but those to skip. Raises UsageError."""
    for name, kind in kinds.items():
        if name not in parts.partners or kind not in (*schema.FILE_TYPES, schema.SKIP_KIND):
            raise errors.UsageError(
                f"--columns {name}:{kind}: expected one of {', '.join(parts.partners)}, and one of "
                f"{', '.join(schema.FILE_TYPES)} or {schema.SKIP_KIND}"
            )
    named = [name for name in parts.partners if kinds.get(name) in schema.FILE_TYPES]
    chosen = named or [name for name in parts.partners if name not in kinds]
    if not chosen:
        raise errors.UsageError(f"--columns leaves no partners of {parts.image}; leave out fewer")
    for name in _RESERVED:
        if {name, f"{name}s"} <= {*chosen}:
            raise errors.UsageError(
                f"{name} and {name}s would both be {name}s/encoded; rename one of them"
            )
    return tuple(chosen)


def _column(name: str, files_of: filters.ImageRoot, kinds: Mapping[str, str]) -> schema.Column:
    """The column of a partner."""
    start, matches = len(files_of.uri) + 1, globs.glob_regex(files_of.patterns[0]).fullmatch
    uris = (
        f"{place.path}/{file}"
        for place in tree.walk(files_of.uri, _MOST_FOLDERS)
        for file in (*place.images, *place.files)
    )
    first = [*itertools.islice((uri for uri in uris if matches(uri[start:])), _LOOKED_AT)]
    kind = kind_of_files(first, lambda uri: tree.beginning(uri, HEAD_BYTES) or None)
    is_copy = kinds.get(name) == schema.ColumnKind.COPY
    is_copy = is_copy or (kind is schema.ColumnKind.PICTURE and is_mask(name))
    return schema.further_column(column_name(name), schema.ColumnKind.COPY if is_copy else kind)


# --- questions where they would become classes ----------------------------------------------------


def masks_among(inside: Sequence[tree.Folder], typed: str) -> Iterator[questions.Question]:
    """A question about files named like a mask of an image beside them, of at least half of the images."""
    masks = [mask for folder in inside for mask in _named_like_others(folder)]
    images = sum(len(folder.images) for folder in inside) - len(masks)
    if not masks or 2 * len(masks) < images:
        return
    kinds = Counter((mark, extension) for _, mark, extension in masks)
    marks = {mark.lower(): mark for mark, _ in kinds}
    (mark, extension), _ = kinds.most_common(1)[0]
    of_masks = not any(map(_OF_PICTURE.match, marks))
    but = "".join(f"(?<!{re.escape(end)})" for end in marks.values() if end)
    ending = r"[.]\w+" if all(marks) else f"[.](?!{extension[1:]}$)" + r"\w+"
    pattern = rf"(?:(?P<split>train|val|test)/)?(?P<label>.+)/.+{but}{ending}"
    reason = (
        f"{text.counted(len(masks), 'file')} with names of {'masks' if of_masks else 'masks, depths or thumbnails'}, such as "
        f"{label_files.typed_path(masks[0][0], typed)}, would be images like those beside them."
    )
    advice = f"If folders are the classes, --label_from {shlex.quote(pattern)} leaves the masks out. If the masks are the labels:"
    pattern_of_masks = f"{typed.rstrip('/')}/**/*{mark}{extension}"
    answer: dict[str, Any] = {"images": (typed,), "masks": (pattern_of_masks,)}
    if len(marks) > 1 or not of_masks:
        advice = "If folders are the classes, this leaves them out:"
        answer = {"label_from": pattern}
    yield questions.question("masks_among_images", reason, advice, **answer)


def _named_like_others(folder: tree.Folder) -> Iterator[tuple[str, str, str]]:
    """(path, addition, extension) of each file called like another image in its folder, but for the addition.

    A PNG beside a JPEG of its name has none.
    """
    names = [*map(os.path.splitext, folder.images)]
    jpegs = {stem for stem, extension in names if extension.lower() in (".jpg", ".jpeg")}
    images = {stem for stem, _ in names if not _OF_IMAGE.fullmatch(stem)}
    images |= {_LAST_WORD.sub("", stem) for stem in images}
    for stem, extension in names:
        match = _OF_IMAGE.fullmatch(stem)
        if match and match[1] in images:
            yield f"{folder.path}/{stem}{extension}", match[2], extension
        elif extension.lower() == ".png" and stem in jpegs:
            yield f"{folder.path}/{stem}{extension}", "", extension


def same_names(here: tree.Folder, typed: str) -> Iterator[questions.Question]:
    """A question about the first folders beside each other with parts of the same samples, at any level."""
    below = [tree.names_in(path) for path in here.folders[:_EXAMPLES]]
    lowest = [tree.names_in(path) for folder in below for path in folder.folders[:_EXAMPLES]]
    scenes = len(below) > 1 and all(_is_scene(_stems(folder.images)) for folder in below)
    parent = next(filter(_contains_pairs, (here, *below, *lowest)), None)
    parts = find_parts(here.path) if parent or scenes else None
    parent = here if parts and scenes else parent
    if parent is None:
        return
    names = [posixpath.basename(path) for path in parent.folders]
    splits = [name for name in map(posixpath.basename, here.folders) if name.lower() in SPLIT_NAMES]
    answer: dict[str, Any] = {"label_from": path_roles.last_folder_pattern(splits)}
    if parent is here or (splits and posixpath.dirname(parent.path) == here.path):
        answer = {"layout": "class_folders"}
    further: Sequence[tuple[str, Mapping[str, Any]]] = ()
    advice = (
        "Name the folder of images with --images and that of masks with --masks, or one folder and a table "
        "of labels with --labels. If they are classes:"
    )
    masks = [name for name in names if _MASK_NAMES.search(name)]
    images = [name for name in names if name not in masks]
    if len(images) == len(masks) == 1:  # anywhere below, if there are further levels
        start, end = ("", "") if parent is here else ("**/", "/*")
        both = [f"{here.path}/{start}{name}{end}" for name in (*images, *masks)]
        image, mask = (label_files.typed_path(path, typed) for path in both)
        advice, answer = "", {"images": (image,), "masks": (mask,)}
        if len(here.folders) > len(splits) and parent is not here:
            pattern = rf"(?:.*?/)??(?P<label>[^/]+)/{re.escape(images[0])}/[^/]+"
            further = [("If the folders around them are the classes:", {"label_from": pattern})]
    elif parts and (scenes or _have_roles((parts.image, *parts.partners))):
        both = [parts.image, *parts.partners]
        described = text.enumerated(both, _EXAMPLES)
        pairs = f"If {described} are parts of one sample, the first the image:", {"layout": "pairs"}
        answers = [pairs, ("If the folders are classes:", answer)]
        if max(map(len, both)) == 1:  # letters, as of an alphabet
            answers.reverse()
        (advice, answer), *further = answers
    reason = (
        f"{text.enumerated([f'{name}/' for name in names], _EXAMPLES)} in {label_files.typed_path(parent.path, typed)} would become "
        "classes, but such names of folders or images are usual for pairs, masks and several views."
    )
    yield questions.Question("same_names_in_folders", reason, advice, answer, tuple(further))


def _contains_pairs(parent: tree.Folder) -> bool:
    """True if the folders in a folder are called like images and masks, or contain images of the same names.

    Images of any class are numbered, so that the same numbers are evidence only in folders that are called like
    parts. Other names are evidence, as are names with the same addition, such as `7.png` and `7_mask.png`.
    """
    if parent.images or not 2 <= len(parent.folders) <= tree.MOST_FOLDERS:
        return False
    called = {posixpath.basename(path).lower() for path in tree.folders_with_images(parent)}
    if called & tree.IMAGE_FOLDERS and called & tree.LABEL_FOLDERS:
        return True
    first, *others = (_stems(tree.names_in(path).images) for path in parent.folders)
    may_be_added = len(others) == 1 and len(first) >= _ENOUGH_NAMES
    added = _added(first, others[0]) if may_be_added else ""
    same = all(stems == first for stems in others)
    if not added and (not same or len(others) * (len(first) - 1) < _ENOUGH_NAMES - 1):
        return False
    names = [posixpath.basename(path) for path in parent.folders]
    has_roles = _have_roles(names) or bool(_MASK_NAMES.search(added))
    return has_roles or not path_roles.differ_in_numbers(first) or _is_of_masks(parent)


def _is_of_masks(parent: tree.Folder) -> bool:
    """True for two folders, one of PNGs and called like masks, perhaps after the other one: `data` and `labels`."""
    image, *_, masks = sorted(map(posixpath.basename, parent.folders), key=is_mask)
    usual = masks.lower() in path_roles.MASKS | tree.LABEL_FOLDERS
    usual = usual or (is_mask(masks) and masks.startswith(image))
    pictures = tree.names_in(f"{parent.path}/{masks}").images
    are_pngs = all(name.lower().endswith(".png") for name in pictures)
    return len(parent.folders) == 2 and usual and are_pngs


def _added(first: Collection[str], second: Collection[str]) -> str:
    """What all names in one of two folders have, besides the names in the other; empty if they do not."""
    names, longer = sorted((first, second), key=lambda stems: sum(map(len, stems)))
    found = find_names([f"{stem}.png" for stem in names], [f"{stem}.png" for stem in longer])
    return "".join(found.names.addition) * (found.met == 1 and len(names) == len(longer))


def _have_roles(names: Iterable[str]) -> bool:
    """True if all folders are called like parts of a sample."""
    return all(
        _MASK_NAMES.search(name)
        or any(map(_ROLES.fullmatch, (name, *re.split(r"[\W_]+", name.lower()))))
        for name in names
    )
