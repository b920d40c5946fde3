"""The summary at the end of a run, read from the files that it wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beam_pipeline.core.dataset import duplicates
from beam_pipeline.core.dataset.changes import CHANGES_NAME, parse_changes, summary_of
from beam_pipeline.core.dataset.manifest import MANIFEST_NAME, ImageEntries, Manifest
from beam_pipeline.core.dataset.names import DEAD_LETTERS_NAME, REPORT_NAME
from beam_pipeline.core.images.preparation import FILTER_REASONS
from beam_pipeline.core.labels import boxes, schema
from beam_pipeline.core.labels.classes import Exclusion, numbering_note
from beam_pipeline.core.records.alteration import EVENT_PHRASES, LEFT_TURNED, OBJECTS_OUTSIDE
from beam_pipeline.core.references import DEFAULT_SPLIT
from beam_pipeline.core.report.side_files import CARD_NAMES
from beam_pipeline.core.text import counted, enumerated, human_size, span
from beam_pipeline.dataset import read_manifest
from beam_pipeline.storage import files
from beam_pipeline.terminal import complain, say
from beam_pipeline.work.output_folder import is_somebody_elses, read_dead_letters

if TYPE_CHECKING:  # else an import that other users of these lines do without
    from beam_pipeline.config import ConvertConfig

_SHOWN = 3
_SHOWN_CLASSES = 10
_USUAL_SIZE = (224, 224)  # height and width in pixels, of most pretrained models
_MASKS = ("image/segmentation/class", "image/panoptic")
_LABELS = ("image/class", "image/label", "image/object/class", *_MASKS)


def print_summary(config: ConvertConfig, seconds: float) -> None:
    """Prints splits, classes, dead letters and the lines of code that read the data set.

    Args:
      config: the conversion, which is complete.
      seconds: the time that the job took.
    """
    folder, output = config.output, config.options.output
    manifest = read_manifest(folder)
    say(*_lines(folder, manifest, _time(manifest, seconds, not (output.resume or output.reuse))))
    if config.exclusion:
        _warn_of_keys_not_met(folder, config.exclusion)
    for name in () if output.no_card else CARD_NAMES:
        if files.exists(files.join(folder, name)) and is_somebody_elses(folder, name):
            say(
                f"Note: {name} was put there or changed by hand, so it was left as it is; delete it and "
                "run the same command with --resume to get one of this data set"
            )


def _warn_of_keys_not_met(folder: str, exclusion: Exclusion) -> None:
    """Warns of keys to leave out that match no image: perhaps misspelt."""
    listed: dict[Any, str] = {(exclusion.uri, n): key for key, n in exclusion.lines.items()}
    letters = read_dead_letters(folder)
    not_met = exclusion.not_met(
        listed.get((letter.get("file"), letter.get("line")), letter["key"]) for letter in letters
    )
    if not_met:
        complain(
            f"Warning: {counted(len(not_met), 'key')} of {exclusion.uri} (--exclude) left nothing out, "
            f"as no image has such a key: {enumerated([*map(repr, not_met)], _SHOWN)}"
        )


def _time(manifest: Manifest, seconds: float, wrote_all: bool) -> str:
    """How long the job took and, if it wrote everything, the rate."""
    time = f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.0f} minutes"
    if not wrote_all or not seconds:
        return time
    rate = manifest.counts.examples / seconds
    digits = 0 if rate >= 10 else 1
    return f"{time}, {rate:.{digits}f} examples/s, {human_size(int(manifest.bytes / seconds))}/s"


def _lines(folder: str, manifest: Manifest, time: str) -> Iterator[str]:
    counts = manifest.counts
    yield f"Wrote {counted(counts.examples, 'example')}, {human_size(manifest.bytes)}, to {folder}"
    changes = files.join(folder, CHANGES_NAME)
    if data := files.read_if_there(changes):
        yield from reuse_lines(parse_changes(data, changes))
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
        if manifest.options.record_format == "webdataset" and len(manifest.images.formats) > 1:
            yield (
                "  note: Hugging Face Datasets reads tars only if all images have one format; "
                "--image_format jpeg writes them as JPEG"
            )
    kinds = {schema.ColumnKind(column.kind) for column in manifest.options.columns}
    yield from _image_lines(counts.images, any(map(boxes.is_located, kinds)))
    yield from _dead_letter_lines(folder, manifest)
    yield from _duplicates_of(folder, 0 if counts.further_samples else counts.examples)
    yield from (f"  accepted with --yes: {reason}" for reason in manifest.questions)
    yield f"  time: {time}"
    yield f"  manifest: {files.join(folder, MANIFEST_NAME)}"
    report = files.join(folder, REPORT_NAME)
    if files.exists(report):
        yield f"  report: {report}"
    if not counts.examples:
        yield "  note: no sample could be written, so the data set is empty"
        return
    # The code that reads the first split; without a label, all features as a dict.
    first = DEFAULT_SPLIT if DEFAULT_SPLIT in manifest.splits else next(iter(manifest.splits))
    as_dict = not any(column.feature in _LABELS for column in manifest.options.columns)
    images = manifest.images
    largest = (images.height[1], images.width[1]) if images else _USUAL_SIZE
    size = min(_USUAL_SIZE, largest, key=max)
    arguments = f"batch_size=32, image_size={size}" + ", as_dict=True" * as_dict
    yield from ("", "Read it:", "", "  import beam_pipeline")
    yield f"  dataset = beam_pipeline.load({folder!r}, split={first!r}, {arguments})"


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
    return f"  image sizes: {span(str, images.width)} wide, {span(str, images.height)} high; {of_formats}"


def _image_lines(events: Mapping[str, int], has_places: bool) -> Iterator[str]:
    """Says what happened to images; labels may contain places in them, such as boxes."""
    noted = (LEFT_TURNED, OBJECTS_OUTSIDE)
    phrases = [(event, EVENT_PHRASES[event]) for event in EVENT_PHRASES if event not in noted]
    handled = [f"{events[event]} {phrase}" for event, phrase in phrases if event in events]
    if handled:
        yield f"  images: {', '.join(handled)}"
    if turned := events.get(LEFT_TURNED):
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
    if outside := events.get(OBJECTS_OUTSIDE):
        yield f"  note: {counted(outside, 'object')} left out, outside of what the crop keeps"


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
    classes, unit = manifest.classes, manifest.unit
    if not classes:
        features = [column.feature for column in manifest.options.columns]
        if any(feature.startswith(_MASKS) for feature in features):
            yield "  masks; --classes or --mask_colors would give their ids names"
        else:
            has_number = "image/label" in features
            yield "  no classes" + "; the label is the float feature image/label" * has_number
        return
    figures = [(c.id, c.name, c.count if unit else None) for c in classes]
    options = manifest.content["options"]
    chosen = options.get("label_from_name") or options.get("classes")
    yield from class_lines(figures, objects=unit == "objects", chosen=bool(chosen))
    for split, names in manifest.absent_classes.items() if unit else ():
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
    uri = files.join(folder, DEAD_LETTERS_NAME)
    by_reason = dict(manifest.dead_letters)
    filtered = {name: by_reason.pop(reason.value, 0) for reason, name in FILTER_REASONS.items()}
    if number := sum(filtered.values()):
        by_filter = ", ".join(f"{n} by --{name}" for name, n in filtered.items() if n)
        yield f"  filtered out: {number} ({by_filter}), listed in {uri}"
    if not by_reason:
        yield f"  {'other ' if number else ''}dead letters: none"
        return
    dropped = manifest.counts.dropped_objects
    objects = f" ({counted(dropped, 'object')} of samples that were written)" if dropped else ""
    yield f"  dead letters: {sum(by_reason.values())}{objects}, each with its reason in {uri}"
    first: dict[str, list[str]] = {reason: [] for reason in by_reason}
    missing = sum(min(count, _SHOWN) for count in by_reason.values())
    for letter in read_dead_letters(folder) if missing else ():
        texts = first.get(letter["reason"])
        if texts is not None and len(texts) < _SHOWN:
            texts.append(f"{letter['key']}{location(letter)}: {letter['message']}")
            missing -= 1
            if not missing:
                break
    for reason, count in by_reason.items():
        yield f"    {reason}: {count}"
        yield from (f"      {text}" for text in first[reason])


def _duplicates_of(folder: str, examples: int) -> Iterator[str]:
    uri = files.join(folder, duplicates.DUPLICATES_NAME)
    data = files.read_if_there(uri)
    if data is None:
        return
    figures = duplicates.parse_duplicates(data, uri)
    yield from duplicate_lines(figures, "warning")
    if figures.groups:
        copies = counted(figures.copies, "copy/copies")
        yield f"    --duplicates first would leave out {copies}; {uri} lists some groups"
    if figures.images_compared < examples:
        yield f"  note: duplicates were looked for among {figures.images_compared} of {examples} images"


def duplicate_lines(figures: duplicates.Duplicates, heading: str) -> Iterator[str]:
    """Lines on images of the same bytes; none if there are none."""
    for number, line in enumerate(duplicates.described(figures)):
        yield f"    {line}" if number else f"  {heading}: {line}"


def location(dead_letter: Mapping[str, Any]) -> str:
    """The label file and line that a dead letter names, if any: ` (labels.csv, line 3)`."""
    if "file" not in dead_letter:
        return ""
    line = f", line {dead_letter['line']}" if "line" in dead_letter else ""
    return f" ({dead_letter['file']}{line})"
