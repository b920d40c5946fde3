"""Labels of your own and an embedding beside each image, as shuffled shards.

python examples/embeddings_and_own_labels.py IMAGES OUTPUT [options of Beam]
"""

import io
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.io.filesystems import FileSystems
from apache_beam.ml.inference.base import ModelHandler, RunInference
from PIL import Image, UnidentifiedImageError

from beam_pipeline.transforms import (
    BadSample,
    Encoder,
    ImageFile,
    Images,
    ImageSample,
    JoinLabels,
    ReadImages,
    WriteImageShards,
)

SIDE, LENGTH = 4, 8


def own_labels(image: ImageFile) -> dict[str, Any]:
    """Stands for rows of a query or a feature store, which name images by their paths."""
    return {"path": image.key, "species": image.key.split("/")[0], "bytes": image.size}


class Embed(ModelHandler[ImageSample, ImageSample, np.ndarray]):
    """A tiny model: the embedding goes into the labels, which are shuffled; images are not."""

    def load_model(self) -> np.ndarray:
        return np.random.default_rng(0).normal(size=(SIDE * SIDE * 3, LENGTH))

    def run_inference(
        self,
        batch: Sequence[ImageSample],
        model: np.ndarray,
        inference_args: Any = None,
    ) -> Iterable[ImageSample]:
        for sample in batch:
            with FileSystems.open(sample.uri) as file:
                content = file.read()
            try:
                image = Image.open(io.BytesIO(content)).convert("RGB").resize((SIDE, SIDE))
            except UnidentifiedImageError:
                yield sample  # WriteImageShards tells what is wrong with it
                continue
            vector = np.asarray(image).ravel() / 255 @ model
            yield sample._replace(labels={**sample.labels, "embedding": vector.tolist()})


class WithEmbedding(Encoder):
    """The features of `Images`, and the embedding."""

    def __init__(self) -> None:
        self.images = Images({"species": "class", "bytes": "int"})
        self.labels = self.images.labels
        self.fingerprint = f"embedding 1, {self.images.fingerprint}"
        embedding = {"kind": "float", "shape": [LENGTH], "optional": False}
        self.features = {**self.images.features, "image/embedding": embedding}

    def encode(self, sample: ImageSample, image_bytes: bytes) -> Mapping[str, Any] | BadSample:
        features = self.images.encode(sample, image_bytes)
        if isinstance(features, BadSample):
            return features
        return {**features, "image/embedding": sample.labels["embedding"]}


def main(images: str, output: str, beam_options: list[str]) -> None:
    """Runs the pipeline."""
    with beam.Pipeline(argv=beam_options) as pipeline:
        listed = pipeline | ReadImages(images)
        rows = listed | "OwnLabels" >> beam.Map(own_labels)
        labels = {"species": "class", "bytes": "int"}
        joined = {"images": listed, "rows": rows} | JoinLabels(labels, key="path")
        embedded = joined.samples | "Embed" >> RunInference(Embed())
        written = joined._replace(samples=embedded) | WriteImageShards(
            output,
            WithEmbedding(),
            num_shards=2,
            splits={"train": 0.5, "test": 0.5},
            on_error="collect",
        )
        _ = (
            written.bad
            | "Reason" >> beam.Map(lambda bad: bad.reason)
            | "PrintBad" >> beam.Map(print)
        )
        _ = (
            written.manifest
            | "Count" >> beam.Map(lambda committed: f"{committed.examples} examples")
            | "Print" >> beam.Map(print)
        )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
