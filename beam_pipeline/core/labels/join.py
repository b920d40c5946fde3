"""Matches label rows with images, one bucket at a time, and never by a guess.

A row names its image in one of these ways. They are tried in this order, and the first that any image
answers to decides. For the image `photos/cat/a.b.jpg`, listed below `photos`, and a label file
`photos/labels.csv`:

| order | a name | example |
|---|---|---|
| 1 | full URI, path below the root, or path from the label file's folder | `cat/a.b.jpg` |
| 2 | the same without extension | `cat/a.b` |
| 3 | file name | `a.b.jpg` |
| 4 | file name without extension | `a.b` |

In an archive, paths in the archive come after 1, without extension after 2: the path itself, that behind
the archive's name without extension, and that below its first folder.

So a row `a.jpg` means the image `a.jpg` in the root even if there is a `cat/a.jpg` (1 before 3); with
`cat/a.jpg` and `dog/a.jpg` alone, both answer to 3, and the row is ambiguous.

All names of an image share the part of the file name before the first dot, so images and rows that could match are brought
together by it, here `a` (`matching.bucket_of`), one entry each, however many names an image has.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, image_dead_letter
from beam_pipeline.core.labels import matching
from beam_pipeline.core.labels.samples import AGREE, KeepUnlabelled, RowMerger, labelled
from beam_pipeline.core.listing.folders import first_folder_split, folder_meaning, without_class
from beam_pipeline.core.packing import Columns, Same, chosen_rows, items_of, put_together
from beam_pipeline.core.references import DEFAULT_SPLIT, ImageRef, LabelRow, SampleRef, Size

_KEY, _ALIASES = map(ImageRef._fields.index, ("key", "aliases"))
_NAME, _VALUES, _SPLIT, _FILE, _LINE, _PROBLEM, _ROW_SIZE = range(len(LabelRow._fields))

_LEAST_BUCKETS = 64
_BUCKETS_FOR_ANY = 1024  # where the size of the label files is not known
_BUCKET_BYTES = 2_000_000  # of label files: some 50,000 rows, and as many images
_LARGE_BYTES = 20_000_000  # of label files


@dataclass
class Joined:
    """The outcome of one bucket.

    Attributes:
      samples: images with their labels, joined one by one.
      dead_letters: images and rows left out.
      orphan_rows: how many of the dead letters are rows without an image of their own.
      repeated_rows: rows that said again what another said.
      further_samples: samples and dead letters beyond those of images and orphan rows.
      columns: columns of the `SampleRef`s that were joined at once; none if there are none.
      files_beside: images that are no samples, as they are files of others.
      keep: makes samples of images without labels; None makes them dead letters.
    """

    samples: list[SampleRef] = field(default_factory=list)
    dead_letters: list[DeadLetter] = field(default_factory=list)
    orphan_rows: int = 0
    repeated_rows: int = 0
    further_samples: int = 0
    columns: Columns = ()
    files_beside: int = 0
    keep: KeepUnlabelled | None = field(default=None, compare=False)

    def add(self, image: ImageRef, rows: Sequence[LabelRow], merger: RowMerger) -> None:
        """Adds the result of an image and the rows that mean it, in any order."""
        if merger.complete and all(row.values[0] is None for row in rows):
            rows = ()  # files that are of no use without the first
        if not rows and merger.unnamed:
            rows = [merger.unnamed.row(image)]
        split = first_folder_split(image.path) or DEFAULT_SPLIT
        if not rows:
            source = f"{merger.complete} is for" if merger.complete else "label row names"
            if self.keep and merger.samples:
                image = merger.samples.only(image)
            self.add_unlabelled(image, split, f"no {source} this image")
            return
        rows = _in_order(rows) if len(rows) > 1 else rows
        if merger.samples:
            self.add_each(merger.samples.of_image(image, rows, split), images=1)
            return
        distinct = merger.distinct(rows) if len(rows) > 1 else rows
        self.repeated_rows += len(rows) - len(distinct)
        claims: dict[Size, LabelRow] = {}  # the first row of each size; many tools write 0
        for row in rows:
            if row.size and min(row.size) > 0:
                claims.setdefault(row.size, row)
        outcome = _sample(image, split, distinct, merger, claims)
        if merger.by_folder and isinstance(outcome, SampleRef):
            outcome = self._with_class_of_folder(image, outcome)
        self.add_each([outcome], images=1)

    def add_folders(self, images: Columns, rows: Columns, merger: RowMerger) -> None:
        """Adds the images of a bucket, each with the rows that name its folder, by as much of its path as is unique."""
        refs, letters = split_duplicates(items_of(ImageRef, images))
        self.dead_letters += letters
        folders: dict[Sequence[str], list[ImageRef]] = defaultdict(list)
        level = merger.level or 0
        for ref in refs:
            *above, below = ref.key.split("/", level)
            path = ref.uri if ref.uri.endswith(ref.key) else ref.key
            steps = matching.folder_steps(path.removesuffix(below)) if len(above) == level else ()
            folders[tuple(steps)].append(ref)
        named = [tuple(matching.folder_steps(name)) for name in (rows[_NAME] if rows else ())]
        by_tail: dict[Sequence[str], list[Sequence[str]]] = defaultdict(list)
        for steps, length in product(folders, set(map(len, named))):
            if length <= len(steps):
                by_tail[steps[-length:]].append(steps)
        rows_of: dict[Sequence[str], list[LabelRow]] = defaultdict(list)
        for index, name in enumerate(named):
            row, candidates = _row(rows, index), by_tail.get(name, ())
            if len(candidates) == 1:
                rows_of[candidates[0]].append(row)
                continue
            self.orphan_rows += 1
            self.dead_letters.append(matching.no_folder(row, candidates, level))
        for steps, of_folder in folders.items():
            own = rows_of[steps]
            if not merger.samples:
                own = [*merger.distinct(_in_order(own))]
                self.repeated_rows += len(rows_of[steps]) - len(own)
            for ref in of_folder:
                self.add(ref, own, merger)

    def add_each(self, outcomes: Iterable[SampleRef | DeadLetter], *, images: int) -> None:
        """Adds the samples and dead letters that several rows or objects of some images became."""
        self.further_samples -= images
        for outcome in outcomes:
            self.further_samples += 1
            if isinstance(outcome, SampleRef):
                self.samples.append(self.keep.marked(outcome) if self.keep else outcome)
            else:
                self.dead_letters.append(outcome)

    def _with_class_of_folder(self, image: ImageRef, sample: SampleRef) -> SampleRef | DeadLetter:
        """The sample with its folder as the class; a dead letter if it has none and is not kept."""
        meaning = folder_meaning(image.path)
        if self.keep:
            meaning = without_class(meaning)
        elif not meaning.class_name:
            message = (
                "is in a list without labels, and is in no class folder; move it into one, or give the "
                "list a second column with labels"
            )
            return _letter(image, Reason.UNLABELLED, message)
        return sample._replace(labels=(meaning.class_name or None, *sample.labels[1:]))

    def all_columns(self) -> Columns:
        """The columns of all samples; none if there are none."""
        by_one: Columns = list(zip(*self.samples, strict=True))
        return put_together([columns for columns in (self.columns, by_one) if columns])

    def all_samples(self) -> list[SampleRef]:
        """All samples."""
        return [*self.samples, *items_of(SampleRef, self.columns)]

    def add_unlabelled(self, image: ImageRef, split: str, message: str) -> None:
        """Adds an image without labels: a sample of a split if it is kept, else a dead letter."""
        if self.keep:
            self.samples.append(self.keep.sample(image, split))
        else:
            self.dead_letters.append(_letter(image, Reason.UNLABELLED, message))


def buckets_for(label_bytes: int | None) -> int:
    """In how many buckets images and rows are joined; each is held in memory by the one that joins it.

    Args:
      label_bytes: of all label files; None if that is not known before they are listed.
    """
    if label_bytes is None:
        return _BUCKETS_FOR_ANY
    return max(_LEAST_BUCKETS, label_bytes // _BUCKET_BYTES)


def are_large(label_bytes: int | None) -> bool:
    """Tells whether parts of label files are worth sending to several workers."""
    return label_bytes is not None and label_bytes >= _LARGE_BYTES


def label_by_folder(images: Columns, keep: KeepUnlabelled | None = None) -> Joined:
    """Takes the class, and the split where there is one, from each image's folder.

    Args:
      images: columns of `ImageRef`s with keys that are theirs alone.
      keep: makes samples of images in no class folder; None makes them dead letters.
    """
    folders = [path[: path.rfind("/") + 1] for path in _paths(images)]
    meanings = {folder: folder_meaning(folder) for folder in set(folders)}
    if keep:
        meanings = {folder: without_class(meaning) for folder, meaning in meanings.items()}
    splits = {folder: meaning.split or DEFAULT_SPLIT for folder, meaning in meanings.items()}
    joined = Joined(keep=keep)
    unlabelled = [row for row, folder in enumerate(folders) if not meanings[folder].class_name]
    message = "is in no class folder; move it into one, or give --labels"
    for row in unlabelled:
        joined.add_unlabelled(_image(images, row), splits[folders[row]], message)
    if unlabelled:
        rows = [row for row, folder in enumerate(folders) if meanings[folder].class_name]
        images = chosen_rows(images, rows) if rows else ()
        folders = [folders[row] for row in rows]
    mark = (1,) if keep else ()
    labels = {folder: (meaning.class_name, *mark) for folder, meaning in meanings.items()}
    if folders:
        joined.columns = _samples(
            images, split=[splits[f] for f in folders], labels=[labels[f] for f in folders]
        )
    return joined


def split_duplicates(images: Iterable[ImageRef]) -> tuple[list[ImageRef], list[DeadLetter]]:
    """Images whose key is theirs alone, and dead letters for the others."""
    images = list(images)
    uris_of: dict[str, list[str]] = defaultdict(list)
    for image in images:
        uris_of[image.key].append(image.uri)
    if len(uris_of) == len(images):  # always, below a single root
        return images, []
    dead_letters = []
    for image in images:
        others = sorted(uris_of[image.key])
        others.remove(image.uri)
        if others:
            message = (
                f"has the same path below its root as {', '.join(others)}; rename one of them, or give --images a "
                "folder above both"
            )
            if image.aliases:
                message = f"its archive contains this path {len(others) + 1} times; pack it again, with one"
            dead_letters.append(_letter(image, Reason.DUPLICATE_KEY, message))
    return [image for image in images if len(uris_of[image.key]) == 1], dead_letters


def _letter(image: ImageRef, reason: Reason, message: str) -> DeadLetter:
    return image_dead_letter(Stage.JOIN, image.key, image.uri, reason, message)


def _in_order(rows: Sequence[LabelRow]) -> Sequence[LabelRow]:
    """Rows as their files have them; in a file without lines, by their content."""
    return sorted(
        rows,
        key=lambda row: (
            *(row.file, row.line, row.split, row.problem),
            *(repr(row.values), row.size or ()),
        ),
    )


def join_bucket(
    images: Columns,
    rows: Columns,
    merger: RowMerger = AGREE,
    keep: KeepUnlabelled | None = None,
    beside: AbstractSet[str] = frozenset(),
) -> Joined:
    """Joins the images and rows of one bucket; the result does not depend on their order.

    Rows that name an image of their own by its key, as most do, are joined at once, by columns.

    Args:
      images: columns of the `ImageRef`s of the bucket.
      rows: columns of its `LabelRow`s.
      merger: makes one row of all that name the same image.
      keep: makes samples of images without a row; None makes them dead letters.
      beside: paths of files that are read beside the image of a row.
    """
    joined = Joined(keep=keep)
    if merger.imageless and rows:
        imageless = merger.imageless
        lone = [row for row, name in enumerate(rows[_NAME]) if imageless.has_named(name)]
        outcomes = imageless.without_images(_row(rows, row) for row in lone)
        joined.add_each(outcomes, images=0)
        named = sorted(set(range(len(rows[_NAME]))).difference(lone))
        rows = chosen_rows(rows, named) if named else ()
    if merger.level:
        joined.add_folders(images, rows, merger)
        return joined
    keys = images[_KEY] if images else ()
    index_of = dict(zip(keys, range(len(keys)), strict=True))
    unusable: set[int] = set()
    if len(index_of) < len(keys):
        joined.dead_letters = split_duplicates(items_of(ImageRef, images))[1]
        repeated = {letter.key for letter in joined.dead_letters}
        unusable = {index for index, key in enumerate(keys) if key in repeated}
    meant, hesitant = _meant(images, rows, index_of, unusable, joined)
    bulk: Sequence[int] = ()  # rows that are the only ones of their images, and sound
    rows_of: dict[int, list[int]] = defaultdict(list)
    if not (keep or merger.complete or merger.by_folder or any(merger.unique) or merger.samples):
        bulk = _single_rows(meant, rows[_PROBLEM] if rows else ())
    for row in sorted(set(range(len(meant))).difference(bulk)):
        rows_of[meant[row]].append(row)
    if bulk:
        indices = [meant[row] for row in bulk] if len(bulk) < len(meant) else meant
        joined.columns = _at_once(images, rows, indices, bulk, merger)
        unusable.update(indices)
    if beside:
        unnamed = set(range(len(keys))).difference(unusable, rows_of)
        refs = ((index, _image(images, index)) for index in unnamed)
        files = {i for i, ref in refs if beside & {ref.key, ref.uri, *ref.aliases[:2]}}
        joined.files_beside = len(files)
        unusable |= files
    named_only = replace(merger, unnamed=None)
    for index in sorted(set(range(len(keys))).difference(unusable)):
        own = [_row(rows, row) for row in rows_of.get(index, ())]
        joined.add(_image(images, index), own, named_only if index in hesitant else merger)
    return joined


def _single_rows(meant: Sequence[int], problems: Sequence[str]) -> Sequence[int]:
    """The rows without a problem that alone mean their image."""
    if meant and len(set(meant)) == len(meant) and -1 not in meant and not _any(problems):
        return range(len(meant))
    counts = {**Counter(meant), -1: 0}
    return [row for row, i in enumerate(meant) if counts[i] == 1 and not problems[row]]


def _meant(
    images: Columns, rows: Columns, index_of: Mapping[str, int], unusable: set[int], joined: Joined
) -> tuple[Sequence[int], set[int]]:
    """The index of the image that each row names, or -1; and images that such a row may mean.

    Adds a dead letter for each row that names no image of its own.
    """
    if not rows:
        return (), set()
    names, hesitant = rows[_NAME], set[int]()
    exact = matching.are_exact(names) and "".join(index_of).isascii()
    meant = [index_of.get(name, -1) for name in names] if exact else [-1] * len(names)
    open_rows = [row for row, index in enumerate(meant) if index < 0 or index in unusable]
    if not open_rows:
        return meant, hesitant
    lookup = matching.ImageNames([*items_of(ImageRef, images)])
    for number in open_rows:
        row = _row(rows, number)
        candidates = lookup.find(row)
        indices = {index_of[image.key] for image in candidates}
        meant[number] = -1
        if len(candidates) == 1 and not indices & unusable:
            (meant[number],) = indices
            continue
        joined.orphan_rows += 1
        joined.dead_letters.append(matching.orphan(row, candidates, lookup))
        hesitant |= indices
    return meant, hesitant


def _at_once(
    images: Columns,
    rows: Columns,
    indices: Sequence[int],
    numbers: Sequence[int],
    merger: RowMerger,
) -> Columns:
    """The columns of samples of images, each with the only row that names it."""
    images = chosen_rows(images, indices)
    if len(numbers) < len(rows[_NAME]):
        rows = chosen_rows(rows, numbers)
    sizes: Sequence[Any] = Same(None, len(indices))
    if _any(rows[_ROW_SIZE]):
        sizes = [size if size and min(size) > 0 else None for size in rows[_ROW_SIZE]]
    return _samples(
        images,
        split=_row_splits(_paths(images), rows[_SPLIT]),
        labels=rows[_VALUES],
        origin=rows[_FILE],
        claimed_size=sizes,
    )


def _paths(images: Columns) -> Sequence[str]:
    """The path of each image that gives its class and split."""
    if not _any(images[_ALIASES]):
        return images[_KEY]
    return [a[0] if a else key for key, a in zip(images[_KEY], images[_ALIASES], strict=True)]


def _any(column: Sequence[Any]) -> bool:
    """True if a value tells something: most columns contain the same empty one everywhere."""
    return column.count(column[0]) != len(column) or bool(column[0])


def _row_splits(paths: Sequence[str], splits: Sequence[str]) -> Sequence[str]:
    """The split that each row states, or the first folder, or else the default one."""
    folders = {path[: path.find("/")] for path in paths if "/" in path}
    of_folder = {folder: first_folder_split(f"{folder}/") or DEFAULT_SPLIT for folder in folders}
    if not _any(splits) and set(of_folder.values()) <= {DEFAULT_SPLIT}:
        return Same(DEFAULT_SPLIT, len(paths))
    return [
        split or of_folder.get(path.partition("/")[0] if "/" in path else "", DEFAULT_SPLIT)
        for path, split in zip(paths, splits, strict=True)
    ]


def _samples(images: Columns, **columns: Sequence[Any]) -> Columns:
    """The columns of `SampleRef`s; those that are given nowhere have their defaults."""
    count = len(columns["split"])
    given = dict(zip(ImageRef._fields, images, strict=True)) | columns
    defaults = SampleRef._field_defaults
    return [
        given[name] if name in given else Same(defaults[name], count) for name in SampleRef._fields
    ]


def _image(images: Columns, index: int) -> ImageRef:
    return ImageRef._make(column[index] for column in images)


def _row(rows: Columns, index: int) -> LabelRow:
    return LabelRow._make(column[index] for column in rows)


def _sample(
    image: ImageRef,
    split: str,
    rows: Sequence[LabelRow],
    merger: RowMerger,
    claims: Mapping[Size, LabelRow],
) -> SampleRef | DeadLetter:
    """The sample or dead letter of an image, its distinct rows in order, and the sizes they claim."""
    for row in rows:
        if row.problem:
            bad = (Stage.LABELS, image.key, image.uri, Reason.BAD_LABEL_VALUE, row.problem)
            return image_dead_letter(*bad, row.file, row.line)
    merged = merger.merge(rows)
    if isinstance(merged, LabelRow) and len(claims) < 2:
        size = next(iter(claims), None)
        return labelled(image, merged.split or split, merged.values, merged.file, size)
    first, second = [*claims.values()][:2] if isinstance(merged, LabelRow) else merged
    if isinstance(merged, LabelRow):
        texts = [f"claims an image of {w} x {h} pixels" for w, h in claims]
    elif merger.complete and first.split == second.split:
        message = f"{first.file} and {second.file} are both {merger.complete}s of this image; name only the right ones"
        return _letter(image, Reason.CONFLICTING_LABELS, message)
    else:
        texts = [f"says {matching.row_text(row)}" for row in (first, second)]
    message = f"{matching.source_of(first)} {texts[0]}, {matching.source_of(second)} {texts[1]}; remove the wrong one"
    letter = _letter(image, Reason.CONFLICTING_LABELS, message)
    return letter._replace(file=second.file, line=second.line)
