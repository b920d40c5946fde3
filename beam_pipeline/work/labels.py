"""Reads the rows of label files, and gives images their labels and splits, as work for any worker.

Nothing here imports Beam, so that a process that does nothing else starts in a tenth of a second.
"""

from __future__ import annotations

import functools
import hashlib
import io
import itertools
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, BinaryIO

from beam_pipeline.core import errors, packing, references
from beam_pipeline.core.dataset.splits import SplitAssigner
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, row_dead_letter
from beam_pipeline.core.labels import classes, join, matching, name_pattern, samples, schema
from beam_pipeline.core.listing import cuts, filters
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts import layout, named_files
from beam_pipeline.storage import files, read_ahead
from beam_pipeline.work import file_parts
from beam_pipeline.work.listing import list_group
from beam_pipeline.work.outcome import Division, Outcome, divide

_Row = references.LabelRow | DeadLetter | packing.LabelBatch


@dataclass(frozen=True)
class RowsTask:
    """Files, or parts of files, with labels.

    Attributes:
      parts: the files.
      reader: reads them.
      unnamed: makes the rows of files that cannot be read; None for dead letters.
    """

    parts: Sequence[file_parts.FilePart]
    reader: layout.LabelReader
    unnamed: samples.UnnamedImages | None = None

    def run(self) -> Outcome:
        """Reads the rows."""
        packed: list[packing.LabelBatch] = []
        for outcome in self.read():
            packed += [rows.kept_packed() for rows in outcome.main]
        return replace(outcome, main=packed)

    def read(self) -> Iterator[Outcome]:
        """Yields the rows in batches, and last their counts and those that are broken."""
        tally, dead_letters, rows = Tally(), packing.DeadLetterBatch(), packing.LabelBatch()
        for row in self._read(tally):
            tally.label_rows += 1
            if isinstance(row, DeadLetter):
                dead_letters.append(row)
            elif isinstance(row, packing.LabelBatch):
                tally.label_rows += len(row) - 1
                yield Outcome([rows, row] if rows else [row])
                rows = packing.LabelBatch()
            else:
                rows.append(row)
            if len(rows) >= packing.BATCH_SIZE:
                yield Outcome([rows])
                rows = packing.LabelBatch()
        tally.orphan_rows = len(dead_letters)
        tally.add_dead_letters(dead_letters)
        yield Outcome([rows] if rows else [], tally, dead_letters)

    def _read(self, tally: Tally) -> Iterator[_Row]:
        several = len(self.parts) > 1 and is_remote(self.parts[0].uri)
        for rows in self._read_at_once() if several else map(self._read_part, self.parts):
            try:
                yield from rows
            except errors.LabelTableError as error:
                tally.refusals.append(errors.Refusal.from_error(error))

    def _read_at_once(self) -> Iterator[Iterator[_Row]]:
        """Yields the rows of each file in turn; reads small files of a bucket in threads."""

        def rows_of(future: Future[list[_Row]]) -> Iterator[_Row]:
            yield from future.result()

        threads = ThreadPoolExecutor(read_ahead.REMOTE_READS, thread_name_prefix="labels")
        try:
            reads = [threads.submit(list, self._read_part(part)) for part in self.parts]
            yield from map(rows_of, reads)
        finally:
            threads.shutdown(cancel_futures=True)

    def _read_part(self, part: file_parts.FilePart) -> Iterator[_Row]:
        reader, lines = self.reader, part.range
        try:
            file = _opened(part)
        except OSError as error:
            uri, fault = part.uri, f"cannot be read: {error.strerror or error}"
            letter = row_dead_letter(Stage.LABELS, uri, Reason.BAD_ROW, fault, uri, 0)
            yield self.unnamed.unread(uri, fault) if self.unnamed else letter
            return
        with file:
            if lines is None or not isinstance(reader, layout.PartReader):
                yield from reader.read(file, part.uri)
            else:
                yield from reader.read_part(file, part.uri, lines)


