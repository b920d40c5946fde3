"""The conversion as steps of somebody's pipeline: all of it (`ConvertImages`), or its second half, from samples on."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import apache_beam as beam

from beam_pipeline.config import ConvertConfig
from beam_pipeline.conversion import Paths
from beam_pipeline.core import dead_letters
from beam_pipeline.core.dataset.names import dataset_name
from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.errors import ConversionError, FailurePolicy, UsageError
from beam_pipeline.core.labels import join, schema
from beam_pipeline.core.labels.classes import KnownClasses, SampleFilters
from beam_pipeline.core.packing import DeadLetterBatch, ImageBatch, SampleBatch
from beam_pipeline.core.records import example_source, formats, shard_writer, sharding
from beam_pipeline.core.text import excerpt
from beam_pipeline.inputs import checked_config, output_folder, resolve_renames
from beam_pipeline.layouts.layout import PipelineLabels, Source
from beam_pipeline.options import ConvertOptions, as_arguments, speaking_of_arguments
from beam_pipeline.options.output import ImageOptions
from beam_pipeline.pipeline import Dataflow, Stage
from beam_pipeline.transforms.encoding import EncodedSamples, Encoder, OneImage, encode_image
from beam_pipeline.transforms.in_workers import stage
from beam_pipeline.transforms.output import BadSample, WriteResult, bad_samples
from beam_pipeline.transforms.samples import (
    UNLABELLED,
    ImageSample,
    JoinedSamples,
    Labels,
    ReadLabels,
    SampleReader,
    batched,
    check_choice,
    columns_of,
    dead_letter,
)
from beam_pipeline.transforms.shuffled import IF_EXISTS, ON_ERROR, in_arguments
from beam_pipeline.work import label_columns, writing
from beam_pipeline.work.labels import Labelling
from beam_pipeline.work.outcome import DEAD_LETTERS, TALLY, Outcome
from beam_pipeline.work.records import class_numbering

_OF_A_DATA_SET = ("max_bad_fraction", "duplicates")  # image options that are not about one image
_LAYOUT = "pipeline"


_OF_A_LAUNCHER = ("no_wait", "writers")
_OF_THE_COMMAND = FailurePolicy(reword=as_arguments)


def _of_samples(message: str) -> str:
    return as_arguments(in_arguments(message))


_OF_SAMPLES = FailurePolicy(reword=_of_samples)


class ConvertImages(beam.PTransform):
    """Converts images and labels to shuffled, sharded TFRecords: `beam-tfrecord convert` as a step.

    It is at the beginning of a pipeline, on any runner, and gives the bytes that the command gives.
    The layout is detected, and the beginnings of label files are read, when it is applied to a pipeline;
    the output folder is prepared, and images are listed and read, when that runs.
    """

    def __init__(
        self,
        images: Paths,
        output: str | os.PathLike[str],
        labels: Paths | None = None,
        **options: Any,
    ) -> None:
        """Takes what `beam_pipeline.convert` takes, with labels in files.

        Args:
          images: folder, glob or file, or several of them.
          output: output folder, made if missing. All workers must see it.
          labels: path or paths of label files; by default labels come from the images' layout.
          **options: options of the command, except its launcher's (`no_wait`, `writers`).

        Returns (of `expand`): a `WriteResult`.

        Raises:
          UsageError: an argument cannot be used; in `expand`, also a guess about the labels that is not
            safe (`yes=True` accepts it).
          ConversionError: in `expand`: a file cannot be used, and why.
        """
        super().__init__()
        launcher = next((name for name in _OF_A_LAUNCHER if name in options), None)
        if launcher:
            raise UsageError(f"ConvertImages has no argument {launcher!r}: only the command has it")
        given = {**options, "images": images, "labels": labels, "output": output}
        with speaking_of_arguments():
            self._options = ConvertOptions.of_python(given)

    def expand(self, pipeline: beam.Pipeline) -> WriteResult:
        with speaking_of_arguments():
            config = checked_config(self._options)
        dataflow = Dataflow(config, _OF_THE_COMMAND).after_preparing(pipeline)
        return WriteResult.of(config.output, *dataflow.convert(pipeline))


class Images(Encoder):
    """The encoder of `beam-tfrecord convert`: an image as it is or re-encoded, its size, and its labels.

    Attributes that `Encoder` does not have are private.

    Example::

        Images({"species": "class", "age": "int"}, resize=256, image_format="jpeg")
    """

    def __init__(
        self,
        labels: Labels | None = None,
        *,
        class_names: Sequence[str] = (),
        features: Mapping[str, str] | None = None,
        unlabelled: str = "auto",
        **options: Any,
    ) -> None:
        """Takes the labels, and the command's options on images.

        Args:
          labels: of the samples, as `JoinLabels` takes them.
          class_names: the only classes that there are, with the ids 0, 1, 2, ...; by default those of the
            samples, sorted.
          features: key to write a feature under -> its usual key, or a label.
          unlabelled: "keep" if `JoinLabels` keeps images without a row.
          **options: `image_check`, `orientation`, `resize`, `image_format`, `quality`, `reencode`, `clip_boxes`,
            `min_side`, ... as Python values.

        Raises:
          UsageError: an argument cannot be used.
        """
        check_choice("unlabelled", unlabelled, UNLABELLED)
        known = {o.name for o in ImageOptions.options()} - {*_OF_A_DATA_SET}
        if unknown := sorted(options.keys() - known):
            raise UsageError(
                f"Images has no argument {unknown[0]!r}; its options are {', '.join(sorted(known))}"
            )
        with speaking_of_arguments():
            self.options = ConvertOptions.of_python({**options, "features": features or None})
        self.classes = class_numbering(class_names) if class_names else None
        self._given, self._unlabelled = labels, unlabelled
        if not isinstance(labels, ReadLabels):
            columns_of(labels)  # for its errors

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_given": self.labels}

    @cached_property
    def labels(self) -> label_columns.LabelColumns:
        """The labels, with the ids of their classes; the beginnings of label files are read."""
        given = self._given
        if self.options.images.resize is not None and isinstance(given, ReadLabels):
            given.check_resize()
        columns = columns_of(given)
        columns = columns.with_unlabelled() if self._unlabelled == "keep" else columns
        return dataclasses.replace(columns, numbering=self.classes or columns.numbering)

    @cached_property
    def config(self) -> ConvertConfig:
        """The conversion of such samples, to nowhere."""
        return _config(self.options, self)

    @cached_property
    def features(self) -> Mapping[str, Any]:  # type: ignore[override]
        """Every feature of an example, like the manifest's."""
        return self.config.encoding.features(turned=True)

    @cached_property
    def fingerprint(self) -> str:  # type: ignore[override]
        """A hash of the labels and options, and of the versions of what encodes."""
        recorded = [self.config.encoding.recorded(), self.classes and self.classes.known]
        content = json.dumps(recorded, sort_keys=True)
        return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()

    def encode(self, sample: ImageSample, image_bytes: bytes) -> Mapping[str, Any] | BadSample:
        """The features of an image and its labels; further labels of the sample are ignored.

        Class ids come from the data set that is being written; elsewhere, from `class_names`.
        """
        names = {column.name for column in self.labels.columns}
        labels = {name: value for name, value in sample.labels.items() if name in names}
        made: Any = SampleReader(self.labels)(sample._replace(labels=labels))
        if not isinstance(made, dead_letters.DeadLetter):
            unknown = self.config.known and self.config.known.dead_letter(made)
            made = unknown or encode_image(self, self._one_image, made, image_bytes)
        if isinstance(made, dead_letters.DeadLetter):
            (made,) = bad_samples(DeadLetterBatch([made]))
        encoded: Mapping[str, Any] | BadSample = made
        return encoded

    def _one_image(self, class_ids: Mapping[str, int] | None) -> OneImage:
        if class_ids is None:
            if schema.class_column(self.labels.columns) is not None and self.classes is None:
                raise UsageError(
                    "class ids are known while WriteImageShards writes; to encode elsewhere, give Images "
                    "its class_names"
                )
            class_ids = dict(self.classes.known if self.classes else ())
        encoding, examples = self.config.encoding, _taken_by(self)[0]
        return OneImage(examples, encoding.options, class_ids)


