"""Looks around a folder of images whose folders would be its classes, as no other layout fits.

Users often name the folder above or below the one that a layout expects, and label files among the images or
beside them would be ignored. So names, and the first bytes of a few files, are checked: an `Alternative` that
certainly contains the same images is taken; anything less certain becomes a question. The search is bounded:
thousands of names per folder, tens of folders, no images.
"""

from __future__ import annotations

import itertools
import os
import posixpath
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from beam_pipeline.core import errors, uris
from beam_pipeline.core.dataset.plausibility import ADVICE
from beam_pipeline.core.labels import schema, table_rows
from beam_pipeline.core.labels.cells import text_of
from beam_pipeline.core.labels.mask_names import find_names
from beam_pipeline.core.labels.tables import inspect_tables
from beam_pipeline.core.listing.filters import TABLES, TEXTS, UNREAD, ImageRoot, kind_of
from beam_pipeline.core.listing.folders import SPLIT_NAMES, split_paths
from beam_pipeline.core.questions import Question, question
from beam_pipeline.core.text import counted, enumerated
from beam_pipeline.layouts import heads, named_files, pairs, registry, tree
from beam_pipeline.layouts.label_files import typed_path
from beam_pipeline.layouts.layout import Layout, SourceOptions
from beam_pipeline.layouts.paths import first_entries
from beam_pipeline.storage import files

_LABELS_IN_NAME = re.compile("annot|label|xml")

_LAST_RESORTS = frozenset(["caption_files", "table", "automl", "class_folders"])
_COCO = re.compile(rb'[\xef\xbb\xbf\s]*\{(?s:.*)"(?:images|categories)"\s*:\s*\[', re.ASCII)
_DOCUMENTS = (
    (".json", "coco", "COCO's annotations", _COCO),
    (".xml", "voc", "Pascal VOC's annotations", re.compile(rb"(?s:.*)<annotation[\s>]")),
    *((extension, "", "", re.compile(b"(?!)")) for extension in UNREAD),
)
"""(extension, layout, title, beginning of a file) of annotations."""

_YOLO = re.compile(rb"\d+(?:\s+[01]?\.?\d+(?:[eE]-?\d+)?){4,}")
_OBJECTS = re.compile(rb"^\s*(?:-?\d[\d.]*[\s,]+){4}", re.MULTILINE)  # such as corners in DOTA
_KITTI_FIELDS = (15, 16)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")

_ANY_TABLE = schema.ColumnChoices(label_needed=False, may_be_lists=True)
_NO_LABELS = re.compile(r"submission|inventory|\Adead_letters[.-]", re.IGNORECASE)
"""Names of tables that are not labels: answers to fill in, as on Kaggle, lists of files, and reports of a conversion."""

_SEVERAL = "What several tables say of an image has to be in one row. For the first alone:"
_ROWS = 20  # of a table whose images are looked up
_ENOUGH_NAMES = 3  # without extension, such as numbers: more are not names of images by chance
_LOOKED_AT = 10  # text files, for one that is not empty
_EXAMPLES = 3
_MOST_COLUMNS = 6


def only_folder(options: SourceOptions) -> str:
    """Returns the only path of --images if it is a local folder and no labels are given, else empty."""
    if options.labels or len(options.images) != 1:
        return ""
    root = files.canonical(options.images[0])
    return root if not uris.is_remote(root) and os.path.isdir(root) else ""


def _name(path: str) -> str:
    return posixpath.basename(path).lower()


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
    above = [whole for whole in _above(root, options) if _lists_only(whole, root)] if root else []
    here = tree.names_in(root)
    if above or not root or here.images:
        return above[0] if above else None
    with_images = tree.folders_with_images(here)
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
    if _name(root) in tree.IMAGE_FOLDERS:
        above = [parent]
    elif _name(root) in SPLIT_NAMES and _name(parent) in tree.IMAGE_FOLDERS:
        above = [parent, posixpath.dirname(parent)]
    return _recognised(above, options)


