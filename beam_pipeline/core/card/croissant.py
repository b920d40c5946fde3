"""`croissant.json`: the data set in MLCommons' Croissant format, for search engines and loaders.

Croissant cannot reach into a TFRecord: a field comes from a column, a JSON path or a whole
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
from beam_pipeline.core.dataset.manifest import DEAD_LETTERS_NAME, Manifest, dump_json

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


def croissant(manifest: Manifest) -> bytes:
    """The Croissant description of a complete data set."""
    shards = manifest.record_format
    description = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": manifest.name,
        "description": f"{summary(manifest)}, as {CONTAINERS.get(shards.name, shards.name)}.",
        "keywords": [shards.name, *tasks(manifest)],
        "version": "1.0.0",
        "distribution": [*_file_sets(manifest)],
        "recordSet": [*_record_sets(manifest)],
        "identifier": PLACEHOLDER,
    }
    return sealed(dump_json(description))


def _file_sets(manifest: Manifest) -> Iterator[dict[str, Any]]:
    shards = manifest.record_format
    kinds = [f"application/x-{shards.name}"]
    kinds += [f"application/{shards.compression}"] if shards.compression != "none" else []
    splits = {name: split for name, split in manifest.splits.items() if split.shards}
    for number, (name, split) in enumerate(splits.items()):
        yield {
            "@type": "cr:FileSet",
            "@id": f"shards-{number}",
            "name": f"shards-{name}",
            "description": f"The shards of the split {name}.",
            "encodingFormat": kinds,
            "includes": shard_pattern(split),
        }
    if manifest.dead_letters:
        yield {
            "@type": "cr:FileSet",
            "@id": "dead-letters-file",
            "name": DEAD_LETTERS_NAME,
            "description": "Images and label rows that were left out, one JSON object per line.",
            "encodingFormat": "application/jsonlines",
            "includes": DEAD_LETTERS_NAME,
        }


def _record_sets(manifest: Manifest) -> Iterator[dict[str, Any]]:
    yield _record_set(
        "splits",
        "The splits of the data set.",
        {
            "name": ("sc:Text", "The name of the split."),
            "examples": ("sc:Integer", "The number of its examples."),
            "shards": ("sc:Integer", "The number of its files."),
            "bytes": ("sc:Integer", "The size of its files."),
        },
        [
            [name, split.examples, len(split.shards), split.bytes]
            for name, split in manifest.splits.items()
        ],
        dataType="cr:Split",
    )
    if manifest.classes:
        fields = {
            "id": ("sc:Integer", "The id in the examples."),
            "name": ("sc:Text", "The name of the class."),
        }
        rows: list[list[Any]] = [[entry.id, entry.name] for entry in manifest.classes]
        if unit := manifest.unit:
            fields[unit] = ("sc:Integer", f"The number of {unit} of the class.")
            rows = [[entry.id, entry.name, entry.count] for entry in manifest.classes]
        about = "The classes and their ids."
        yield _record_set("classes", about, fields, rows, dataType="sc:Enumeration")
    yield _record_set(
        "features",
        "The features of an example.",
        {
            "key": ("sc:Text", "The key of the feature in a tf.train.Example."),
            "kind": ("sc:Text", "The kind of its list: bytes, float or int64."),
            "values": ("sc:Text", "How many values an example has."),
            "content": ("sc:Text", "The meaning of the values."),
        },
        list(feature_rows(manifest)),
    )
    if manifest.dead_letters:  # a file without lines lacks columns
        yield {
            "@type": "cr:RecordSet",
            "@id": "dead_letters",
            "name": "dead_letters",
            "description": "Images and label rows that were left out.",
            "field": [
                {
                    **_field("dead_letters", name, "sc:Text", about),
                    "source": {
                        "fileSet": {"@id": "dead-letters-file"},
                        "extract": {"column": name},
                    },
                }
                for name, about in _DEAD_LETTER_FIELDS.items()
            ],
        }


_DEAD_LETTER_FIELDS = {
    "stage": "The stage that left it out.",
    "key": "The key of the image or row.",
    "uri": "Where the image is; empty for a row.",
    "reason": "The reason, from a fixed list.",
    "message": "The details.",
}


def _record_set(
    name: str,
    description: str,
    fields: Mapping[str, tuple[str, str]],
    rows: Sequence[Sequence[Any]],
    **more: Any,
) -> dict[str, Any]:
    """A record set whose records are in the description itself.

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
        "field": [_field(name, field, *of_field) for field, of_field in fields.items()],
        "data": [
            {f"{name}/{field}": value for field, value in zip(fields, row, strict=True)}
            for row in rows
        ],
    }


def _field(record_set: str, name: str, data_type: str, about: str) -> dict[str, Any]:
    return {
        "@type": "cr:Field",
        "@id": f"{record_set}/{name}",
        "name": name,
        "description": about,
        "dataType": data_type,
    }