class EncodedImages(NamedTuple):
    """Examples for any sink.

    Attributes:
      records: PCollection of bytes, serialized `tf.train.Example`s.
      bad: PCollection of `BadSample`, of the other samples.
    """

    records: beam.PCollection[bytes]
    bad: beam.PCollection[BadSample]


class EncodeImages(beam.PTransform):
    """Reads and encodes the images of samples, for `beam.io.WriteToTFRecord` or any sink: -> `EncodedImages`.

    It takes what `WriteImageShards` takes. The images travel on through the pipeline, so every byte is
    shuffled where records are; class ids come from `class_names`.

    Example::

        encoded = joined | EncodeImages(Images({"species": "class"}, class_names=["cat", "dog"]))
    """

    def __init__(self, encoder: Encoder | None = None) -> None:
        """Takes what makes examples; by default `Images()`.

        Raises:
          UsageError: in `expand`: the encoder's classes have no ids.
          ValueError: in `expand`: a PCollection is unbounded.
        """
        super().__init__()
        self._encoder = _encoder(encoder)

    def expand(self, samples: Any) -> EncodedImages:
        inputs, encoder = _inputs(samples), self._encoder
        config, labels = _config(ConvertOptions(), encoder), columns_of(encoder.labels)
        if schema.class_column(labels.columns) is not None and not labels.numbering.known:
            raise UsageError("EncodeImages does not see all classes; give Images its class_names")
        read = batched(inputs["samples"], "Samples", SampleBatch, _taken_by(encoder)[1])
        class_ids = dict(labels.numbering.known)
        encode = partial(_encode, encoding=config.encoding, class_ids=class_ids, known=config.known)
        encode_stage = stage(encode, bytes, DEAD_LETTERS, main="records")
        encoded = read["items"] | beam.Reshuffle() | "Encode" >> encode_stage
        bad = (read[DEAD_LETTERS], encoded[DEAD_LETTERS]) | "AllBad" >> beam.Flatten()
        public = bad | "BadSamples" >> beam.FlatMap(bad_samples).with_output_types(BadSample)
        letters = [public, *([inputs["bad"]] if "bad" in inputs else [])]
        return EncodedImages(encoded["records"], letters | "AllOfThem" >> beam.Flatten())