def _recognised(folders: Sequence[str], options: SourceOptions) -> list[Alternative]:
    """Those folders that any layout recognises but captions, tables and class folders."""
    layouts = [layout for layout in registry.all_layouts() if layout.name not in _LAST_RESORTS]
    alternatives = []
    for folder in folders[: tree.MOST_FOLDERS]:
        there = replace(options, images=(typed_path(folder, options.images[0]),))
        reasons = ((layout, layout.recognise(there)) for layout in layouts)
        alternatives += [Alternative(there, layout, why) for layout, why in reasons if why][:1]
    return alternatives


def _lists_only(alternative: Alternative, root: str) -> bool:
    """True if an alternative contains only images of a folder."""
    try:
        roots = alternative.layout.open(alternative.options).roots
    except errors.ConversionError:
        return False
    return bool(roots) and all(_no_more(listed.uri, root) for listed in roots)


def _no_more(listed: str, root: str) -> bool:
    """True if all images below a listed folder are below the root."""
    if f"{listed}/".startswith(f"{root}/"):
        return True
    if not root.startswith(f"{listed}/"):
        return False
    here = tree.names_in(listed)
    towards = f"{listed}/{root[len(listed) + 1 :].partition('/')[0]}"
    only = not here.images and tree.folders_with_images(here) == [towards]
    return only and _no_more(towards, root)


def _table_beside(here: tree.Folder, images: str, options: SourceOptions) -> Alternative | None:
    """Finds the only table beside a folder of images whose rows name them."""
    looks = [table for table in look_at_tables(tables_in(here)) if len(table.columns) != 1]
    naming = [table.path for table in looks if table.names_images_in(images)]
    if len(naming) != 1:
        return None
    folder, table = (typed_path(path, options.images[0]) for path in (images, *naming))
    there = replace(options, images=(folder,), labels=(table,))
    why = f"{table} names the images in {folder}"
    return Alternative(there, registry.layout_named("table"), why)


def _splits_below(folder: str, options: SourceOptions) -> Alternative | None:
    """Finds a folder that contains only splits with class folders."""
    here = tree.names_in(folder)
    splits = list(map(tree.names_in, here.folders))
    flat = [split for split in splits if split.images or not tree.folders_with_images(split)]
    if here.images or not splits or flat or {_name(s.path) for s in splits} - SPLIT_NAMES.keys():
        return None
    there = replace(options, images=(typed_path(folder, options.images[0]),))
    names = enumerated([posixpath.basename(split.path) for split in splits], _EXAMPLES)
    why = f"splits with class folders ({names}) in {there.images[0]}"
    return Alternative(there, registry.layout_named("class_folders"), why)


# --- tables ---------------------------------------------------------------------------------------


class TableLook(NamedTuple):
    """The beginning of a table.

    Attributes:
      path: the file.
      columns: its header; empty if it cannot be read as a table.
      images: the names of images in its first rows.
      values: of each column, in its first rows.
    """

    path: str
    columns: Sequence[str] = ()
    images: Sequence[str] = ()
    values: Sequence[Sequence[str]] = ()

    def is_of_classes(self, folders: Collection[str]) -> bool:
        """True for a table of the classes of folders, or of the values of pixels: a row for each, not for an image."""
        if any(name.strip().lower() == "pixel value" for name in self.columns):
            return True
        names = {name.replace("_", " ") for name in folders}
        return not any(map(table_rows.is_image_name, self.images)) and any(
            len({*values}) == len(values) > 1 and {v.replace("_", " ") for v in values} <= names
            for values in self.values
        )

    def names_images_in(self, folder: str, *, by_file_name: bool = False) -> bool:
        """True if most of the first rows name files in a folder.

        Names without extension count only if there are several: a single row that begins with 1 may
        match `1.jpg` by chance.

        Args:
          folder: the folder; names may be relative to it or to the table's.
          by_file_name: True if names may be file names in any folder below, such as paths from another machine.
        """
        below = tree.tree(tree.names_in(folder)) if by_file_name else []
        exact = without_extension = 0
        for name in self.images:
            base = posixpath.basename(name.replace("\\", "/"))
            bases = (folder, posixpath.dirname(folder), posixpath.dirname(self.path))
            paths = [f"{base}/{name}" for base in bases]
            places = [f"{place.path}/{base}" for place in below if base]
            if sum(map(os.path.isfile, places)) < 2:  # several are ambiguous
                paths += places
            paths = [path for path in paths if path.startswith(f"{folder}/")]
            is_exact = any(map(os.path.isfile, paths))
            exact += is_exact
            endings = (path + ending for path in paths for ending in named_files.ADDED_EXTENSIONS)
            without_extension += not is_exact and any(map(os.path.isfile, endings))
        enough = without_extension >= _ENOUGH_NAMES
        return 2 * (exact + without_extension * enough) > len(self.images)


