"""The data card `README.md`, in the form that Hugging Face's Hub reads.

YAML at the top lists tasks, features and splits; the text below tells what the data set contains, how it
was made, what was left out and how to read it. Everything comes from the manifest, so the card is the
same on every engine. Source of the form: https://huggingface.co/docs/hub/datasets-cards.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from beam_pipeline.core.dataset.manifest import FeatureEntry, Manifest
from beam_pipeline.core.dead_letters import EXPLANATIONS
from beam_pipeline.core.labels.schema import ENCODED_KEY
from beam_pipeline.core.report import contents, metadata
from beam_pipeline.core.text import counted, terminal_line

README_NAME = "README.md"

_MOST_NAMES = 1_000  # names of classes in the YAML; with more, an id is a plain integer there
_MOST_ROWS = 100  # classes in the table
_SIZES = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T")
_DTYPES = {"int64": "int64", "float": "float32", "bytes": "binary"}
_TENSORFLOW = {"int64": "tf.int64", "float": "tf.float32", "bytes": "tf.string"}
_MISSING = {"int64": "tf.int64.min", "float": 'float("nan")', "bytes": '""'}
_SHOWN_ELSEWHERE = ("splits", "columns", "features", "compression", "record_format", "classes")


def readme(manifest: Manifest) -> bytes:
    """The card of a complete data set."""
    number = manifest.counts.unlabelled
    unlabelled = f"{number:,} of them {'has' if number == 1 else 'have'} no label. "
    features = [
        [code(row.key), row.kind, row.values, markdown(row.content)]
        for row in contents.feature_rows(manifest)
    ]
    splits = [(markdown(name), *figures) for name, *figures in contents.split_rows(manifest)]
    filled = [name for name, split in manifest.splits.items() if split.shards]
    split = "train" if "train" in filled else "".join(filled[:1])
    labels = {column.feature for column in manifest.options.columns}
    tasks = contents.tasks(manifest)
    labelled = labels & {"image/class", "image/label", "image/object/bbox"}
    page = contents.template("card.md").substitute(
        pretty_name=yaml(manifest.name),
        tasks="\n- ".join(["task_categories:", *tasks]) + "\n" if tasks else "",
        size=_size_category(manifest.counts.examples),
        format=manifest.record_format.name,
        feature_entries=_feature_entries(manifest),
        split_entries="".join(
            f"  - name: {yaml(name)}\n    num_bytes: {split.bytes}\n    num_examples: {split.examples}\n"
            for name, split in manifest.splits.items()
        ),
        bytes=manifest.bytes,
        name=markdown(manifest.name),
        summary=contents.summary(manifest),
        unlabelled=unlabelled if number else "",
        splits=_table(["split", "examples", "shards", "bytes"], splits, (1, 2, 3)),
        features=_table(["key", "kind", "values", "content"], features),
        classes=_classes(manifest),
        options=_options(manifest),
        left_out=_left_out(manifest),
        split=_python(split),
        as_dict="" if labelled else ", as_dict=True",
        with_tensorflow=_with_tensorflow(manifest, split) if split else "",
        seal=contents.PLACEHOLDER,
    )
    return contents.sealed(page.encode())


# --- text from data ---------------------------------------------------------------------------------

_MARKUP = re.compile(r"[\\`*_{}\[\]<>#!|&~:@$]")
_BARE_LINK = re.compile(r"(?i)(?<=www)\.")  # "www.example.org" becomes a link in GitHub's Markdown

# YAML wants these as escapes; json.dumps escapes those below U+0020.
_NOT_IN_YAML = re.compile("[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]")


def markdown(text: str) -> str:
    """Returns one line of Markdown that shows a text as it is.

    Control characters and direction marks are shown as escapes, very long texts are shortened, and
    spaces at the ends are left out.
    """
    return _BARE_LINK.sub(r"\\.", _MARKUP.sub(r"\\\g<0>", terminal_line(text).strip()))


def code(text: str) -> str:
    """Returns a code span for a table's cell; Markdown's escapes where a span could not show the text."""
    line = terminal_line(text)
    if not line or set(line) & set("`|\\") or line != line.strip():
        return markdown(text)
    return f"`{line}`"


def yaml(text: str) -> str:
    """Returns a double-quoted YAML scalar on one line."""
    quoted = json.dumps(text, ensure_ascii=False)
    return _NOT_IN_YAML.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)


# --- the YAML at the top --------------------------------------------------------------------------


def _feature_entries(manifest: Manifest) -> str:
    """The features as the Hub has them: with names of classes, and the image as one."""
    classes = manifest.classes
    has_names = len(classes) <= _MOST_NAMES and all(c.id == i for i, c in enumerate(classes))
    names = "".join(f"          '{c.id}': {yaml(c.name)}\n" for c in classes)
    entries = []
    for key, feature in sorted(manifest.features.items()):
        standard = manifest.renames.get(key, key)
        kind, content = "sequence" if feature.shape else "dtype", f" {_DTYPES[feature.kind]}\n"
        if standard == ENCODED_KEY and feature.kind == "bytes" and not manifest.bare_pixels:
            kind, content = "dtype", " image\n"
        elif standard in metadata.CLASS_KEYS and feature.kind == "int64" and classes and has_names:
            content = f"\n      class_label:\n        names:\n{names}"
        entries.append(f"  - name: {yaml(key)}\n    {kind}:{content}")
    return "".join(entries)


def _size_category(examples: int) -> str:
    index = max(len(str(examples)) - 3, 0)  # of the first size that is more
    if index == 0:
        return f"n<{_SIZES[0]}"
    return f"{_SIZES[index - 1]}<n<{_SIZES[index]}" if index < len(_SIZES) else f"n>{_SIZES[-1]}"


# --- the text -------------------------------------------------------------------------------------


def _table(
    header: Sequence[str], rows: Iterable[Sequence[object]], numbers: Sequence[int] = ()
) -> str:
    """A table; `numbers` are the columns that are aligned to the right."""
    sides = ("---:" if column in numbers else "---" for column in range(len(header)))
    cells = ([f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows)
    first, *lines = (f"| {' | '.join(row)} |" for row in (header, *cells))
    return "\n".join([first, f"|{'|'.join(sides)}|", *lines])


def _classes(manifest: Manifest) -> str:
    """The section on classes, with the empty line after it; empty without classes."""
    classes, unit = manifest.classes, manifest.unit
    if not classes:
        return ""
    counted_in = [unit, *(f"in {markdown(split)}" for split in manifest.splits)] if unit else []
    header, rows = ["id", "class", *counted_in], []
    for entry in classes[:_MOST_ROWS]:
        counts = [entry.count, *(entry.splits.get(split, 0) for split in manifest.splits)]
        rows.append([str(entry.id), markdown(entry.name), *counts[: len(counted_in)]])
    more = f"And {len(classes) - _MOST_ROWS:,} more, which `manifest.json` lists.\n\n"
    table = _table(header, rows, (0, *range(2, len(header))))
    return f"## Classes\n\n{table}\n\n{more if len(classes) > _MOST_ROWS else ''}"


def _options(manifest: Manifest) -> str:
    options = manifest.content["options"]
    rows = [
        ["seed", str(manifest.seed)],
        ["splits", _value(options.get("splits") or "as in the images or labels")],
    ]
    for name, value in options.items():
        if name not in _SHOWN_ELSEWHERE and value not in (None, False, "", [], {}):
            rows.append([code(name), _value(value)])
    for column in manifest.options.columns:
        if column.feature:
            kind = f"{column.kind}, a list" if column.repeated else column.kind
            feature = f"{markdown(kind)}, as {code(column.feature)}"
            rows.append([f"column {markdown(column.name)}", feature])
    return _table(["option", "value"], rows)


def _value(value: Any) -> str:
    """A value of an option, for a table's cell."""
    if isinstance(value, Mapping):
        return ", ".join(f"{markdown(str(name))} {_value(part)}" for name, part in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_value, value))
    return markdown(str(value).lower() if isinstance(value, bool) else str(value))


