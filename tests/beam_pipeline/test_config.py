"""A conversion ready to run: what is recorded of it, and what it refuses."""

from __future__ import annotations

import dataclasses
import json
from fractions import Fraction
from pathlib import Path

import pytest

from beam_pipeline.config import ConvertConfig
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.records.sharding import SplitFractions
from beam_pipeline.inputs import convert_config
from beam_pipeline.options import (
    ConvertOptions,
    EngineOptions,
    ImageOptions,
    InputOptions,
    OutputOptions,
    SplitOptions,
)
from tests.pictures import write_files, write_pictures


@pytest.fixture
def options(tmp_path: Path) -> ConvertOptions:
    """A table of two columns, and an option of each kind."""
    write_pictures(f"{tmp_path}/photos", ["1.jpg"])
    write_files(str(tmp_path), {"l.csv": "filename,label,size\n1.jpg,cat,2\n"})
    return ConvertOptions(
        inputs=InputOptions(images=(f"{tmp_path}/photos",), labels=(f"{tmp_path}/l.csv",)),
        splits=SplitOptions(
            splits=SplitFractions((("train", Fraction(9, 10)), ("test", Fraction(1, 10)))),
            num_shards={"train": 3},
            seed=7,
        ),
        images=ImageOptions(clip_boxes=True),
        output=OutputOptions(
            output=f"{tmp_path}/my set/", compression="gzip", features={"image/source_id": "label"}
        ),
    )


RECORDED = (
    '{"splits": {"train": 0.9, "test": 0.1}, "num_shards": {"train": 3}, "shard_size": 200000000, '
    '"layout": "table", "label_base": 0, "label_order": "code_point", "label_from_name": false, '
    '"columns": [{"name": "label", "kind": "class", "feature": "image/class", "repeated": false}, '
    '{"name": "size", "kind": "int64", "feature": "label/size", "repeated": false}], '
    '"features": {"image/source_id": "image/class/label"}, "shuffle": "references", '
    '"image_check": "header", "image_encoding": null, "clip_boxes": true, "compression": "gzip"}'
)


def test_recorded_options_keep_their_form_and_order(options: ConvertOptions) -> None:
    """The manifest and the digests of receipts depend on them, byte for byte."""
    config, _ = convert_config(options)
    assert json.dumps(config.recorded) == RECORDED
    assert list(config.run) == ["name", "seed", "options", "features"]
    assert (config.name, config.run["seed"]) == ("my_set", 7)


def test_filters_are_recorded_where_they_are_given(options: ConvertOptions) -> None:
    """In one order, whatever the order they were typed in; manifests without them stay as they were."""
    images = ImageOptions(clip_boxes=True, max_image_bytes=500, max_aspect=2.5, min_side=3)
    config, _ = convert_config(dataclasses.replace(options, images=images))
    filters = '{"min_side": 3, "max_aspect": 2.5, "max_image_bytes": 500}'
    assert json.dumps(config.recorded) == f'{RECORDED[:-1]}, "filters": {filters}}}'
    assert json.dumps(config.encoding.recorded()["filters"]) == filters
    assert config.encoding.options.filters == images.filters


def test_what_was_typed_and_what_it_is_are_kept_apart(
    options: ConvertOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The options stay as typed; paths, name and features are resolved beside them."""
    monkeypatch.chdir(tmp_path)
    typed = ConvertOptions(inputs=InputOptions(images=("photos",)), output=OutputOptions("out"))
    config, why = convert_config(typed)
    assert config.options is typed
    assert config.output == f"{tmp_path}/out"
    assert config.name == "out"
    assert [root.uri for root in config.source.roots] == [f"{tmp_path}/photos"]
    assert (config.label_bytes, config.inventory, config.renames) == (None, (), {})
    assert why == "no --labels and no other layout's files"
    labelled, _ = convert_config(options)
    assert labelled.label_bytes == len("filename,label,size\n1.jpg,cat,2\n")


def test_the_command_shown_is_that_of_the_data_set(options: ConvertOptions) -> None:
    """Whatever engine, folder and earlier data set made it, and without secrets."""
    config, _ = convert_config(options)
    here = OutputOptions("/elsewhere/x", name="my_set", overwrite=True, reuse="sets/1")
    again = dataclasses.replace(options, output=here, engine=EngineOptions(writers=3))
    other = dataclasses.replace(config, options=again, output="/elsewhere/x")
    plain = dataclasses.replace(here, output="my_set", overwrite=False, reuse="")
    expected = dataclasses.replace(options, output=plain, engine=EngineOptions()).command()
    assert other.command == expected
    shown = dataclasses.replace(other, shown_inputs={"labels": ("https://h/a.csv?sig=5e3c",)})
    assert "--labels 'https://h/a.csv?...'" in shown.command
    assert dataclasses.replace(other, made_by="f()").command == "f()"


def test_an_encoding_for_images_in_files_is_refused(options: ConvertOptions) -> None:
    """Only the source tells whether images are bare pixels."""
    config, _ = convert_config(options)
    raw = ConvertOptions(images=ImageOptions(image_encoding="raw"))
    with pytest.raises(UsageError, match="--image_encoding is for images that are bare pixels"):
        ConvertConfig(options=raw, source=config.source, output="/out", name="x")