def tables_in(folder: tree.Folder) -> list[str]:
    """The paths of tables that may contain labels: no submission, no dead letters."""
    paths = folder.of_kind(*TABLES)
    return [path for path in paths if not _NO_LABELS.search(posixpath.basename(path))]


def look_at_tables(paths: Sequence[str]) -> list[TableLook]:
    """Reads the headers and first rows of some tables; mere lists of images come only if all are."""
    looks = []
    for path in paths[: tree.MOST_FOLDERS]:
        look, head = TableLook(path), heads.first_line(path)
        with suppress(errors.ConversionError):
            if head:
                _, (table,) = inspect_tables([head], _ANY_TABLE)
                rows = table_rows.head_rows(head, table)
                values = {name: [*map(text_of, rows.cells(name)[:_ROWS])] for name in rows.columns}
                images = values[table.key_column]
                look = TableLook(path, table.header, images, [*values.values()])
        looks.append(look)
    return [table for table in looks if len(table.columns) != 1] or looks


# --- questions ------------------------------------------------------------------------------------


def class_doubts(options: SourceOptions) -> list[Question]:
    """Asks where other files nearby are reasons why names of folders may not be classes."""
    root = only_folder(options)
    here = tree.names_in(root) if root else tree.Folder(root)
    if not (here.images or here.folders):
        return []
    typed = options.images[0]
    where = typed_path(root, typed)
    above, below = _above(root, options)[:1], _recognised(here.folders, options)
    if above or (below and below[0].layout.name != "masks"):  # whose folders are named below
        layout, why = (above or below)[0].layout.name, (above or below)[0].why
        sets = above or [s for s in below if s.layout.name == layout]
        reason = (
            f"{where} {'is part of' if above else 'contains'} {counted(len(sets), 'data set')} of the layout {layout}: "
            f"{why}. Its folders would become classes."
        )
        paths = tuple(path for s in sets for path in s.options.images)
        return [question("part_of_data_set", reason, images=paths, layout=layout)]
    ignored = [*ignored_label_files(here, typed), *pairs.masks_among(tree.tree(here), typed)]
    return ignored or [*pairs.same_names(here, typed)]


def archive_doubts(roots: Sequence[ImageRoot]) -> Iterator[Question]:
    """Asks where masks or parts of samples in archives would become images of classes."""
    members: dict[str, list[str]] = {}
    for root, entry in first_entries([root for root in roots if root.archive]):
        members.setdefault(root.uri, []).append(entry.name)
    for uri, names in members.items():
        here = tree.remember(uri, names)
        typed = os.path.relpath(uri)
        doubts = [*pairs.masks_among(tree.tree(here), typed)] or pairs.same_names(here, typed)
        for doubt in doubts:
            advice = "Unpack the archive, and the run suggests options for them. If all are images of classes:"
            yield question(doubt.id, doubt.reason, advice, layout="class_folders")
            return


