"""The summary at the end of a run, read from the files that it wrote."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_pipeline.core.card.side_files import CARD_NAMES
from beam_pipeline.core.dataset.changes import CHANGES_NAME, parse_changes, summary_of
from beam_pipeline.core.dataset.duplicates import (
    DUPLICATES_NAME,
    Duplicates,
    described,
    parse_duplicates,
)
from beam_pipeline.core.dataset.manifest import MANIFEST_NAME, ImageEntries, Manifest
from beam_pipeline.core.dataset.names import REPORT_NAME
from beam_pipeline.core.images.preparation import FILTER_REASONS
from beam_pipeline.core.labels.classes import numbering_note
from beam_pipeline.core.labels.moved import is_located
from beam_pipeline.core.labels.sample_filters import Exclusion
from beam_pipeline.core.labels.schema import ColumnKind
from beam_pipeline.core.records.alteration import EVENT_PHRASES, Event
from beam_pipeline.core.references import DEFAULT_SPLIT
from beam_pipeline.core.text import counted, enumerated, human_size
from beam_pipeline.storage import files
from beam_pipeline.terminal import complain, say
from beam_pipeline.work.dead_letter_files import read_dead_letters, shown_uri
from beam_pipeline.work.output_folder import is_somebody_elses, read_manifest

_SHOWN = 3
_SHOWN_CLASSES = 10
_USUAL_SIZE = (224, 224)  # pixels, of most pretrained models
_MASKS = ("image/segmentation/class", "image/panoptic")
_LABELS = ("image/class", "image/label", "image/object/class", *_MASKS)


def print_summary(
    folder: str,
    exclusion: Exclusion | None = None,
    *,
    seconds: float | None = None,
    wrote_all: bool = True,
) -> None:
    """Prints splits, classes, dead letters and the lines of code that read the data set.

    Args:
      folder: the data set.
      exclusion: the keys to leave out, to report the ones without an image.
      seconds: the time that the job took; None to leave it out.
      wrote_all: the job wrote every shard, so its rate applies to the whole data set.
    """
    manifest = read_manifest(folder)
    time_line = [] if seconds is None else [_time_line(manifest, seconds, wrote_all)]
    say(*_lines(folder, files.join(folder, MANIFEST_NAME), manifest, time_line))
    if exclusion:
        _warn_of_keys_not_met(folder, manifest, exclusion)


def say_what_was_kept(folder: str) -> None:
    """Names the files of a data card that are a person's own, so that they may be out of date."""
    for name in CARD_NAMES:
        if files.exists(files.join(folder, name)) and is_somebody_elses(folder, name):
            say(
                f"Note: {name} was put there or changed by hand, so it was left as it is; delete it and "
                "run the same command with --resume to get one of this data set"
            )


def _warn_of_keys_not_met(folder: str, manifest: Manifest, exclusion: Exclusion) -> None:
    """Warns of keys to leave out that match no image: perhaps misspelt."""
    listed: dict[Any, str] = {(exclusion.uri, n): key for key, n in exclusion.lines.items()}
    letters = read_dead_letters(folder, manifest)
    not_met = exclusion.not_met(
        listed.get((letter.get("file"), letter.get("line")), letter["key"]) for letter in letters
    )
    if not_met:
        complain(
            f"Warning: {counted(len(not_met), 'key')} of {exclusion.uri} (--exclude) left nothing out, "
            f"as no image has such a key: {enumerated([*map(repr, not_met)], _SHOWN)}"
        )


def _time_line(manifest: Manifest, seconds: float, wrote_all: bool) -> str:
    """Says how long the job took and, if it wrote everything, the rate."""
    time = f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.0f} minutes"
    if not wrote_all or not seconds:
        return f"  time: {time}"
    examples, size = manifest.counts.examples / seconds, manifest.bytes / seconds
    rate = f"{examples:.0f}" if examples >= 10 else f"{examples:.1f}"
    return f"  time: {time}, {rate} examples/s, {human_size(int(size))}/s"


def _lines(folder: str, uri: str, manifest: Manifest, time_line: Sequence[str]) -> Iterator[str]:
    counts = manifest.counts
    yield f"Wrote {counted(counts.examples, 'example')}, {human_size(manifest.bytes)}, to {folder}"
    yield from _change_lines(folder)
    yield ""
    for name, split in manifest.splits.items():
        yield split_line(name, counted(split.examples, "example"), len(split.shards), split.bytes)
    yield from _class_lines(manifest)
    if "unlabelled" in manifest.content["counts"]:
        yield f"  unlabelled: {counted(counts.unlabelled, 'sample')}, without label features"
    yield from ignored_lines(counts.ignored_files)
    if counts.label_rows_repeated:
        yield f"  repeated label rows: {counts.label_rows_repeated}"
    if manifest.images:
        yield size_line(manifest.images)
        is_tar = manifest.options.record_format == "webdataset"
        if is_tar and len(manifest.images.formats) > 1:
            yield (
                "  note: Hugging Face Datasets reads tars only if all images have one format; "
                "--image_format jpeg writes them as JPEG"
            )
    kinds = {ColumnKind(column.kind) for column in manifest.options.columns}
    yield from _image_lines(counts.images, any(map(is_located, kinds)))
    yield from _dead_letter_lines(folder, manifest)
    yield from _duplicates_of(folder, 0 if counts.further_samples else counts.examples)
    for reason in manifest.questions:
        yield f"  accepted with --yes: {reason}"
    yield from time_line
    yield f"  manifest: {uri}"
    report = files.join(folder, REPORT_NAME)
    if files.exists(report):
        yield f"  report: {report}"
    yield ""
    yield from _reading_lines(folder, manifest)


