"""The data card `README.md`, in the form that Hugging Face's Hub reads.

YAML at the top lists tasks, features and splits; the text below says what the data set holds, how it
was made, what was left out and how to read it. Everything comes from the manifest, so the card is the
same on every engine. Source of the form: https://huggingface.co/docs/hub/datasets-cards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_pipeline.core.card.contents import (
    feature_rows,
    shard_pattern,
    summary,
    tasks,
)
from beam_pipeline.core.card.escaping import code, markdown, yaml
from beam_pipeline.core.card.seal import PLACEHOLDER, sealed
from beam_pipeline.core.dead_letters import EXPLANATIONS, Reason
from beam_pipeline.core.images.preparation import RAW_FORMAT
from beam_pipeline.core.labels.schema import ENCODED_KEY, written_key
from beam_pipeline.core.records.formats import recorded_format
from beam_pipeline.core.text import counted

README_NAME = "README.md"

_MOST_NAMES = 1_000  # names of classes in the YAML; with more, an id is a plain integer there
_MOST_ROWS = 100  # classes in the table
_SIZES = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T")
_LABEL_KEYS = ("image/class/label", "image/object/class/label")
_DTYPES = {"int64": "int64", "float": "float32", "bytes": "binary"}
_TENSORFLOW = {"int64": "tf.int64", "float": "tf.float32", "bytes": "tf.string"}
_MISSING = {"int64": "tf.int64.min", "float": 'float("nan")', "bytes": '""'}
_SHOWN_ELSEWHERE = ("splits", "columns", "features", "compression", "record_format", "classes")


def readme(manifest: Mapping[str, Any]) -> bytes:
    """The card of a data set.

    Args:
      manifest: of the complete data set.
    """
    name = markdown(manifest["name"])
    sections: list[Sequence[str]] = [
        ["---", *_front_matter(manifest), "---"],
        [f"# {name}"],
        [f"{summary(manifest)}. {_unlabelled(manifest)}Every record is a `tf.train.Example`."],
        list(_splits(manifest)),
        ["## Features"],
        list(_features(manifest)),
        *_classes(manifest),
        ["## How it was made"],
        [
            "beam-tfrecord converted images and their labels with these options. "
            "[manifest.json](manifest.json) has all of them, and a checksum of each shard."
        ],
        list(_options(manifest)),
        ["## Left out"],
        *_left_out(manifest),
        ["## How to read it"],
        *_reading(manifest),
        ["## Licence, source and use"],
        [
            "This card is made from `manifest.json`, which does not know where the images come from "
            "or what they may be used for. Add it here: a card that was changed is never replaced."
        ],
        [f"<!-- {PLACEHOLDER} -->"],
    ]
    text = "\n\n".join("\n".join(lines) for lines in sections if lines)
    return sealed((text + "\n").encode())


# --- the YAML at the top --------------------------------------------------------------------------


def _front_matter(manifest: Mapping[str, Any]) -> Iterator[str]:
    yield f"pretty_name: {yaml(manifest['name'])}"
    found = tasks(manifest)
    if found:
        yield "task_categories:"
        yield from (f"- {task}" for task in found)
    yield "size_categories:"
    yield f"- {_size_category(manifest['counts']['examples'])}"
    yield "tags:"
    yield f"- {recorded_format(manifest['options']).name}"
    yield "viewer: false"  # the Hub's viewer reads no TFRecords
    yield "dataset_info:"
    yield "  features:"
    names = _names_by_id(manifest)
    renames = manifest["options"].get("features") or {}
    labels = [written_key(key, renames) for key in _LABEL_KEYS]
    image = written_key(ENCODED_KEY, renames)
    for key, feature in sorted(manifest["features"].items()):
        yield f"  - name: {yaml(key)}"
        if key == image and feature["kind"] == "bytes" and not _raw(manifest):
            yield "    dtype: image"
        elif key in labels and feature["kind"] == "int64" and names:
            yield from _class_label(names, is_list=bool(feature.get("shape")))
        elif feature.get("shape"):
            yield f"    sequence: {_DTYPES[feature['kind']]}"
        else:
            yield f"    dtype: {_DTYPES[feature['kind']]}"
    yield "  splits:"
    for name, split in manifest["splits"].items():
        yield f"  - name: {yaml(name)}"
        yield f"    num_bytes: {split['bytes']}"
        yield f"    num_examples: {split['examples']}"
    yield f"  dataset_size: {sum(split['bytes'] for split in manifest['splits'].values())}"


def _class_label(names: Sequence[str], *, is_list: bool) -> Iterator[str]:
    lines = [
        "class_label:",
        "  names:",
        *(f"    '{i}': {yaml(name)}" for i, name in enumerate(names)),
    ]
    yield "    sequence:" if is_list else "    dtype:"
    yield from (f"      {line}" for line in lines)


def _size_category(examples: int) -> str:
    index = max(len(str(examples)) - 3, 0)  # of the first size that is more
    if index == 0:
        return f"n<{_SIZES[0]}"
    return f"{_SIZES[index - 1]}<n<{_SIZES[index]}" if index < len(_SIZES) else f"n>{_SIZES[-1]}"


def _raw(manifest: Mapping[str, Any]) -> bool:
    return bool(manifest["options"].get("image_encoding") == RAW_FORMAT)


def _names_by_id(manifest: Mapping[str, Any]) -> list[str]:
    """The names of the classes if their ids count from 0 and they are not too many to list."""
    classes = manifest["classes"]
    if len(classes) > _MOST_NAMES or any(entry["id"] != i for i, entry in enumerate(classes)):
        return []
    return [entry["name"] for entry in classes]


# --- the text -------------------------------------------------------------------------------------


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> Iterator[str]:
    """The lines of a table.

    Args:
      header: the heading of each column.
      rows: cells, escaped already.
      align: a letter a column: "l" for left, "r" for right.
    """
    yield f"| {' | '.join(header)} |"
    yield f"|{'|'.join('---:' if side == 'r' else '---' for side in align)}|"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _unlabelled(manifest: Mapping[str, Any]) -> str:
    number = manifest["counts"].get("unlabelled", 0)
    return f"{number:,} of them {'has' if number == 1 else 'have'} no label. " if number else ""


def _splits(manifest: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        [
            markdown(name),
            f"{split['examples']:,}",
            f"{len(split['shards']):,}",
            f"{split['bytes']:,}",
        ]
        for name, split in manifest["splits"].items()
    ]
    return _table(["split", "examples", "shards", "bytes"], rows, "lrrr")


def _features(manifest: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        [code(row.key), row.kind, row.values, markdown(row.content)]
        for row in feature_rows(manifest)
    ]
    return _table(["key", "kind", "values", "content"], rows, "llll")


def _classes(manifest: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    classes = manifest["classes"]
    if not classes:
        return
    yield ["## Classes"]
    units = [unit for unit in ("examples", "objects") if unit in classes[0]]
    splits = list(manifest["splits"]) if units else []
    rows = [
        [
            str(entry["id"]),
            markdown(entry["name"]),
            *(f"{entry[unit]:,}" for unit in units),
            *(f"{entry['splits'].get(split, 0):,}" for split in splits),
        ]
        for entry in classes[:_MOST_ROWS]
    ]
    header = ["id", "class", *units, *(f"in {markdown(split)}" for split in splits)]
    yield list(_table(header, rows, "rl" + "r" * (len(header) - 2)))
    if len(classes) > _MOST_ROWS:
        yield [f"And {len(classes) - _MOST_ROWS:,} more, which `manifest.json` lists."]


def _options(manifest: Mapping[str, Any]) -> Iterator[str]:
    options = manifest["options"]
    splits = options.get("splits")
    rows = [
        ["seed", str(manifest["seed"])],
        ["splits", _value(splits) if splits else "as the images or labels say"],
    ]
    for name, value in options.items():
        if name not in _SHOWN_ELSEWHERE and value not in (None, False, "", [], {}):
            rows.append([code(name), _value(value)])
    columns = [column for column in options["columns"] if column["feature"]]
    for column in columns:
        kind = f"{column['kind']}, a list" if column.get("repeated") else column["kind"]
        rows.append(
            [
                f"column {markdown(column['name'])}",
                f"{markdown(kind)}, as {code(column['feature'])}",
            ]
        )
    return _table(["option", "value"], rows, "ll")


def _value(value: Any) -> str:
    """A value of an option, for a table's cell."""
    if isinstance(value, Mapping):
        return ", ".join(f"{markdown(str(name))} {_value(one)}" for name, one in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_value, value))
    return markdown(str(value).lower() if isinstance(value, bool) else str(value))