def ignored_label_files(here: tree.Folder, typed: str) -> list[Question]:
    """Questions about label files among the images of a folder or beside it, by kind.

    Args:
      here: the folder.
      typed: its path as typed, for paths in the same style.
    """
    inside = tree.tree(here)
    places = map(tree.names_in, _label_folders(here.path))
    beside = [folder for place in places for folder in tree.tree(place)]
    images = {os.path.splitext(name)[0] for folder in inside for name in folder.images}
    texts = (path for folder in inside for path in folder.of_kind(".txt"))
    further = [path for path in texts if posixpath.basename(path)[:-4] not in images]
    among = _texts_naming(here.path, further)
    among += [path for folder in inside for path in tables_in(folder)]
    tables = [*_tables(here, among, typed)]
    if not tables:
        parent = tree.names_in(posixpath.dirname(here.path))
        above = look_at_tables(tables_in(parent))
        naming = [table.path for table in above if table.names_images_in(here.path)]
        naming += _texts_naming(here.path, parent.of_kind(".txt"))
        tables = [*_tables(here, naming, typed)]
    others = _documents(here, inside, beside, typed), _text_files(here, inside, beside, typed)
    return [*tables, *itertools.chain(*others)]


def _texts_naming(folder: str, paths: Sequence[str]) -> list[str]:
    """The texts that are tables of images in a folder, or lists of them that are called like splits, if no folders are."""
    looks = [look for path in paths[: tree.MOST_FOLDERS] for look in look_at_tables([path])]
    naming = [k for k in looks if k.columns and k.names_images_in(folder, by_file_name=True)]
    places = tree.tree(tree.names_in(folder))
    by_folder = any(_name(place.path) in SPLIT_NAMES for place in places)
    lists = () if by_folder else split_paths([look.path for look in naming])
    return [look.path for look in naming if len(look.columns) > 1 or look.path in lists]


def _label_folders(root: str) -> Iterator[str]:
    """Folders named like labels beside the images: for `images/train/`, also `labels/` beside `images/`."""
    parent = posixpath.dirname(root)
    for place in (root, parent) if _name(parent) in tree.IMAGE_FOLDERS else (root,):
        for folder in tree.names_in(posixpath.dirname(place)).folders:
            is_usual = _name(folder) in tree.LABEL_FOLDERS or _LABELS_IN_NAME.search(_name(folder))
            if is_usual and folder != place:
                yield folder


def _ignored(paths: Sequence[str], typed: str, kind: str = "") -> str:
    """The beginning of a question about files, and their kind if it is known."""
    names = enumerated([typed_path(path, typed) for path in paths], _EXAMPLES)
    looks = "looks" if len(paths) == 1 else "look"
    return f"{names} would be ignored" + (f", but {looks} like {kind}." if kind else ".")


def _tables(here: tree.Folder, paths: Sequence[str], typed: str) -> Iterator[Question]:
    """A question about the tables whose rows name the images or, if there are none, about all."""
    below = {posixpath.basename(path) for place in tree.tree(here) for path in place.folders}
    tables = [table for table in look_at_tables(paths) if not table.is_of_classes(below)]
    if not tables:
        return
    paths = [table.path for table in tables]
    images: set[str] = set()
    naming = [table for table in tables if table.names_images_in(here.path)]
    if not naming and not here.images:  # the tables of some of the folders beside them
        with_images = tree.folders_with_images(here)
        for table in tables:
            folders = [f for f in with_images[:_EXAMPLES] if table.names_images_in(f)]
            if folders and not table.path.startswith(tuple(f"{f}/" for f in with_images)):
                naming.append(table)
                images.update(typed_path(folder, typed) for folder in folders)
    naming = naming or [t for t in tables if t.names_images_in(here.path, by_file_name=True)]
    columns = [*filter(None, (naming or tables)[0].columns)]
    kind = "labels" + (f" with the columns {enumerated(columns, _MOST_COLUMNS)}" if columns else "")
    if not naming:
        yield question("tables_ignored", _ignored(paths, typed, kind), ADVICE)
        return
    if len(paths) <= tree.MOST_FOLDERS:
        paths = [table.path for table in naming]
    lists = all(len(table.columns) == 1 for table in naming) and split_paths(paths)
    splits = {"splits": "label_files"} if lists else {}
    alone = any(
        one.columns != other.columns and not {*one.images}.isdisjoint(other.images)
        for one, other in itertools.combinations(naming, 2)
    )
    labels = _as_typed(paths[:1] if alone else paths, typed)
    reason, advice = _ignored(paths, typed, kind), _SEVERAL if alone else ""
    named = tuple(sorted(images)) or (typed,)
    yield question("tables_ignored", reason, advice, images=named, labels=labels, **splits)