def split_line(name: str, samples: str, shards: int, size: int) -> str:
    """The line of a split: `  train: 3 samples in 1 shard, 2.1 kB`."""
    return f"  {name}: {samples} in {counted(shards, 'shard')}, {human_size(size)}"


def ignored_lines(ignored: Mapping[str, int]) -> Iterator[str]:
    """The files that are neither images nor labels: kind or extension -> how many."""
    if ignored:
        numbers = ", ".join(f"{number} {kind}" for kind, number in sorted(ignored.items()))
        yield f"  ignored, hidden or without an image extension: {numbers}"


def size_line(images: ImageEntries) -> str:
    """The sizes and formats of images: `  image sizes: 75 to 500 wide, 375 high; 98 jpeg, 2 png`."""
    formats = sorted(images.formats.items(), key=lambda item: (-item[1], item[0]))
    of_formats = ", ".join(f"{count} {name}" for name, count in formats)
    width, height = (
        f"{low}" if low == high else f"{low} to {high}"
        for low, high in (images.width, images.height)
    )
    return f"  image sizes: {width} wide, {height} high; {of_formats}"


def _image_lines(events: Mapping[str, int], has_places: bool) -> Iterator[str]:
    """Says what happened to images; labels may contain places in them, such as boxes."""
    noted = (Event.LEFT_TURNED.value, Event.OBJECTS_OUTSIDE.value)
    handled = [
        f"{events[event]} {phrase}"
        for event, phrase in EVENT_PHRASES.items()
        if event in events and event not in noted
    ]
    if handled:
        yield f"  images: {', '.join(handled)}"
    if turned := events.get(Event.LEFT_TURNED.value):
        yield (
            f"  note: EXIF turns or mirrors {counted(turned, 'image')}, which TensorFlow shows as stored; "
            f"--orientation apply turns {'it' if turned == 1 else 'them'}"
        )
        if has_places:
            yield (
                "  warning: boxes, points and masks on such images are in the wrong place if they were "
                "drawn on the images as viewers show them, unless the size in the labels tells; "
                "--orientation apply takes them as drawn there"
            )
    if outside := events.get(Event.OBJECTS_OUTSIDE.value):
        yield f"  note: {counted(outside, 'object')} left out, outside of what the crop keeps"


def _change_lines(folder: str) -> Iterator[str]:
    """Lines on the changes since the data set whose shards were reused; none without one."""
    uri = files.join(folder, CHANGES_NAME)
    data = files.read_if_there(uri)
    if data is not None:
        yield from reuse_lines(parse_changes(data, uri))


def reuse_lines(changes: Mapping[str, Any], *, planned: bool = False) -> Iterator[str]:
    """Lines on the samples that changed, and on the shards that are reused.

    Args:
      changes: as `changes.json` has them.
      planned: nothing is written yet; of shards to write, the bytes of images are estimated.
    """
    samples, shards, size = (changes[name] for name in ("samples", "shards", "bytes"))
    reuse, write = ("to reuse", "to write") if planned else ("reused", "written")
    yield ""
    yield f"Since {changes['since']}: {summary_of(samples)}"
    yield (
        f"  {counted(shards['reused'], 'shard')} {reuse}, {human_size(size['reused'])}; "
        f"{shards['written']} {write}, {'about ' * planned}{human_size(size['written'])}"
        f"{' of images' * planned}"
    )
    yield from (f"  note: {note}" for note in changes["notes"])


def _class_lines(manifest: Manifest) -> Iterator[str]:
    classes = manifest.classes
    features = [column.feature for column in manifest.options.columns]
    if not classes:
        if any(feature.startswith(_MASKS) for feature in features):
            yield "  masks; --classes or --mask_colors would give their ids names"
        else:
            yield (
                "  no classes; the label is the float feature image/label"
                if "image/label" in features
                else "  no classes"
            )
        return
    unit = manifest.unit
    figures = [(c.id, c.name, c.count if unit else None) for c in classes]
    options = manifest.content["options"]
    chosen = options.get("label_from_name") or options.get("classes")
    yield from class_lines(figures, objects=unit == "objects", chosen=bool(chosen))
    if not unit:
        return
    if len(classes) > _SHOWN_CLASSES:
        smallest, *_, largest = sorted(classes, key=lambda c: (c.count, -c.id))
        yield (
            f"  largest class: {largest.name} ({largest.count}), smallest: {smallest.name} "
            f"({smallest.count})"
        )
    for split, names in manifest.absent_classes.items():
        yield f"  note: {split} has no {enumerated(names, _SHOWN)}"


