"""Finds the role of each level of folders, column and kind of file, before a job lists all files.

Names of the first folders are looked at, as far as they tell more than their siblings; no file is opened.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from beam_pipeline.core import errors, uris
from beam_pipeline.core.archives import Entry
from beam_pipeline.core.labels import path_roles, roles, table_rows
from beam_pipeline.core.listing import filters, folders
from beam_pipeline.layouts import layout
from beam_pipeline.layouts.paths import LOOKED_AT, first_entries
from beam_pipeline.layouts.tree import MOST_IMAGES, names_in
from beam_pipeline.storage.listing import MemberFilter

_MOST_FOLDERS, _MOST_REMOTE = 64, 8  # whose names are read


@dataclass
class _Tree:
    """The folders of some roots, and the kinds of files in those that were looked at.

    Attributes:
      paths: of folders with images, or that were not looked at: a name for each level.
      files: (URI of the first file with an extension in a folder, its name, how many it has, whether it is listed).
      example: the path of an image.
      partial: True if there are folders or files that were not looked at.
    """

    paths: dict[tuple[str, ...], None] = field(default_factory=dict)
    files: list[tuple[str, str, int, bool]] = field(default_factory=list)
    example: str = ""
    partial: bool = False

    def look_at(self, root: filters.ImageRoot) -> None:
        """Adds the folders of a root, level by level."""
        rules, waiting = filters.ListingFilter(root), [""]
        most = _MOST_REMOTE if uris.is_remote(root.uri) else _MOST_FOLDERS
        for number, folder in enumerate(waiting):  # which grows
            if number >= most:
                self.partial = True
                self.paths[tuple(folder.split("/"))] = None
                continue
            names = names_in(posixpath.join(root.uri, folder))
            self.partial = self.partial or len(names.images) == MOST_IMAGES
            by_extension: dict[str, list[str]] = defaultdict(list)
            for name in (*names.images, *names.files):
                by_extension[_extension(name)].append(posixpath.join(folder, name))
            for first, *more in by_extension.values():
                uri = posixpath.join(root.uri, first)
                self._add(uri, first, 1 + len(more), listed=rules.lists(first, uri))
            below = (posixpath.join(folder, posixpath.basename(uri)) for uri in names.folders)
            waiting += [inner for inner in below if rules.can_hold(inner)]

    def look_into(self, archives: Sequence[filters.ImageRoot]) -> None:
        """Adds the folders and files of the beginnings of archives."""
        rules = {root.uri: MemberFilter(root) for root in archives}
        entries: Sequence[tuple[filters.ImageRoot, Entry]] = ()
        with suppress(errors.ConversionError):  # which the job reports
            entries = first_entries(archives)
        members: dict[tuple[str, bool, str], list[str]] = defaultdict(list)
        for root, entry in entries:
            assert root.archive
            path = root.archive.aliases(entry.name)[0]
            listed = rules[root.uri].lists(entry)
            folder = posixpath.dirname(path) if listed else ""
            members[_extension(path), listed, folder].append(path)
        for (_, listed, _), (first, *more) in members.items():
            self._add("", first, 1 + len(more), listed=listed)
        self.partial = self.partial or len(entries) >= LOOKED_AT

    def _add(self, uri: str, path: str, count: int, *, listed: bool) -> None:
        """Adds files of a kind in a folder, by the path of the first."""
        self.files.append((uri, posixpath.basename(path), count, listed))
        if listed:
            self.example = self.example or path
            self.paths[tuple(path.split("/")[:-1])] = None


def roles_of(source: layout.Source) -> tuple[roles.RoleRow, ...]:
    """The rows of the table of roles.

    Args:
      source: the images and labels; its own roles are the roles of tables' columns.
    """
    images, labels = _Tree(), _Tree()
    for root in (root for root in source.roots if not root.archive):
        images.look_at(root)
    images.look_into([root for root in source.roots if root.archive])
    for root in getattr(source.labels, "folders", ()):
        labels.look_at(root)
    of_labels, of_folders = source.roles, isinstance(source.labels, layout.FolderLabels)
    if not of_labels and (not of_folders or getattr(source.labels, "names", None)):
        of_labels = roles.label_rows(source.columns, "group" if of_folders else "label")
    return (*_segment_rows(images, source), *of_labels, *_file_rows(images, labels, source))


def understanding(source: layout.Source, why: str) -> Iterator[str]:
    """Lines for the user on the layout, the roles and all notes.

    Args:
      source: the images and labels.
      why: the reason for the layout; empty if the user named it.
    """
    yield f"Layout {source.layout}: {why or 'given by --layout'}"
    yield from roles.table_of_roles(source.roles)
    yield from (f"Note: {note}" for note in source.notes)


# --- folders --------------------------------------------------------------------------------------


def _segment_rows(tree: _Tree, source: layout.Source) -> Iterator[roles.RoleRow]:
    for level in range(max(map(len, tree.paths), default=0)):
        names = list(dict.fromkeys(path[level] for path in tree.paths if len(path) > level))
        role = _role_of_level(level, names, tree, source)
        if role == roles.SPLIT:  # beside which there may be others
            names.sort(key=lambda name: name.lower() not in folders.SPLIT_NAMES)
        row = roles.role_row(f"path segment {level + 1}", "folders", names, role)
        yield replace(row, partial=tree.partial and level > 0)


def _role_of_level(level: int, names: Sequence[str], tree: _Tree, source: layout.Source) -> str:
    labels = source.labels
    if isinstance(labels, layout.FolderLabels) and labels.names:
        match = re.fullmatch(labels.names.pattern, tree.example)
        groups = re.compile(labels.names.pattern).groupindex if match else {}
        start = len("/".join(tree.example.split("/")[:level])) + bool(level)
        inside = [name for name in groups if match and match.start(name) <= start < match.end(name)]
        return next(({"label": roles.CLASS}.get(name, name) for name in inside), roles.IGNORED)
    lower = {name.lower() for name in names}
    if isinstance(labels, layout.FolderLabels) or source.class_by_folder:
        meanings = [folders.folder_meaning("/".join((*path, "x"))) for path in tree.paths]
        with_split = sum(bool(meaning.split) for meaning in meanings)
        has_split = 2 * with_split > len(meanings)
        parts = max(map(len, tree.paths)) - has_split
        if has_split and not level:
            some_class = f", else {roles.CLASS}" if with_split < len(meanings) else ""
            return roles.SPLIT + some_class
        part = f", part {level + 1 - has_split} of {parts}" if parts > 1 else ""
        return roles.CLASS + part
    if lower <= folders.SPLIT_NAMES.keys() and not (source.tables and level):
        return roles.SPLIT
    if lower <= path_roles.IMAGES | path_roles.MASKS:
        return "images" if lower <= path_roles.IMAGES else "images and masks"
    if len(names) == 1:
        return "wrapper"
    named = not source.roles or any(r.role == roles.KEY and "/" in r.example for r in source.roles)
    deepest = getattr(labels, "level", None)  # of the folders that rows name
    role = roles.KEY if (level < deepest if deepest else named) else roles.IGNORED
    some_split = source.tables and not level and not lower.isdisjoint(folders.SPLIT_NAMES)
    return f"{roles.SPLIT}, else {role}" if some_split else role


# --- files ----------------------------------------------------------------------------------------


def _file_rows(images: _Tree, labels: _Tree, source: layout.Source) -> Iterator[roles.RoleRow]:
    """A row for each kind of file: images, files of labels, and others."""
    named = getattr(source.labels, "files", ())
    used_as = f"{getattr(source.labels, 'noun', 'label')}s"
    with_images = isinstance(source.labels, layout.ContainerLabels)
    formats = {table.uri: _format_of(table) for table in source.tables}
    by_kind: dict[tuple[str, str], list[str]] = defaultdict(list)
    for uri in named:
        by_kind[_extension(uri), formats.get(uri, "files")].append(posixpath.basename(uri))
    for (subject, kind), names in by_kind.items():
        yield roles.role_row(subject, kind, names, "images and labels" if with_images else used_as)
    rows: dict[tuple[str, str], roles.RoleRow] = {}
    for tree in (images, labels):
        for uri, name, count, listed in tree.files:
            if uri in named or (tree is labels and not listed):
                continue
            role = roles.IGNORED if not listed else "images" if tree is images else used_as
            key = _extension(name), role
            row = rows.get(key, roles.RoleRow(key[0], "files", 0, name, role))
            rows[key] = replace(row, distinct=row.distinct + count, partial=tree.partial)
    used = {subject for subject, role in rows if role != roles.IGNORED}
    yield from (
        row for row in rows.values() if row.role != roles.IGNORED or row.subject not in used
    )


def _extension(name: str) -> str:
    return f"{posixpath.splitext(name)[1].lower() or 'other'} files"


def _format_of(table: table_rows.LabelTable) -> str:
    separator = "tab" if table.delimiter == "\t" else repr(table.delimiter)
    cells = f" with {separator} between cells" if table.delimiter else ""
    encoding = table_rows.ENCODING_NAMES.get(table.encoding, table.encoding)
    return table.format.value + cells + (f", in {encoding}" if encoding else "")