def _documents(
    here: tree.Folder, inside: Sequence[tree.Folder], beside: Sequence[tree.Folder], typed: str
) -> Iterator[Question]:
    """Questions about JSON and XML among the images, and COCO's or Pascal VOC's annotations there or beside them."""
    start = len(posixpath.dirname(here.path))
    for extension, layout, title, pattern in _DOCUMENTS:
        paths, around = (
            [path for f in folders for path in f.of_kind(extension) if kind_of(path[start:])]
            for folders in (inside, beside)
        )
        ignored = meant = paths or around
        if not ignored:
            continue
        if layout == "coco":
            meant = fitting = [p for p in (*paths, *around) if pattern.match(tree.beginning(p))]
            for part in ("instances_", posixpath.basename(here.path)):  # of many, the likeliest
                meant = [path for path in meant if part in posixpath.basename(path)] or meant
            labels = _as_typed(meant, typed)
        else:
            fitting = [path for path in ignored[:1] if pattern.match(tree.beginning(path))]
            labels = (typed if paths else typed_path(posixpath.dirname(around[0]), typed),)
        if fitting:
            name, reason = f"{layout}_ignored", _ignored(meant, typed, title)
            yield question(name, reason, images=(typed,), labels=labels, layout=layout)
        else:
            yield question(f"{extension[1:]}_ignored", _ignored(ignored, typed), ADVICE)


def _text_files(
    here: tree.Folder, inside: Sequence[tree.Folder], beside: Sequence[tree.Folder], typed: str
) -> Iterator[Question]:
    """A question about text files named like the images, if there are about as many as images."""
    images = {os.path.splitext(name)[0] for folder in inside for name in folder.images}
    paths = [path for folder in (*inside, *beside) for path in folder.of_kind(*TEXTS)]
    names = find_names([f"{stem}.jpg" for stem in images], [*map(posixpath.basename, paths)]).names
    paths = [path for path in paths if names.image_name(posixpath.basename(path)) in images]
    if not paths or 2 * len(paths) < len(images):
        return
    heads_of = [tree.beginning(path) for path in paths[:_LOOKED_AT]]
    lines = (line.strip() for head in heads_of for line in head.splitlines())
    line = next(filter(None, lines), b"")
    text = line.decode(errors="replace")
    ignored = (
        f"{counted(len(paths), 'text file')} with names of images, such as {typed_path(paths[0], typed)}, "
        f"would be ignored; the first is {text[:40]!r}."
    )
    is_kitti = len(line.split()) in _KITTI_FIELDS
    layout = "kitti" if is_kitti else "yolo" if _YOLO.fullmatch(line) else "caption_files"
    labels = sorted({*map(posixpath.dirname, paths)})
    folders = [folder.path for folder in inside if folder.images]
    top, above = map(posixpath.commonpath, (labels, folders))
    alike = {path[len(above) :] for path in folders} == {path[len(top) :] for path in labels}
    is_repeated = sum(len(folder.images) for folder in inside) > len(images)
    is_of_objects = is_of_numbers(text) or any(map(_OBJECTS.search, heads_of))
    unlike = is_repeated and not (alike or {*labels} <= {*folders})
    if unlike or any(names.addition) or (layout == "caption_files" and is_of_objects):
        yield question("texts_ignored", ignored, ADVICE)
        return
    if layout == "caption_files" and not {*labels}.isdisjoint(folders):
        labels = []  # beside their images
    elif not (is_kitti or f"{here.path}/".startswith(f"{top}/")):
        labels = [top]  # the layout kitti reads no folders below
    images_of = (typed_path(above, typed) if labels and alike else typed,)
    named = tuple(typed_path(folder, typed) for folder in labels)
    name = "captions" if layout == "caption_files" else layout
    yield question(f"{name}_ignored", ignored, images=images_of, labels=named, layout=layout)


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
