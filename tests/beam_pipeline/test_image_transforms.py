"""`WriteImageShards`, `Images`, encoders of one's own and `ConvertImages`, in Python and in YAML."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

import beam_pipeline
from beam_pipeline.cli import main
from beam_pipeline.core import errors
from beam_pipeline.transforms import (
    BadSample,
    ConvertImages,
    EncodeImages,
    Encoder,
    ImageFile,
    Images,
    ImageSample,
    JoinLabels,
    ReadImages,
    ReadLabels,
    WriteImageShards,
)
from tests import harness
from tests.conformance.pages import make_data
from tests.pictures import picture, write_files
from tests.rows import in_rows

SPLITS = {"train": 0.5, "test": 0.5}
SHARDS: dict[str, Any] = {"num_shards": 2, "splits": SPLITS}
ARGV = ("--num_shards", "2", "--splits", "train=0.5,test=0.5", "--max_bad_fraction", "1")


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: twelve images, one file that is none, and a table of them."""
    monkeypatch.chdir(tmp_path)
    images: dict[str, Any] = {
        f"{c}/{i}.jpg": picture(i, size=(40, 30)) for c in "ab" for i in range(6)
    }
    write_files("photos", {**images, "a/bad.jpg": "no image"})
    rows = "".join(f"{key},{'cat' if i % 2 else 'dog'},{i}\n" for i, key in enumerate(images))
    Path("labels.csv").write_text(f"filename,species,age\n{rows}a/bad.jpg,cat,1\ngone.jpg,dog,3\n")
    return tmp_path


def write(samples: Any, *transforms: WriteImageShards) -> None:
    """Runs a pipeline of elements, or of what a function makes of its beginning, and writes it."""
    with beam.Pipeline(FnApiRunner()) as pipeline:
        made = samples(pipeline) if callable(samples) else pipeline | beam.Create(samples)
        for number, transform in enumerate(transforms):
            _ = made | f"Write{number}" >> transform


def joined(pipeline: beam.Pipeline, labels: ReadLabels | None = None) -> Any:
    """The images joined with their table."""
    labels = labels or ReadLabels("labels.csv", label_column="species")
    read = pipeline | labels
    images = pipeline | ReadImages("photos")
    return {"images": images, "rows": read.rows, "bad": read.bad} | JoinLabels(labels)


def sample(key: str, **labels: Any) -> ImageSample:
    """A sample of the images."""
    return ImageSample(
        key, os.path.abspath(f"photos/{key}"), os.path.getsize(f"photos/{key}"), labels
    )


class Bare(Encoder):
    """Has no features."""

    fingerprint, features = "bare", {}


class WithLength(Encoder):
    """The features of `Images` and the length of the file."""

    def __init__(self, fingerprint: str = "length 1", **options: Any) -> None:
        self.images = Images({"species": "class"}, **options)
        self.fingerprint = f"{fingerprint} {self.images.fingerprint}"
        self.labels = self.images.labels
        self.features = {**self.images.features, "length": "int64", "age": "int64"}

    def encode(self, sample: ImageSample, image_bytes: bytes) -> Mapping[str, Any] | BadSample:
        features = self.images.encode(sample, image_bytes)
        if isinstance(features, BadSample):
            return features
        return {**features, "length": len(image_bytes), "age": sample.labels["age"]}


class Unlabelled(Encoder):
    """The features of `Images()`."""

    fingerprint = "unlabelled"
    images = Images()
    labels, features = images.labels, images.features

    def encode(self, sample: ImageSample, image_bytes: bytes) -> Mapping[str, Any] | BadSample:
        if "x" in sample.labels:
            return BadSample(sample.key, "bad_label_value", "x", stage="labels")
        return self.images.encode(sample, image_bytes)