def _left_out(manifest: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    counts = manifest["counts"]
    if not manifest["dead_letters"]:
        yield ["Nothing: every listed image became an example, and every label row was used."]
        return
    yield [
        f"{counted(counts['dead_letters'], 'image or label row/images or label rows')}, listed one by "
        "one in [dead_letters.jsonl](dead_letters.jsonl):"
    ]
    rows = [
        [
            f"`{reason}`" if reason in _REASONS else markdown(reason),
            f"{count:,}",
            markdown(_REASONS.get(reason, "")),
        ]
        for reason, count in manifest["dead_letters"].items()
    ]
    yield list(_table(["reason", "number", "meaning"], rows, "lrl"))


_REASONS = {reason.value: EXPLANATIONS[reason] for reason in Reason}


def _reading(manifest: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    splits = {name: split for name, split in manifest["splits"].items() if split["shards"]}
    split = "train" if "train" in splits else next(iter(splits), "")
    labelled = any(
        column["feature"] in ("image/class", "image/label", "image/object/bbox")
        for column in manifest["options"]["columns"]
    )
    more = "" if labelled else ", as_dict=True"
    yield ["With beam-tfrecord, as a `tf.data.Dataset` of decoded images and labels:"]
    yield [
        "```python",
        "import beam_pipeline",
        "",
        f'dataset = beam_pipeline.load(".", split={_python(split)}, batch_size=32, image_size=(224, 224){more})',
        "```",
    ]
    reader = recorded_format(manifest["options"]).tf_data
    if not reader or not splits:
        return
    arguments = "".join(
        f", {name}={_python(value)}" for name, value in reader.arguments.items() if value
    )
    yield ["With TensorFlow alone:"]
    yield [
        "```python",
        "import tensorflow as tf",
        "",
        "features = {",
        *(
            f"    {_python(key)}: {_spec(feature)},"
            for key, feature in sorted(manifest["features"].items())
        ),
        "}",
        f"paths = tf.io.gfile.glob({_python(shard_pattern(splits[split]))})",
        f"records = tf.data.{reader.name}(paths{arguments})",
        "examples = records.map(lambda record: tf.io.parse_single_example(record, features))",
        "```",
    ]


def _python(text: str) -> str:
    """A string literal, in double quotes where it has none itself."""
    literal = repr(text)
    return literal if '"' in literal else f'"{literal[1:-1]}"'


def _spec(feature: Mapping[str, Any]) -> str:
    dtype, shape = _TENSORFLOW[feature["kind"]], feature.get("shape", [])
    if None in shape:
        return f"tf.io.RaggedFeature({dtype})"
    default = f", {_MISSING[feature['kind']]}" if feature["optional"] else ""
    return f"tf.io.FixedLenFeature({shape}, {dtype}{default})"
