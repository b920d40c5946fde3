"""Samples that are encoded to be measured."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

from beam_pipeline.core.images.geometry import ImageChanges
from beam_pipeline.core.labels.schema import CLASS_FOLDER_COLUMNS
from beam_pipeline.core.records.example_source import ExampleOptions, LabelledImages
from beam_pipeline.core.records.sharding import KeyHasher
from beam_pipeline.core.references import SampleRef
from beam_pipeline.storage.read_ahead import ONE_BY_ONE
from beam_pipeline.work.outcome import Call
from beam_pipeline.work.planning import measure_images
from beam_pipeline.work.writing import EncodingOptions
from tests.pictures import picture, write_files

ENCODING = EncodingOptions(
    LabelledImages(CLASS_FOLDER_COLUMNS),
    seed=3,
    options=ExampleOptions(changes=ImageChanges(resize=(20, 20))),
)


def test_the_size_of_a_record_is_measured_and_a_bad_image_is_not(tmp_path: Path) -> None:
    """Bytes of the file, and of what is written of it; the task can be sent to another process."""
    files = {"a.jpg": picture(size=(300, 200)), "b.jpg": b"no image", "c.jpg": picture()}
    write_files(str(tmp_path), dict(files))
    refs = [
        SampleRef(key, f"{tmp_path}/{key}", os.path.getsize(tmp_path / key), "train", ("x",))
        for key in files
    ]
    call = pickle.loads(pickle.dumps(Call(measure_images, (ENCODING, refs, ONE_BY_ONE))))
    (tally,) = call.run().main
    large, small = tally.measured
    assert large.order == KeyHasher(3).order("a.jpg")
    assert (large.size, small.size) == (len(files["a.jpg"]), len(files["c.jpg"]))
    assert small.written > small.size  # its own bytes, with features around them
    assert 0 < large.written < large.size
    assert large.seconds > 0