@pytest.mark.promise("same_bytes")
@pytest.mark.parametrize(
    ("options", "argv"),
    [
        ({}, ()),
        ({"resize": 16, "image_format": "png"}, ("--resize", "16", "--image_format", "png")),
        ({"features": {"y": "species"}, "min_side": 31}, ("--features=y=species", "--min_side=31")),
        ({}, ("--columns", "right:file", "--yes")),
    ],
    ids=["as they are", "scaled", "renamed and filtered", "with files beside"],
)
def test_it_gives_the_shards_of_the_command(
    photos: Path, options: dict[str, Any], argv: tuple[str, ...]
) -> None:
    """And its dead letters, classes and figures; results follow the commit."""
    if "min_side" in options:
        write_files("photos", {"b/9.jpg": picture(9, size=(60, 50))})
        with open("labels.csv", "a") as table:
            table.write("b/9.jpg,cat,4\n")
    reading: dict[str, Any] = {"label_column": "species"}
    if "right:file" in argv:
        reading |= {"images": "photos", "columns": {"right": "file"}, "yes": True}
        write_files("right", {"1.jpg": picture(1), "2.jpg": "no image"})
        rows = "".join(f"a/{i}.jpg,cat,../right/{i}.jpg\n" for i in range(4))
        Path("labels.csv").write_text(f"filename,species,right\n{rows}")
    inputs = ("--images", "photos", "--labels", "labels.csv", "--label_column", "species")
    code = harness.convert(*inputs, *ARGV, *argv, "--output", "command/out")
    labels = ReadLabels("labels.csv", **reading)
    with beam.Pipeline(FnApiRunner()) as pipeline:
        result = joined(pipeline, labels) | WriteImageShards(
            "step/out", Images(labels, **options), on_error="collect", **SHARDS
        )
        names = result.shards | beam.Map(lambda shard: os.path.basename(shard.path))
        assert_that(names, equal_to(harness.shard_names("command/out")), label="Shards")
        bad = result.bad | "Reason" >> beam.Map(lambda bad: bad.reason)
        reasons = [letter["reason"] for letter in harness.dead_letters_of("command/out")]
        assert_that(bad, equal_to(reasons), label="Bad")
        there = result.manifest | "There" >> beam.Map(lambda c: (os.path.exists(c.manifest), c.bad))
        assert_that(there, equal_to([(True, len(reasons))]), label="Committed")
    assert code == 0
    ours = {name: digest for name, digest in harness.digests("step/out").items() if "." in name}
    theirs = harness.digests("command/out")
    differ = {name for name, digest in ours.items() if theirs[name] != digest}
    assert differ == {"README.md", "manifest.json"}
    counts = [harness.manifest_of(folder)["counts"] for folder in ("command/out", "step/out")]
    assert counts[0] == {**counts[1], "label_rows": counts[0]["label_rows"]}


def test_images_without_labels(photos: Path) -> None:
    """A list of files is enough; what cannot be an image is bad; a folder called as a split is one."""
    write_files("photos", {"test/c.jpg": picture(7)})
    files = [ImageFile(key, f"{photos}/photos/{key}", 1) for key in ("a/0.jpg", "test/c.jpg")]
    files = [file._replace(size=os.path.getsize(file.uri)) for file in files]
    pipe = ImageFile("pipe.jpg", "/pipe.jpg", 0, reason="not_a_file", message="a pipe")
    write([*files, pipe], WriteImageShards("out", on_error="collect"))
    assert {key: e["image/filename"] for key, e in harness.read_all("out").items()} == {
        "a/0.jpg": [b"a/0.jpg"],
        "test/c.jpg": [b"test/c.jpg"],
    }
    assert harness.manifest_of("out")["splits"].keys() == {"test", "train"}
    assert [(d["key"], d["reason"]) for d in harness.dead_letters_of("out")] == [
        ("pipe.jpg", "not_a_file")
    ]


def test_features_of_ones_own_beside_those_of_images(photos: Path) -> None:
    """The other features are as before; objects, changes and statistics are counted; ids are the data set's."""
    collect = {"on_error": "collect", **SHARDS}
    images = Images({"species": "class", "age": "int"}, resize=16)
    mine_of = WriteImageShards("mine/out", WithLength(resize=16), **collect)
    write(joined, mine_of, WriteImageShards("plain/out", images, **collect))
    mine, plain = harness.read_all("mine/out"), harness.read_all("plain/out")
    assert mine.keys() == plain.keys()
    for key, features in mine.items():
        length, age = features.pop("length"), features.pop("age")
        assert (length, age) == ([os.path.getsize(f"photos/{key}")], plain[key].pop("label/age"))
        assert features == plain[key]
    manifests = [harness.manifest_of(folder) for folder in ("mine/out", "plain/out")]
    for entry in ("classes", "counts", "images", "dead_letters"):
        assert manifests[0].get(entry) == manifests[1].get(entry), entry
    assert manifests[0]["options"]["encoder"].startswith("length 1 ")
    assert "encoder" not in manifests[1]["options"]
    assert main(["verify", "mine/out"]) == 0


