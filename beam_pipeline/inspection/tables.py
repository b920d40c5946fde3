"""The tables that `inspect` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from beam_pipeline.core.inspection.statistics import MOST_TEXTS, FeatureFigures, Figures
from beam_pipeline.core.inspection.values import listed
from beam_pipeline.core.text import counted
from beam_pipeline.inspection.sources import Source
from beam_pipeline.progress_bar import human_size

_FEW_TEXTS = 4
_NO_SPLIT = "-"


class Table(NamedTuple):
    """A table.

    Attributes:
      header: the names of the columns.
      rows: their cells.
      right: for each column `>` to align it at the right.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: str


def title(source: Source) -> str:
    """One line about the whole: what it is, and how large."""
    size = human_size(sum(file.bytes for file in source.files))
    if source.folder:
        splits = source.manifest["splits"]
        examples = sum(splits[split]["examples"] for split in source.splits)
        shards = counted(len(source.files), "shard")
        return f"{source.name}: {counted(examples, 'example')} in {shards}, {size}"
    return f"{source.name}: {counted(len(source.files), 'file')}, {size}"


def split_rows(source: Source, figures: Figures, *, filtered: bool, whole: bool) -> Table:
    """A row for each split.

    Args:
      source: the files.
      figures: of the examples that were asked for.
      filtered: some examples were not asked for.
      whole: every example was read.
    """
    counts = source.folder or whole or filtered
    rows = []
    for split in source.splits:
        found = [file for file in source.files if file.split == split]
        examples = figures.examples[split]
        if source.folder and not filtered:
            examples = source.manifest["splits"][split]["examples"]
        size = human_size(sum(file.bytes for file in found))
        rows.append(
            (split or _NO_SPLIT, *([str(examples)] if counts else []), str(len(found)), size)
        )
    heading = "found" if filtered else "examples"
    return Table(("split", *([heading] if counts else []), "files", "size"), rows, " >>>")


def class_rows(source: Source, figures: Figures, *, filtered: bool) -> Table:
    """A row for each class: those of the manifest in order of id, others by their number of examples.

    Args:
      source: the files.
      figures: of the examples that were asked for.
      filtered: some examples were not asked for.
    """
    splits = [split for split in source.splits if split]
    columns = splits if len(splits) > 1 else []
    of_manifest = source.manifest.get("classes") or ()
    if of_manifest and "splits" in of_manifest[0] and not filtered:
        counted_as = "objects" if "objects" in of_manifest[0] else "examples"
        rows = [
            (
                str(one["id"]),
                one["name"],
                *(str(one["splits"].get(split, 0)) for split in columns),
                str(sum(one["splits"].get(split, 0) for split in splits)),
            )
            for one in of_manifest
        ]
        return Table(("id", "class", *columns, counted_as), rows, "> " + ">" * (len(columns) + 1))
    ordered = sorted(
        figures.classes.items(),
        key=lambda item: (-item[1].total(), item[0].zfill(20) if item[0].isdecimal() else item[0]),
    )
    found = [
        (name, *(str(counts[split]) for split in columns), str(counts.total()))
        for name, counts in ordered
    ]
    return Table(("class", *columns, "examples"), found, " " + ">" * (len(columns) + 1))


def feature_rows(figures: Figures) -> Table:
    """A row for each feature."""
    examples = figures.examples.total()
    rows = [
        (
            key,
            " or ".join(sorted(kind or "none" for kind in found.kinds)),
            _share(found.present, examples),
            _span(found.shortest, found.longest),
            _range(found),
        )
        for key, found in sorted(figures.features.items())
    ]
    return Table(("feature", "kind", "present", "values", "range"), rows, "  >> ")


def _share(part: int, whole: int) -> str:
    """A percentage that is 100 for all alone, and 0 for none alone."""
    if part in (0, whole):
        return f"{100 if part else 0} %"
    return f"{min(99.9, max(0.1, 100 * part / whole)):.1f} %"


def _span(low: float, high: float) -> str:
    return _figure(low) if low == high else f"{_figure(low)} to {_figure(high)}"


def _figure(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:.4g}"


def _range(found: FeatureFigures) -> str:
    """The least and greatest number, or the texts, or the lengths of other bytes."""
    if not found.values:
        return f"{found.not_finite} not finite" if found.not_finite else ""
    if "bytes" not in found.kinds:
        mean = "" if found.low == found.high else f", mean {found.mean:.4g}"
        odd = f", {found.not_finite} not finite" if found.not_finite else ""
        return _span(found.low, found.high) + mean + odd
    if found.texts is None:
        sizes = [human_size(int(size)) for size in (found.low, found.high, found.mean)]
        if found.low == found.high:
            return sizes[0]
        return f"{sizes[0]} to {sizes[1]}, mean {sizes[2]}"
    if len(found.texts) <= _FEW_TEXTS:
        return listed(sorted(text.decode() for text in found.texts), _FEW_TEXTS)
    number = f"more than {MOST_TEXTS}" if len(found.texts) > MOST_TEXTS else str(len(found.texts))
    return f"{number} different, such as {found.text!r}"
