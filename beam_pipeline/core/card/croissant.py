"""`croissant.json`: the data set in MLCommons' Croissant format, for search engines and loaders.

Croissant has no way to reach into a TFRecord: a field comes from a column, a JSON path or a whole
file. So the shards of each split are a `FileSet`, and the records that loaders can read are the
splits, the classes, the features of an example, and what was left out. Source:
https://docs.mlcommons.org/croissant/docs/croissant-spec-1.1.html.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_pipeline.core.card.contents import (
    CONTAINERS,
    feature_rows,
    shard_pattern,
    summary,
    tasks,
)
from beam_pipeline.core.card.seal import PLACEHOLDER, sealed
from beam_pipeline.core.dataset.manifest import DEAD_LETTERS_NAME, dump_json
from beam_pipeline.core.records.formats import recorded_format

CROISSANT_NAME = "croissant.json"

_TERMS = (
    "arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "extract", "field",
    "fileProperty", "fileObject", "fileSet", "format", "includes", "isArray", "isLiveDataset",
    "jsonPath", "key", "md5", "parentField", "path", "recordSet", "references", "regex", "repeated",
    "replace", "samplingRate", "separator", "source", "subField", "transform",
)  # fmt: skip
_CONTEXT: Mapping[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "description": {"@container": "@language"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
    **{term: f"cr:{term}" for term in _TERMS},
}


def croissant(manifest: Mapping[str, Any]) -> bytes:
    """The Croissant description of a data set.

    Args:
      manifest: of the complete data set.
    """
    splits = {name: split for name, split in manifest["splits"].items() if split["shards"]}
    container = recorded_format(manifest["options"]).name
    description: dict[str, Any] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": manifest["name"],
        "description": f"{summary(manifest)}, as {CONTAINERS.get(container, container)}.",
        "keywords": [container, *tasks(manifest)],
        "version": "1.0.0",
        "distribution": [
            *(_shards(number, *item, manifest) for number, item in enumerate(splits.items())),
            *_dead_letter_files(manifest),
        ],
        "recordSet": [
            _splits(manifest),
            *_classes(manifest),
            _features(manifest),
            *_dead_letters(manifest),
        ],
        "identifier": PLACEHOLDER,
    }
    return sealed(dump_json(description))


def _shards(
    number: int, name: str, split: Mapping[str, Any], manifest: Mapping[str, Any]
) -> dict[str, Any]:
    chosen = recorded_format(manifest["options"])
    compression = [f"application/{chosen.compression}"] if chosen.compression != "none" else []
    return {
        "@type": "cr:FileSet",
        "@id": f"shards-{number}",
        "name": f"shards-{name}",
        "description": f"The shards of the split {name}.",
        "encodingFormat": [f"application/x-{chosen.name}", *compression],
        "includes": shard_pattern(split),
    }


def _record_set(
    name: str,
    description: str,
    fields: Mapping[str, tuple[str, str]],
    rows: Sequence[Sequence[Any]],
    **more: Any,
) -> dict[str, Any]:
    """A record set whose records stand in the description itself.

    Args:
      name: its name, and the beginning of its fields' ids.
      description: a sentence.
      fields: name -> (type, description); the first is the key.
      rows: the records.
      more: further properties.
    """
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": description,
        **more,
        "key": {"@id": f"{name}/{next(iter(fields))}"},
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{name}/{field}",
                "name": field,
                "description": about,
                "dataType": data_type,
            }
            for field, (data_type, about) in fields.items()
        ],
        "data": [
            {f"{name}/{field}": value for field, value in zip(fields, row, strict=True)}
            for row in rows
        ],
    }


def _splits(manifest: Mapping[str, Any]) -> dict[str, Any]:
    fields = {
        "name": ("sc:Text", "The name of the split."),
        "examples": ("sc:Integer", "The number of its examples."),
        "shards": ("sc:Integer", "The number of its files."),
        "bytes": ("sc:Integer", "The size of its files."),
    }
    rows = [
        [name, split["examples"], len(split["shards"]), split["bytes"]]
        for name, split in manifest["splits"].items()
    ]
    return _record_set("splits", "The splits of the data set.", fields, rows, dataType="cr:Split")


def _classes(manifest: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    classes = manifest["classes"]
    if not classes:
        return
    fields = {
        "id": ("sc:Integer", "The id in the examples."),
        "name": ("sc:Text", "The name of the class."),
    }
    units = [unit for unit in ("examples", "objects") if unit in classes[0]]
    fields |= {unit: ("sc:Integer", f"The number of {unit} of the class.") for unit in units}
    rows = [[entry["id"], entry["name"], *(entry[unit] for unit in units)] for entry in classes]
    yield _record_set(
        "classes", "The classes and their ids.", fields, rows, dataType="sc:Enumeration"
    )


def _features(manifest: Mapping[str, Any]) -> dict[str, Any]:
    fields = {
        "key": ("sc:Text", "The key of the feature in a tf.train.Example."),
        "kind": ("sc:Text", "The kind of its list: bytes, float or int64."),
        "values": ("sc:Text", "How many values an example has."),
        "content": ("sc:Text", "The meaning of the values."),
    }
    return _record_set(
        "features", "The features of an example.", fields, list(feature_rows(manifest))
    )


def _dead_letter_files(manifest: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if manifest["dead_letters"]:
        yield {
            "@type": "cr:FileSet",
            "@id": "dead-letters-file",
            "name": DEAD_LETTERS_NAME,
            "description": "Images and label rows that were left out, one JSON object per line.",
            "encodingFormat": "application/jsonlines",
            "includes": DEAD_LETTERS_NAME,
        }


def _dead_letters(manifest: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The record set of what was left out; a file without lines has no columns to read."""
    if not manifest["dead_letters"]:
        return
    fields = {
        "stage": "The stage that left it out.",
        "key": "The key of the image or row.",
        "uri": "Where the image is; empty for a row.",
        "reason": "The reason, from a fixed list.",
        "message": "The details.",
    }
    yield {
        "@type": "cr:RecordSet",
        "@id": "dead_letters",
        "name": "dead_letters",
        "description": "Images and label rows that were left out.",
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"dead_letters/{field}",
                "name": field,
                "description": about,
                "dataType": "sc:Text",
                "source": {
                    "fileSet": {"@id": "dead-letters-file"},
                    "extract": {"column": field},
                },
            }
            for field, about in fields.items()
        ],
    }