def _opened(part: file_parts.FilePart) -> BinaryIO:
    """The lines of a part; or the file, at the part's first line. Raises OSError."""
    lines = part.range
    if isinstance(lines, cuts.LineRange) and lines.read_at_once:
        return io.BytesIO(file_parts.read_lines(part.uri, lines))
    file = files.open_input(part.uri)
    file.seek(lines.begin if isinstance(lines, cuts.LineRange) else 0)
    return file


_MOST_SAMPLES = 1 << 14  # of a batch


@dataclass(frozen=True)
class Labelling:
    """The end of each way to a label: counts joined samples and gives them their splits.

    Attributes:
      splits: gives each sample its split.
      columns: of a sample's labels.
      sample_filter: leaves out samples; None keeps all.
      keep: makes samples of images without labels; None makes them dead letters.
      roots: the folders and archives of images, which files in cells may be in.
      crops: makes a sample of each object of an image; None for one of each image.
    """

    splits: SplitAssigner
    columns: Sequence[schema.Column] = schema.CLASS_FOLDER_COLUMNS
    sample_filter: classes.SampleFilters | None = None
    keep: samples.KeepUnlabelled | None = None
    roots: Sequence[filters.ImageRoot] = ()
    crops: samples.Crops | None = None

    @cached_property
    def class_column(self) -> int | None:
        """Index of the class among a sample's labels, or None."""
        return schema.class_column(self.columns)

    @cached_property
    def files(self) -> Sequence[int]:
        """The indices of the labels that are files."""
        return schema.file_columns(self.columns)

    @property
    def takes_columns(self) -> bool:
        """True if nothing depends on a sample but its split, and that on its key alone."""
        one_by_one = self.sample_filter or self.keep or self.files or self.splits.group_by
        return not (one_by_one or self.crops)

    def of(self, joined: join.Joined, listed: Tally | None = None) -> Outcome:
        """The outcome of joined samples, with the counts of the listing of their images."""
        refs = [] if self.takes_columns else self._one_by_one(joined)
        columns = joined.all_columns() if self.takes_columns else list(zip(*refs, strict=True))
        dead_letters = packing.DeadLetterBatch(joined.dead_letters)
        tally = Tally(
            listed=-joined.files_beside,
            orphan_rows=joined.orphan_rows,
            repeated_rows=joined.repeated_rows,
            further_samples=joined.further_samples,
        )
        tally.add(listed or Tally())
        tally.add_dead_letters(dead_letters)
        if not columns:
            return Outcome([], tally, dead_letters)
        named = dict(zip(references.SampleRef._fields, columns, strict=True))
        if self.takes_columns:
            named["split"] = self.splits.splits_of(named["key"], named["split"])
        if not self.splits.stratified:  # else `AssignSplits` counts them in their splits
            sizes = [references.bytes_of(ref, self.files) for ref in refs] or named["size"]
            labels = named["labels"] if self.class_column is not None else None
            tally.add_columns(sizes, named["split"], labels, self.class_column or 0)
        if self.keep:
            tally.add_unlabelled([ref.key for ref in refs if samples.is_unlabelled(ref)])
        batches = [packing.SampleBatch(refs)] if refs else _batches([*named.values()])
        return Outcome(batches, tally, dead_letters)

    def _one_by_one(self, joined: join.Joined) -> Sequence[references.SampleRef]:
        """The samples that remain, with their splits; adds dead letters for the others."""
        refs = joined.all_samples()
        if self.crops:
            joined.samples = []
            objects = itertools.chain.from_iterable(map(self.crops.of_image, refs))
            joined.add_each(objects, images=len(refs))
            refs = joined.samples
        if self.sample_filter:
            refs, left_out = self.sample_filter.apply(refs)
            joined.dead_letters += left_out
        if schema.cell_files(self.columns):
            refs, left_out = named_files.CellFiles(self.columns, self.roots).locate(refs)
            joined.dead_letters += left_out
        refs, without_group = self.splits.assign(refs)
        joined.dead_letters += without_group
        return refs


