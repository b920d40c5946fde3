"""A pipeline of your own whose records become shuffled shards, and a step that follows the commit.

python examples/records_to_shards.py OUTPUT [options of Beam]
"""

import sys

import apache_beam as beam

from beam_pipeline.transforms import CommittedDataset, WriteToShuffledTFRecord


def measure(number: int) -> dict[str, object]:
    """Stands for the work of your pipeline; here, a sensor's readings."""
    return {
        "id": f"reading-{number:05d}",
        "celsius": [20 + number % 7 / 2, 21.5],
        "picture": bytes(range(256)) * (number % 3 * 40),  # up to 20 KB
    }


def announce(committed: CommittedDataset) -> str:
    """Runs once, when the manifest is there: start a training here, or tell somebody."""
    return f"{committed.examples} records in {committed.shards} shards"


def main(output: str, beam_options: list[str]) -> None:
    """Runs the pipeline."""
    with beam.Pipeline(argv=beam_options) as pipeline:
        written = (
            pipeline
            | "Sensors" >> beam.Create(range(1000))
            | "Measure" >> beam.Map(measure)
            | "Write"
            >> WriteToShuffledTFRecord(
                output,
                key="id",
                splits={"train": 0.9, "test": 0.1},
                num_shards={"train": 4, "test": 1},
                exact_sizes=True,
            )
        )
        _ = written.manifest | "Announce" >> beam.Map(announce) | "Print" >> beam.Map(print)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
