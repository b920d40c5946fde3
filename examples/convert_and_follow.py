"""A conversion inside a pipeline of your own, and steps that follow it.

python examples/convert_and_follow.py IMAGES OUTPUT [options of Beam]
"""

import sys

import apache_beam as beam

from beam_pipeline.transforms import ConvertImages


def main(images: str, output: str, beam_options: list[str]) -> None:
    """Runs the pipeline."""
    with beam.Pipeline(argv=beam_options) as pipeline:
        converted = pipeline | ConvertImages(
            images, output, splits={"train": 0.5, "test": 0.5}, num_shards=2, max_bad_fraction=1
        )
        _ = (
            converted.bad
            | "Reasons" >> beam.Map(lambda bad: bad.reason)
            | "Count" >> beam.combiners.Count.PerElement()
            | "PrintReasons" >> beam.Map(print)
        )
        _ = (
            converted.manifest
            | "Publish" >> beam.Map(lambda committed: f"{committed.examples} examples")
            | "PrintExamples" >> beam.Map(print)
        )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
