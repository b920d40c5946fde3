"""The textbook pipeline: every image is read and encoded early, and Beam's own sink writes the records.

Its order, and so the bytes, differ from run to run, every image byte is shuffled, and nothing but Beam's names
of files describes the data set; `WriteImageShards` needs the same lines.

python examples/textbook.py IMAGES OUTPUT [options of Beam]
"""

import sys

import apache_beam as beam

from beam_pipeline.transforms import EncodeImages, ImageFile, Images, JoinLabels, ReadImages

LABELS = {"species": "class"}


def own_labels(image: ImageFile) -> dict[str, str]:
    """Stands for a query."""
    return {"image": image.key, "species": image.key.split("/")[0]}


def main(images: str, output: str, beam_options: list[str]) -> None:
    """Runs the pipeline."""
    with beam.Pipeline(argv=beam_options) as pipeline:
        listed = pipeline | ReadImages(images)
        rows = listed | "OwnLabels" >> beam.Map(own_labels)
        encoded = (
            {"images": listed, "rows": rows}
            | JoinLabels(LABELS)
            | EncodeImages(Images(LABELS, class_names=["a", "b"]))
        )
        _ = (
            encoded.bad
            | "Reason" >> beam.Map(lambda bad: bad.reason)
            | "PrintBad" >> beam.Map(print)
        )
        _ = (
            encoded.records
            | "Shuffle" >> beam.Reshuffle()
            | beam.io.WriteToTFRecord(f"{output}/photos-train.tfrecord", num_shards=2)
        )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