def _batches(columns: packing.Columns) -> list[packing.SampleBatch]:
    """Samples by columns, in batches."""
    starts = range(0, len(columns[0]), _MOST_SAMPLES)
    parts = ([column[start : start + _MOST_SAMPLES] for column in columns] for start in starts)
    return [*map(packing.SampleBatch.of_columns, parts)]


_MOST_UNPACKED = 24 << 20
"""Bytes of references before compression that are worked on together: some 250,000 images with rows."""
_DIVIDED_AT_ONCE = 4 << 20  # bytes before compression


@dataclass(frozen=True)
class _Portions:
    """Divides the images and rows of a bucket again, by other bits of the same hash.

    Attributes:
      parts: the number of portions.
      level: as of `NameDivision`.
    """

    parts: int
    level: int | None = None

    def numbers(self, columns: packing.Columns) -> Sequence[int]:
        """The portion of each image or row."""
        hashes = matching.NameDivision(1 << 32, self.level).numbers(columns)
        return [(number * 0x9E3779B1 & 0xFFFFFFFF) * self.parts >> 32 for number in hashes]


def in_portions(
    work: Callable[..., Outcome], *kinds: Sequence[bytes], level: int | None = None
) -> Outcome:
    """The outcome of a bucket, however large: portions that share no name are worked on one by one.

    Args:
      work: `LabelImages` or `JoinRows`, which makes the outcome of these kinds of references.
      kinds: packed images and rows, each in parts.
      level: how deep the folders are that rows name; None if they name images.
    """
    size = sum(packing.unpacked_size(part) for parts in kinds for part in parts)
    portions = -(-size // _MOST_UNPACKED)
    if portions < 2:
        return work(*kinds)
    levels = zip(kinds, (level, level and 0, None), strict=False)
    in_parts = [_divided(parts, _Portions(portions, deep)) for parts, deep in levels]
    main: list[packing.SampleBatch] = []
    tally, dead_letters = Tally(), packing.DeadLetterBatch()
    for number in range(portions):
        outcome = work(*(parts.pop(number, []) for parts in in_parts))
        main += (batch.kept_packed() for batch in outcome.main)
        dead_letters.extend(outcome.dead_letters)
        if outcome.tally:
            tally.add(outcome.tally)
    return Outcome(main, tally, dead_letters)


def _divided(parts: Sequence[bytes], division: Division) -> dict[int, list[bytes]]:
    """Part -> its packed references; some are unpacked at once."""
    divided: dict[int, list[bytes]] = defaultdict(list)
    some: list[bytes] = []
    for index, part in enumerate(parts, 1):
        some.append(part)
        if index == len(parts) or sum(map(packing.unpacked_size, some)) >= _DIVIDED_AT_ONCE:
            for number, packed in divide(some, division).main:
                divided[number].append(packed)
            some = []
    return divided


def _images(
    parts: Sequence[bytes], labelling: Labelling, inventoried: bool
) -> tuple[packing.Columns, Tally | None]:
    """The columns of images, and their counts where they are listed only now."""
    return (
        list_group(parts, labelling.roots) if inventoried else (packing.join_columns(parts), None)
    )


@dataclass(frozen=True)
class LabelImages:
    """Labels images whose own paths contain their labels.

    Attributes:
      names: how names give labels; None if folders give the class.
      labelling: what happens to them then.
      may_repeat: whether two images may have the same key.
      inventoried: images are rows of inventories, to be listed here.
    """

    names: name_pattern.NamePattern | None
    labelling: Labelling
    may_repeat: bool = False
    inventoried: bool = False

    def __call__(self, parts: Sequence[bytes]) -> Outcome:
        """The outcome of images, packed."""
        keep, dead_letters = self.labelling.keep, list[DeadLetter]()
        images, listed = _images(parts, self.labelling, self.inventoried)
        if images and self.may_repeat:
            refs = packing.items_of(references.ImageRef, images)
            unique, dead_letters = join.split_duplicates(refs)
            images = list(zip(*unique, strict=True)) if dead_letters else images
        if not images:
            joined = join.Joined()
        elif self.names:
            joined = self.names.label(packing.items_of(references.ImageRef, images), keep)
        else:
            joined = join.label_by_folder(images, keep)
        joined.dead_letters += dead_letters
        return self.labelling.of(joined, listed)


def row_merger(source: layout.Source, columns: Sequence[schema.Column]) -> samples.RowMerger:
    """Makes one row of all that name the same image; see `FileLabels` and `ListedLabels`.

    Args:
      source: where the labels come from.
      columns: of the rows' values.
    """
    labels = source.labels
    merges = isinstance(labels, layout.FileLabels) and labels.merge_rows
    return samples.RowMerger(
        repeated=tuple(merges and column.repeated for column in columns),
        unique=tuple(merges and schema.is_list_of_classes(column) for column in columns),
        unnamed=labels.unnamed if isinstance(labels, layout.FileLabels) else None,
        complete=labels.noun if isinstance(labels, layout.ListedLabels) else "",
        by_folder=source.class_by_folder,
        samples=labels.samples if isinstance(labels, layout.FileLabels) else None,
        imageless=labels.imageless if isinstance(labels, layout.FileLabels) else None,
        level=labels.level if isinstance(labels, layout.FileLabels) else None,
    )


@dataclass(frozen=True)
class JoinRows:
    """Joins the images and rows of a bucket.

    Attributes:
      merger: makes one row of all that name the same image.
      labelling: what happens to the samples.
      inventoried: images are rows of inventories, to be listed here.
    """

    merger: samples.RowMerger
    labelling: Labelling
    inventoried: bool = False

    def __call__(
        self, parts: Sequence[bytes], rows: Sequence[bytes], named: Sequence[bytes] = ()
    ) -> Outcome:
        """The outcome of images and rows, packed, and of rows of files that are read beside an image."""
        beside = {name for part in named for name in packing.unpack_columns(part)[0]}
        keep = self.labelling.keep
        images, listed = _images(parts, self.labelling, self.inventoried)
        joined = join.join_bucket(images, packing.join_columns(rows), self.merger, keep, beside)
        return self.labelling.of(joined, listed)


@dataclass(frozen=True)
class TravellingExclusion(classes.Exclusion):
    """Keys of samples to leave out, as they travel: a million of them must not be in a job's graph.

    Of a file in a bucket, its name and digest travel, and each process reads it once. A file that only the
    launcher sees travels deflated.

    Attributes:
      digest: of the file.
      deflated: the file; empty if workers can read it.
    """

    digest: bytes = b""
    deflated: bytes = b""

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self.uri, self.digest, self.deflated, self.files, self.rows)


def read_exclusion(
    data: bytes, uri: str, label_files: tuple[int, ...] = (), rows: bool = False
) -> classes.Exclusion:
    """Reads keys as `Exclusion.parse` does, from the bytes of a file."""
    lines, digest = classes.Exclusion.parse(data, uri).lines, hashlib.sha256(data).digest()
    deflated = b"" if is_remote(uri) else zlib.compress(data)
    return TravellingExclusion(uri, lines, label_files, rows, digest, deflated)


@functools.lru_cache(maxsize=1)
def _arrived(
    uri: str, digest: bytes, deflated: bytes, label_files: tuple[int, ...], rows: bool
) -> classes.Exclusion:
    data = zlib.decompress(deflated) if deflated else files.read_bytes(uri)
    if hashlib.sha256(data).digest() != digest:
        raise errors.ChangedInputsError(
            f"--exclude: {uri} has changed since the job began; start it again"
        )
    return read_exclusion(data, uri, label_files, rows)