def test_objects_that_are_left_out_behind_an_encoder(photos: Path) -> None:
    """A box without an area is reported although `encode` never saw a bad sample."""
    box = {"kind": "box", "feature": "image/object/bbox", "repeated": True, "pixels": True}
    name = {"kind": "class", "feature": "image/object/class", "repeated": True}

    class Boxes(Encoder):
        fingerprint = "boxes"
        images = Images({"box": box, "name": name})
        labels, features = images.labels, images.features

        def encode(self, sample: ImageSample, image_bytes: bytes) -> Any:
            return self.images.encode(sample, image_bytes)

    boxes = [[1, 2, 9, 9], [4, 4, 4, 8]]
    samples = [sample("a/0.jpg", box=boxes, name=["cat", "dog"])]
    write(samples, WriteImageShards("out", Boxes(), on_error="collect"))
    assert harness.read_all("out")["a/0.jpg"]["image/object/class/text"] == [b"cat"]
    assert [d["reason"] for d in harness.dead_letters_of("out")] == ["empty_box"]
    counts = [(c["name"], c["objects"]) for c in harness.manifest_of("out")["classes"]]
    assert counts == [("cat", 1), ("dog", 0)]


def test_an_encoder_that_is_not_about_images(photos: Path) -> None:
    """Labels of any kind reach it; what it leaves out keeps its reason; what it must not return is bad."""

    class Tags(Encoder):
        fingerprint = "tags"

        def __init__(self) -> None:
            size = {"kind": "int64", "shape": [], "optional": False}
            self.features = {"tags": "bytes", "size": size}

        def encode(self, sample: ImageSample, image_bytes: bytes) -> Any:
            if sample.labels["tags"] == (0,):
                return "no features"
            if sample.labels["tags"] == ():
                return BadSample(sample.key, "no_tags", "it has no tags")
            more = {"more": 1} if sample.labels.get("wild") else {}
            return {"tags": list(sample.labels["tags"]), "size": sample.size, **more}

    samples = [sample("a/0.jpg", tags=["x", "y"]), sample("a/1.jpg", tags=[])]
    samples += [sample("a/2.jpg", tags=["z"], wild=True), sample("a/3.jpg", tags=b"bytes")]
    samples += [sample("a/4.jpg", tags=["z"])._replace(size=3 << 30)]
    write(samples, WriteImageShards("out", Tags(), on_error="collect"))
    ((_, example),) = harness.read_all_by("out", "tags").items()
    assert example == {"tags": [b"x", b"y"], "size": [len(picture(0, size=(40, 30)))]}
    more = "the encoder: 'more' is none of the features that were given"
    of_bytes = "label 'tags' contains bytes, which an encoder has to make itself"
    assert [(d["key"], d["reason"], d["message"]) for d in harness.dead_letters_of("out")] == [
        ("a/1.jpg", "no_tags", "it has no tags"),
        ("a/2.jpg", "bad_label_value", more),
        ("a/3.jpg", "bad_label_value", of_bytes),
        ("a/4.jpg", "too_large", "3221225472 bytes; an example is limited to 2 GiB"),
    ]
    with pytest.raises(Exception, match=r"Tags.encode returned 'no features', expected a dict"):
        write([sample("a/0.jpg", tags=[0])], WriteImageShards("wrong", Tags()))