def _left_out(manifest: Manifest) -> str:
    if not manifest.dead_letters:
        return "Nothing: every listed image became an example, and every label row was used."
    number = counted(manifest.counts.dead_letters, "image or label row/images or label rows")
    rows = [
        (code(reason), count, markdown(EXPLANATIONS.get(reason, "")))
        for reason, count in manifest.dead_letters.items()
    ]
    table = _table(["reason", "number", "meaning"], rows, (1,))
    return f"{number}, listed one by one in [dead_letters.jsonl](dead_letters.jsonl):\n\n{table}"


def _with_tensorflow(manifest: Manifest, split: str) -> str:
    """The code that reads a split without this package; empty if TensorFlow cannot read the shards."""
    reader = manifest.record_format.tf_data
    if not reader:
        return ""
    class_name, given = reader
    arguments = [f", {name}={_python(value)}" for name, value in given.items() if value]
    features = sorted(manifest.features.items())
    return contents.template("tensorflow_card.md").substitute(
        specs="".join(f"    {_python(key)}: {_spec(feature)},\n" for key, feature in features),
        paths=_python(contents.shard_pattern(manifest.splits[split])),
        reader=class_name,
        arguments="".join(arguments),
    )


def _python(text: str) -> str:
    """A string literal, in double quotes where it has none itself."""
    literal = repr(text)
    return literal if '"' in literal else f'"{literal[1:-1]}"'


def _spec(feature: FeatureEntry) -> str:
    dtype = _TENSORFLOW[feature.kind]
    if feature.ragged:
        return f"tf.io.RaggedFeature({dtype})"
    default = f", {_MISSING[feature.kind]}" if feature.optional else ""
    return f"tf.io.FixedLenFeature({[*feature.shape]}, {dtype}{default})"