def class_lines(
    classes: Sequence[tuple[int, str, int | None]], *, objects: bool = False, chosen: bool = False
) -> Iterator[str]:
    """Lists classes as (id, name, samples): `  2 classes: 0 cat (15), 1 dog (4)`.

    If a name is a number, the id is set apart from it: `  2 classes: 0 is '1' (15), 1 is '2' (4)`.

    Args:
      classes: id, name, and the number of examples; None in masks, which are not counted.
      objects: numbers are of objects.
      chosen: ids were chosen, so that nothing is to be noted of their order.
    """
    total = counted(len(classes), "class/classes")
    if classes[0][2] is None:
        names = enumerated([f"{i} {name}" for i, name, _ in classes], _SHOWN_CLASSES)
        yield f"  {total} in masks: {names}"
        return
    numbers = any(name[:1].isdecimal() for _, name, _ in classes)
    form = "{} is {!r} ({})" if numbers else "{} {} ({})"
    names = enumerated([form.format(*figures) for figures in classes], _SHOWN_CLASSES)
    yield f"  {total}{', objects of each' * objects}: {names}"
    note = "" if chosen else numbering_note([(name, i) for i, name, _ in classes])
    if note:
        yield f"  note: {note}"


def _dead_letter_lines(folder: str, manifest: Manifest) -> Iterator[str]:
    uri = shown_uri(folder, manifest)
    by_reason = dict(manifest.dead_letters)
    filtered = {
        name: by_reason.pop(reason.value)
        for reason, name in FILTER_REASONS.items()
        if reason.value in by_reason
    }
    if filtered:
        by_filter = ", ".join(f"{n} by --{name}" for name, n in filtered.items())
        yield f"  filtered out: {sum(filtered.values())} ({by_filter}), listed in {uri}"
    if not by_reason:
        yield "  dead letters: none" if not filtered else "  other dead letters: none"
        return
    dropped = manifest.counts.dropped_objects
    objects = f" ({counted(dropped, 'object')} of samples that were written)" if dropped else ""
    yield f"  dead letters: {sum(by_reason.values())}{objects}, each with its reason in {uri}"
    first: dict[str, list[str]] = defaultdict(list)
    missing = sum(min(count, _SHOWN) for count in by_reason.values())
    for dead_letter in read_dead_letters(folder, manifest):
        reason = dead_letter["reason"]
        if reason in by_reason and len(first[reason]) < _SHOWN:
            first[reason].append(
                f"{dead_letter['key']}{location(dead_letter)}: {dead_letter['message']}"
            )
            missing -= 1
            if not missing:
                break
    for reason, count in by_reason.items():
        yield f"    {reason}: {count}"
        yield from (f"      {text}" for text in first[reason])


def _duplicates_of(folder: str, examples: int) -> Iterator[str]:
    uri = files.join(folder, DUPLICATES_NAME)
    data = files.read_if_there(uri)
    if data is None:
        return
    duplicates = parse_duplicates(data, uri)
    yield from duplicate_lines(duplicates, "warning")
    if duplicates.groups:
        copies = counted(duplicates.copies, "copy/copies")
        yield f"    --duplicates first would leave out {copies}; {uri} lists some groups"
    if duplicates.images_compared < examples:
        yield (
            f"  note: duplicates were looked for among {duplicates.images_compared} of {examples} images; an "
            "older version wrote the shards of the others, and noted no digests"
        )


def duplicate_lines(duplicates: Duplicates, heading: str) -> Iterator[str]:
    """Lines on images of the same bytes; none if there are none."""
    for number, line in enumerate(described(duplicates)):
        yield f"    {line}" if number else f"  {heading}: {line}"


def location(dead_letter: Mapping[str, Any]) -> str:
    """The label file and line that a dead letter names, if any: ` (labels.csv, line 3)`."""
    if "file" not in dead_letter:
        return ""
    line = f", line {dead_letter['line']}" if "line" in dead_letter else ""
    return f" ({dead_letter['file']}{line})"


def _reading_lines(folder: str, manifest: Manifest) -> Iterator[str]:
    """Shows the code that reads the first split; without a label, all features as a dict."""
    splits = list(manifest.splits)
    split = DEFAULT_SPLIT if DEFAULT_SPLIT in splits else splits[0]
    columns = [c.feature for c in manifest.options.columns if c.feature in _LABELS]
    batches = f"batch_size=32, image_size={_reading_size(manifest.images)}"
    if not columns:
        batches += ", as_dict=True"
    yield "Read it:"
    yield ""
    yield "  import beam_pipeline"
    yield f"  dataset = beam_pipeline.load({folder!r}, split={split!r}, {batches})"


def _reading_size(images: ImageEntries | None) -> tuple[int, int]:
    """Returns (height, width) for training: the largest of the images where they are smaller than usual."""
    size = (images.height[1], images.width[1]) if images else _USUAL_SIZE
    return size if max(size) < max(_USUAL_SIZE) else _USUAL_SIZE