@pytest.mark.slow
def test_shards_of_another_encoder_are_neither_kept_nor_repaired(
    photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fingerprint decides; only the pipeline has the encoder; shards of `Images` are repaired."""
    collect: dict[str, Any] = {"on_error": "collect", **SHARDS}
    plain = Images({"species": "class", "age": "int"})
    for path, encoder in (("mine", WithLength()), ("plain", plain)):
        write(joined, WriteImageShards(path, encoder, **collect))
        before, (name, *_) = harness.digests(path), harness.shard_names(path)
        os.unlink(f"{path}/{name}")
        write(joined, WriteImageShards(path, encoder, if_exists="resume", **collect))
        assert harness.digests(path) == before
        os.unlink(f"{path}/{name}")
        assert main(["repair", path]) == int(path == "mine")
        assert (harness.digests(path) == before) == (path == "plain")
    said = "its examples were made by tests.beam_pipeline.test_image_transforms.WithLength"
    assert said in capsys.readouterr().err
    other = WithLength("length 2")
    with pytest.raises(errors.ChangedInputsError, match='encoder was "length 1'):
        write(joined, WriteImageShards("mine", other, if_exists="resume", **collect))
    inputs = ("--images", "photos", "--labels", "labels.csv", "--label_column", "species")
    assert harness.convert(*inputs, *ARGV, "--reuse", "mine", "--output", "reused") == 2
    assert "written with other options" in capsys.readouterr().err


@pytest.mark.slow
def test_two_samples_of_a_key_and_other_bad_ones(photos: Path) -> None:
    """Neither of the two is written; labels, splits and elements are checked; by default the job fails."""
    twice = [sample("a/0.jpg"), sample("a/0.jpg")._replace(version=3)]
    bad = [sample("a/1.jpg", x=1), sample("a/2.jpg")._replace(split="a/b"), {"key": "a/3.jpg"}]
    good = sample("a/4.jpg")._asdict()
    for path, encoder in (("out", None), ("mine", Unlabelled())):
        write([*twice, *bad, good], WriteImageShards(path, encoder, on_error="collect"))
        assert [*harness.read_all(path)] == ["a/4.jpg"]
        assert [(d["key"], d["reason"]) for d in harness.dead_letters_of(path)] == [
            ("a/0.jpg", "duplicate_key"),
            ("a/0.jpg", "duplicate_key"),
            ("", "bad_row"),
            ("a/1.jpg", "bad_label_value"),
            ("a/2.jpg", "bad_label_value"),
        ]
    with pytest.raises(errors.TooManyBadSamplesError, match=r'give on_error="collect"'):
        write([*twice, good], WriteImageShards("fails"))
    with pytest.raises(Exception, match="no images found"):
        write([], WriteImageShards("empty"))
    with pytest.raises(
        Exception, match=r"2 bad_row \(such as '?[12]'? is not an ImageSample: it needs key"
    ):
        write([1, 2], WriteImageShards("numbers"))


def test_classes_that_are_named(photos: Path) -> None:
    """They get the ids of their places; a sample of another one is left out, but not bad."""
    images = Images({"species": "class"}, class_names=["dog", "cat"])
    samples = [sample("a/0.jpg", species="cat"), sample("a/1.jpg", species="cow")]
    write(samples, WriteImageShards("out", images))
    assert harness.read_all("out")["a/0.jpg"]["image/class/label"] == [1]
    assert [d["reason"] for d in harness.dead_letters_of("out")] == ["unknown_class"]
    features = images.encode(samples[0], picture(0))
    assert (features["image/class/label"], features["image/encoded"]) == (1, picture(0))
    assert images.encode(samples[1], picture(0)).reason == "unknown_class"
    assert images.encode(samples[0], b"none").reason == "not_an_image"
    with pytest.raises(errors.UsageError, match="give Images its class_names"):
        Images({"species": "class"}).encode(samples[0], picture(0))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Images(quallity=3), "Images has no argument 'quallity'"),
        (lambda: Images(max_bad_fraction=1), "Images has no argument 'max_bad_fraction'"),
        (lambda: Images(image_format="gif"), "image_format is 'gif', expected one of"),
        (lambda: Images({"x": "colour"}), "expected 'class', 'int'"),
        (
            lambda: write([1], EncodeImages(Images({"species": "class"}))),
            "EncodeImages does not see all classes; give Images its class_names",
        ),
        (
            lambda: write([1], WriteImageShards("out", Bare())),
            "the encoder's features are {}, expected",
        ),
        (
            lambda: WriteImageShards("out", if_exists="stop"),
            "if_exists is 'stop', expected one of fail",
        ),
        (
            lambda: WriteImageShards("out", on_error="log"),
            "on_error is 'log', expected one of raise",
        ),
        (lambda: WriteImageShards("out", format="zip"), "format is 'zip', expected one of"),
        (lambda: write([1], WriteImageShards("out", Encoder())), "fingerprint"),
        (lambda: WriteImageShards("out", Images), "encoder is .*, expected Images"),  # type: ignore[arg-type]
        (
            lambda: write(lambda p: {"rows": p | beam.Create([1])}, WriteImageShards("out")),
            "takes the JoinedSamples",
        ),
    ],
)
def test_arguments_are_checked(make: Any, message: str) -> None:
    """When they are given, or when the transform is applied."""
    with pytest.raises(errors.UsageError, match=message):
        make()


def test_numbers_that_a_new_size_would_move(photos: Path) -> None:
    """They are asked about as by the command."""
    Path("labels.csv").write_text("filename,species,x,y\na/0.jpg,cat,3,4\na/1.jpg,dog,3,5\n")
    labels = ReadLabels("labels.csv", label_column="species")
    with pytest.raises(errors.QuestionError, match="x, y look like places"):
        write(lambda p: joined(p, labels), WriteImageShards("out", Images(labels, resize=16)))


# --- convert images --------------------------------------------------------------------------------


@pytest.fixture
def class_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: twelve images in class folders, and one that is none."""
    monkeypatch.chdir(tmp_path)
    images: dict[str, Any] = {f"{c}/{i}.jpg": picture() for c in "ab" for i in range(6)}
    write_files("photos", {**images, "a/bad.jpg": "no image"})
    return tmp_path


def run(*transforms: ConvertImages) -> None:
    """Runs a pipeline of conversions."""
    with beam.Pipeline(FnApiRunner()) as pipeline:
        for number, transform in enumerate(transforms):
            _ = pipeline | str(number) >> transform


OPTIONS: dict[str, Any] = {"num_shards": 2, "max_bad_fraction": 1.0, "splits": {"x": 0.5, "y": 0.5}}
CONVERT_ARGV = ("--num_shards", "2", "--max_bad_fraction", "1", "--splits", "x=0.5,y=0.5")


def test_it_gives_what_the_command_gives(class_folders: Path) -> None:
    """All files are the command's; results follow the commit."""
    assert harness.convert("--images", "photos", "--output", "command/out", *CONVERT_ARGV) == 0
    with beam.Pipeline(FnApiRunner()) as pipeline:
        result = pipeline | ConvertImages("photos", "step/out", **OPTIONS)
        shards = result.shards | beam.Map(lambda shard: os.path.basename(shard.path))
        assert_that(shards, equal_to(harness.shard_names("command/out")), label="Shards")
        bad = result.bad | beam.Map(lambda bad: (bad.key, bad.reason))
        assert_that(bad, equal_to([("a/bad.jpg", "not_an_image")]), label="Bad")
        committed = result.manifest | beam.Map(
            lambda c: (os.path.exists(c.manifest), c.examples, c.shards, c.bad)
        )
        assert_that(committed, equal_to([(True, 12, 4, 1)]), label="Committed")
    assert harness.digests("step/out") == harness.digests("command/out")


def test_labels_of_files_and_of_containers(class_folders: Path) -> None:
    """Rows are joined; files of many images are unpacked; two conversions share a pipeline."""
    Path("labels.csv").write_text("filename,label\n0.jpg,cat\n1.jpg,dog\n")
    make_data("cifar10", ".")
    run(
        ConvertImages("photos/b", "joined", labels="labels.csv", max_bad_fraction=1.0, yes=True),
        ConvertImages("cifar-10-python.tar.gz", "unpacked", yes=True),
    )
    assert [c["name"] for c in harness.manifest_of("joined")["classes"]] == ["cat", "dog"]
    assert (
        harness.convert("--images", "cifar-10-python.tar.gz", "--output", "command/unpacked") == 0
    )
    assert harness.digests("unpacked") == harness.digests("command/unpacked")
    assert not Path("unpacked/.incomplete").exists()


def test_a_folder_that_holds_a_data_set(class_folders: Path) -> None:
    """It stays, is gone on with, or is replaced; messages name arguments."""
    run(ConvertImages("photos", "out", **OPTIONS))
    before = harness.digests("out")
    message = r"out is not empty.*or use overwrite=True to replace"
    with pytest.raises(errors.OutputNotEmptyError, match=message):
        run(ConvertImages("photos", "out", **OPTIONS))
    (name, *_) = harness.shard_names("out")
    os.unlink(f"out/{name}")
    run(ConvertImages("photos", "out", resume=True, **OPTIONS))
    assert harness.digests("out") == before
    run(ConvertImages("photos", "out", overwrite=True, **{**OPTIONS, "num_shards": 1}))
    assert len(harness.shard_names("out")) == 2


def test_nothing_is_read_or_written_before_it_is_applied(class_folders: Path) -> None:
    """And nothing is written before the pipeline runs."""
    ConvertImages("missing", "out", **OPTIONS)
    _ = beam.Pipeline(FnApiRunner()) | ConvertImages("photos", "out", **OPTIONS)
    assert os.listdir() == ["photos"]
    with pytest.raises(errors.UsageError, match="missing"):
        _ = beam.Pipeline(FnApiRunner()) | ConvertImages("missing", "out", **OPTIONS)


@in_rows
def test_arguments_are_checked_when_they_are_given(options: dict[str, Any], message: str) -> None:
    """As those of `convert`."""
    with pytest.raises(errors.UsageError, match=message):
        ConvertImages("photos", "out", **options)


def test_a_question_is_raised_in_the_words_of_arguments(class_folders: Path) -> None:
    """A guess that is not safe has to be accepted, as by the command; no shard is written."""
    rows = "".join(f"{i}.jpg,cat\n" for i in range(6))
    Path("labels.csv").write_text(f"filename,label\n{rows}")
    with pytest.raises(errors.QuestionError, match="yes=True"):
        run(ConvertImages("photos/b", "out", labels="labels.csv"))
    assert harness.shard_names("out") == []


# --- yaml transforms -------------------------------------------------------------------------------

(PACKAGE,) = beam_pipeline.__path__
PROVIDERS = f"{PACKAGE}/providers.yaml"

ERRORS = """
pipeline:
  transforms:
    - type: Create
      name: Rows
      config: {elements: [{id: a, x: 1}, {id: a, x: 2}, {id: b, x: 3}]}
    - type: WriteToShuffledTFRecord
      name: Write
      input: Rows
      config: {path: out/rows, key: id, num_shards: 2, error_handling: {output: bad}}
    - type: LogForTesting
      input: Write.bad
    - type: ConvertImages
      name: Convert
      config: {images: photos, output: out/images, num_shards: 1, error_handling: {output: bad}}
    - type: LogForTesting
      name: LogImages
      input: Convert.bad
    - {type: ReadImages, config: {images: photos}}
    - {type: Filter, input: ReadImages, config: {language: python, keep: size > 3}}
    - {type: LogForTesting, name: LogLarge, input: Filter}
providers:
  - include: providers.yaml
"""


def run_yaml(spec: str) -> None:
    """Runs a pipeline as Beam's command does."""
    yaml_main = pytest.importorskip(
        "apache_beam.yaml.main", reason="needs apache-beam[yaml]", exc_type=ImportError
    )
    spec = spec.replace("include: providers.yaml", f"include: {PROVIDERS}")
    yaml_main.run(["--runner=FnApiRunner", f"--yaml_pipeline={spec}"])


def test_the_page_s_pipeline_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images and labels become the command's shards; a folder that contains them, or a bad row, fails it."""
    monkeypatch.chdir(tmp_path)
    write_files("photos", {f"{i}.jpg": picture(i) for i in range(4)})
    write_files(".", {"labels.csv": "image,species\n0.jpg,cat\n1.jpg,dog\n2.jpg,cat\n"})
    (spec,) = harness.documented("docs/transforms.md", "yaml")
    run_yaml(spec)
    argv = ("--images", "photos", "--labels", "labels.csv", "--num_shards", "2", "--yes")
    assert harness.convert(*argv, "--output", "command/from_yaml") == 0
    for name in harness.shard_names("command/from_yaml"):
        assert (
            Path("out/from_yaml", name).read_bytes() == Path("command/from_yaml", name).read_bytes()
        )
    assert harness.manifest_of("out/from_yaml")["dead_letters"] == {"unlabelled": 1}
    with pytest.raises(errors.ConversionError, match="is not empty"):
        run_yaml(spec)
    write_files(".", {"labels.csv": "image,species\n0.jpg,cat\n1.jpg,dog\n2.jpg,\n"})
    with pytest.raises(errors.ConversionError, match=r"labels\.csv, line 4: .* is empty"):
        run_yaml(
            spec.replace(", error_handling: {output: bad}", "")
            .replace(", bad: JoinLabels.bad", "")
            .replace("out/from_yaml", "out/bad")
        )


def test_bad_samples_have_an_output_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of records and of images; a conversion stands at the beginning, and listed images are rows with fields."""
    monkeypatch.chdir(tmp_path)
    write_files("photos", {"a/1.jpg": picture(), "b/2.jpg": picture(), "b/3.jpg": "no"})
    with caplog.at_level("INFO"):
        run_yaml(ERRORS)
    assert harness.manifest_of("out/rows")["dead_letters"] == {"duplicate_key": 2}
    assert harness.manifest_of("out/images")["dead_letters"] == {"not_an_image": 1}
    logged = "\n".join(record.getMessage() for record in caplog.records)
    assert "'duplicate_key'" in logged or '"duplicate_key"' in logged
    assert "not_an_image" in logged
    assert "b/2.jpg" in logged