def _encode(
    samples: SampleBatch,
    encoding: writing.EncodingOptions,
    class_ids: Mapping[str, int],
    known: KnownClasses | None,
) -> Iterator[Outcome]:
    refs, letters = SampleFilters((known,) if known else ()).apply(samples)
    with encoding.maker(class_ids, refs, None) as maker:
        for ref in refs:
            try:
                encoded = maker.make(ref)
            except shard_writer.Rejected as rejected:
                letters.append(rejected.letter)
                continue
            letters += encoded.dead_letters
            yield Outcome([encoded.record])
    yield Outcome(dead_letters=DeadLetterBatch(letters))


class WriteImageShards(beam.PTransform):
    """Writes samples as shuffled shards with a manifest, as `beam-tfrecord convert` does: the same bytes.

    It takes the `JoinedSamples` of `JoinLabels`, or a PCollection whose elements are `ImageSample` or `ImageFile`,
    and opens images only when it writes their shards. Two samples of one split must not share a key. Windows end
    here: all samples of a bounded PCollection are one data set.

    Example::

        written = joined | WriteImageShards("out", Images({"species": "class"}), num_shards=16)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        encoder: Encoder | None = None,
        *,
        num_shards: int | Mapping[str, int] | None = None,
        shard_size: int | str = sharding.DEFAULT_SHARD_BYTES,
        splits: Mapping[str, float] | None = None,
        seed: int = 0,
        compression: str = "none",
        format: str = "tfrecord",  # noqa: A002 - the name of the command's option
        name: str = "",
        if_exists: str = "fail",
        on_error: str = "raise",
    ) -> None:
        """Takes the folder, and what makes examples.

        Args:
          path: folder for the data set, local or in a bucket; made if missing. All workers must see it.
          encoder: makes examples of samples; by default `Images()`, for images without labels.
          num_shards: shards per split; by default as many as `shard_size` asks for.
          shard_size: target shard size in bytes of images.
          splits: split -> share, to split by a hash of the key; by default samples keep their own.
          seed: shuffle seed.
          compression: "none" or "gzip".
          format: "tfrecord", "array_record" or "webdataset".
          name: prefix of file names; by default the folder's name.
          if_exists: where the folder contains files: "fail"; "resume", which keeps the shards of a run with
            the same samples, arguments and fingerprint; "overwrite", which replaces an earlier run's data set.
          on_error: "raise" fails the pipeline if a sample is bad, except for images without labels; "collect"
            leaves bad samples out.

        Returns (of `expand`): a `WriteResult`.

        Raises:
          UsageError: an argument cannot be used.
          ValueError: in `expand`: a PCollection is unbounded.
        """
        super().__init__()
        check_choice("if_exists", if_exists, IF_EXISTS)
        check_choice("on_error", on_error, ON_ERROR)
        self._encoder = _encoder(encoder)
        numbers = {"num_shards": num_shards, "shard_size": shard_size, "seed": seed}
        stored = {"output": path, "name": name, "compression": compression, "format": format}
        there = {"resume": if_exists == "resume", "overwrite": if_exists == "overwrite"}
        given = {**numbers, **stored, **there, "splits": splits or None, "no_report": True}
        with speaking_of_arguments():
            options = ConvertOptions.of_python(given)
            formats.record_format(compression, format)  # for its errors
        images = ImageOptions(max_bad_fraction=float(on_error == "collect"))
        self._options = dataclasses.replace(options, images=images)

    def expand(self, samples: Any) -> WriteResult:
        try:
            folder = output_folder(self._options.output.output)
            config = _config(self._options, self._encoder, folder)
        except ConversionError as error:
            raise _OF_SAMPLES.reworded(error) from error
        inputs = _inputs(samples)
        dataflow = Dataflow(config, _OF_SAMPLES).after_preparing(inputs["samples"].pipeline)
        stages = _stages(inputs, _taken_by(self._encoder)[1], dataflow)
        return WriteResult.of(config.output, *dataflow.write(stages))


def _inputs(samples: Any) -> dict[str, beam.PCollection]:
    """{"samples"} and perhaps {"bad"} of what was piped in."""
    if isinstance(samples, beam.PCollection):
        return {"samples": samples}
    if isinstance(samples, Mapping) and "samples" in samples:
        return dict(samples)
    if isinstance(samples, tuple) and len(samples) == len(JoinedSamples._fields):
        return JoinedSamples(*samples)._asdict()
    raise UsageError(
        "WriteImageShards takes the JoinedSamples of JoinLabels, or a PCollection of ImageSamples or ImageFiles"
    )


def _config(options: ConvertOptions, encoder: Encoder, folder: str = "") -> ConvertConfig:
    """The conversion of samples that come from elsewhere; to nowhere without a folder."""
    labels, known = columns_of(encoder.labels), None
    if isinstance(encoder, Images):
        bad = options.images.max_bad_fraction
        images = dataclasses.replace(encoder.options.images, max_bad_fraction=bad)
        output = dataclasses.replace(options.output, features=encoder.options.output.features)
        options = dataclasses.replace(options, images=images, output=output)
        column = schema.class_column(labels.columns)
        if encoder.classes and column is not None:
            names = tuple(name for name, _ in encoder.classes.known)
            known = KnownClasses(names, column, "class_names")
    examples = _taken_by(encoder)[0]
    return ConvertConfig(
        options=options,
        source=Source(_LAYOUT, (), PipelineLabels(), examples, numbering=labels.numbering),
        output=folder,
        name=options.output.name or dataset_name(folder),
        renames=resolve_renames(options.output.features, labels.columns),
        known=known,
    )


def _encoder(given: Encoder | None) -> Encoder:
    """The encoder of a transform. Raises UsageError if it is none, such as a class."""
    if given is not None and not isinstance(given, Encoder):
        raise UsageError(f"encoder is {excerpt(given)}, expected Images(...) or another Encoder")
    return given or Images()


def _taken_by(encoder: Encoder) -> tuple[Any, SampleReader]:
    """The samples that an encoder takes, and what makes references of them."""
    if isinstance(encoder, Images):
        columns = columns_of(encoder.labels)
        return example_source.LabelledImages(columns.columns, keyed=True), SampleReader(columns)
    examples = EncodedSamples.of(encoder)
    return examples, examples.reader


def _stages(
    inputs: Mapping[str, beam.PCollection], reader: SampleReader, dataflow: Dataflow
) -> list[Stage]:
    """The stages that the conversion of files has before it writes: of what is bad, and of the samples."""
    read = batched(inputs["samples"], "Samples", SampleBatch, reader)
    letters = [read[DEAD_LETTERS]]
    if "bad" in inputs:
        letters.append(batched(inputs["bad"], "Bad", ImageBatch, dead_letter)[DEAD_LETTERS])
    dead = letters | "AllBad" >> beam.Flatten()
    tallies = (
        dead | "CountBad" >> beam.Map(_count_bad).with_output_types(Tally),
        dataflow.prepared | "NoSamples" >> beam.Map(lambda _: Tally()).with_output_types(Tally),
    ) | "BadTallies" >> beam.Flatten()
    config = dataflow.config
    labelling = Labelling(config.split_assigner, config.source.columns, config.sample_filter)
    label = partial(_label, labelling=labelling)
    labelling_stage = stage(label, SampleBatch, DEAD_LETTERS, TALLY, main="samples")
    return [{TALLY: tallies, DEAD_LETTERS: dead}, read["items"] | "Label" >> labelling_stage]


def _label(samples: SampleBatch, labelling: Labelling) -> list[Outcome]:
    outcome = labelling.of(join.Joined(samples=list(samples)))
    assert outcome.tally is not None
    outcome.tally.listed = len(samples)
    return [outcome]


def _count_bad(letters: DeadLetterBatch) -> Tally:
    """Counts bad samples; rows of label files have no image."""
    rows = sum(not letter.uri for letter in letters)
    tally = Tally(listed=len(letters) - rows, orphan_rows=rows)
    tally.add_dead_letters(letters)
    return tally
