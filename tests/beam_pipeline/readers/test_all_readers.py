"""What all readers have in common: selected features, slices, several data sets, replaced shards, pixels."""

from __future__ import annotations

import io
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import beam_pipeline
from beam_pipeline import RandomAccess
from beam_pipeline.core.errors import DamagedRecordError, UsageError
from beam_pipeline.readers.shards import open_shard
from tests.beam_pipeline.readers.by_hand import feature, jpeg, write_by_hand
from tests.harness import convert, manifest_of, python
from tests.layouts.make_segmentation import grey
from tests.pictures import picture, write_files, write_pictures
from tests.rows import in_rows

Reader = Callable[..., list[Any]]


def by_tf_data(folder: Any, split: str = "train", **options: Any) -> list[Any]:
    options.pop("decode", None)
    options.setdefault("shuffle", False)
    dataset = beam_pipeline.load(folder, split, as_dict=True, **options)
    return list(dataset.as_numpy_iterator())


def by_random_access(folder: Any, split: str = "train", **options: Any) -> list[Any]:
    return list(beam_pipeline.RandomAccess(folder, split, **options))


def by_torch(folder: Any, split: str = "train", **options: Any) -> list[Any]:
    return list(torch_data_set(folder, split, **options))


def torch_data_set(*args: Any, **options: Any) -> Any:
    pytest.importorskip("torch", reason="needs PyTorch: pip install torch")
    return beam_pipeline.TFRecordDataset(*args, **options)


every_reader = pytest.mark.parametrize("read", [by_tf_data, by_random_access, by_torch])


@pytest.fixture(scope="module")
def pets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """30 pictures of two classes in three shards."""
    folder = tmp_path_factory.mktemp("pets")
    write_pictures(str(folder / "photos"), [f"{('cat', 'dog')[i % 2]}/{i}.png" for i in range(30)])
    argv = ("--images", f"{folder}/photos", "--output", f"{folder}/out", "--num_shards", "3")
    assert convert(*argv) == 0
    return folder / "out"


@pytest.fixture(scope="module")
def turned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same classes, with one photograph that EXIF turns: its examples have one feature more."""
    folder = tmp_path_factory.mktemp("turned")
    images = {
        f"photos/{('cat', 'dog')[i % 2]}/{i}.jpg": picture(i, file_format="JPEG") for i in range(8)
    }
    exif = Image.Exif()
    exif[0x0112] = 6
    image = Image.new("RGB", (40, 30), (200, 100, 50))
    data = io.BytesIO()
    image.save(data, "JPEG", exif=exif)
    write_files(str(folder), {**images, "photos/cat/turned.jpg": data.getvalue()})
    argv = ("--images", f"{folder}/photos", "--output", f"{folder}/out", "--num_shards", "2")
    assert convert(*argv, "--orientation", "keep") == 0
    assert manifest_of(folder / "out")["features"]["image/orientation"]["optional"]
    return folder / "out"


def names(samples: list[Any]) -> list[bytes]:
    return [sample["image/source_id"] for sample in samples]


PACKAGE = """
import sys
before = set(sys.modules)
import beam_pipeline
print(sorted(set(sys.modules) - before), {"load", "feature_spec"} <= set(dir(beam_pipeline)))
"""
PLANS_NOTHING = """
import sys
from beam_pipeline import RandomAccess
core = "beam_pipeline.core"
names = [f"{core}.{n}" for n in ("dataset.plan", "dataset.receipts", "report", "images.preparation", "labels.cells")]
print(f"{core}.dataset.manifest" in sys.modules, {*names, "beam_pipeline.work"} & set(sys.modules))
"""
READS = """
import sys
from beam_pipeline import Dataset, RandomAccess, class_names
print(class_names(sys.argv[1]), Dataset.open(sys.argv[1]).splits)
print(len(RandomAccess(sys.argv[1], decode=True)[1:4]))
print({"tensorflow", "apache_beam", "torch"} & set(sys.modules))
"""
WITHOUT = """
import sys
sys.modules["{}"] = None
try:
    from beam_pipeline import {}
except ModuleNotFoundError as error:
    print(str(error).rpartition("; ")[2])
"""


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        (PACKAGE, "['beam_pipeline'] True\n"),
        (PLANS_NOTHING, "True set()\n"),
        (READS, "{0: 'cat', 1: 'dog'} {'train': 30}\n3\nset()\n"),
        (
            WITHOUT.format("tensorflow", "load"),
            "reading with tf.data needs TensorFlow: pip install tensorflow\n",
        ),
        (
            WITHOUT.format("torch", "TFRecordDataset"),
            "reading with PyTorch needs PyTorch: pip install torch\n",
        ),
    ],
)
def test_what_readers_import(pets: Path, code: str, printed: str) -> None:
    """The package nothing; readers nothing that plans a conversion; `RandomAccess`, class names and metadata neither
    TensorFlow nor Beam nor PyTorch. Where a library is missing, the error says how to install it."""
    done = python("-c", code, pets)
    assert done.stdout == printed, done.stderr


@every_reader
def test_data_sets_of_which_one_has_a_turned_photograph_are_read_as_one(
    pets: Path, turned: Path, read: Reader
) -> None:
    """`image/orientation` is optional in both: the value that is missing is the kind's."""
    samples = read([pets, turned], decode=True, image_size=8)
    assert Counter(names(samples)) == Counter(names(read(pets)) + names(read(turned)))
    orientations = Counter(int(sample["image/orientation"]) for sample in samples)
    assert orientations == {6: 1, -(1 << 63): 38}


def test_decoded_samples_are_batched_where_a_feature_is_missing(turned: Path) -> None:
    """As documented: `DataLoader(RandomAccess(decode=True))`, with no function of one's own."""
    torch_data = pytest.importorskip("torch.utils.data")
    source = beam_pipeline.RandomAccess(turned, decode=True, image_size=8)
    batches = list(torch_data.DataLoader(source, batch_size=4))
    assert [tuple(batch["image"].shape) for batch in batches] == [(4, 8, 8, 3)] * 2 + [(1, 8, 8, 3)]
    assert sum(int((batch["image/orientation"] == 6).sum()) for batch in batches) == 1


@every_reader
def test_only_the_selected_features_are_read(pets: Path, read: Reader) -> None:
    """The others are not in the samples, and images not decoded, which are not asked for."""
    labels = read(pets, features=["image/class/label"], decode=True)
    assert [list(sample) for sample in labels] == [["image/class/label"]] * 30
    decoded = read(pets, features=["image", "image/class/text"], decode=True, image_size="6x4")
    assert [sorted(sample) for sample in decoded] == [["image", "image/class/text"]] * 30
    assert {sample["image"].shape for sample in decoded} == {(4, 6, 3)}
    with pytest.raises(UsageError, match=r"no feature 'image/labels'; (did you mean|it has)"):
        read(pets, features=["image/labels"])


def test_features_that_are_not_selected_are_not_decoded(pets: Path) -> None:
    """Neither as values, nor as pixels: a damaged image is not looked at."""
    source = beam_pipeline.RandomAccess(pets)
    features = beam_pipeline.Dataset.open(pets).features
    key = "image/class/label"
    record = source.record(0)
    assert beam_pipeline.parse_example(record, {key: features[key]}) == {key: source[0][key]}
    values = beam_pipeline.parse_example(record)
    assert values.keys() == features.keys()
    assert values[key].tolist() == [source[0][key]]
    assert values["image/encoded"] == [source[0]["image/encoded"]]


@every_reader
@pytest.mark.parametrize(
    ("split", "wanted"),
    [
        ("train[:10%]", slice(0, 3)),
        ("train[-5:]", slice(25, 30)),
        ("train[33%:66%]", slice(10, 20)),
        ("train[:1000]", slice(0, 30)),
        ("train[20:10]", slice(0, 0)),
    ],
)
def test_a_slice_has_the_records_of_its_range(
    pets: Path, read: Reader, split: str, wanted: slice
) -> None:
    """In the stored order, as TensorFlow Datasets counts them."""
    assert names(read(pets, split)) == names(by_random_access(pets))[wanted]


@every_reader
def test_slices_are_joined_by_plus(pets: Path, read: Reader) -> None:
    """A part of the middle, and one of the front."""
    stored = names(by_random_access(pets))
    assert names(read(pets, "train[12:14]+train[:2]")) == [*stored[12:14], *stored[:2]]


def test_a_slice_is_shuffled_and_shared(pets: Path) -> None:
    """Its records and no others, from tf.data's buffer, PyTorch's, and in two ranks."""
    wanted = Counter(names(by_random_access(pets))[5:25])
    assert Counter(names(by_tf_data(pets, "train[5:25]", shuffle=True))) == wanted
    assert Counter(names(by_torch(pets, "train[5:25]", shuffle_buffer=4))) == wanted
    ranks = [by_torch(pets, "train[5:25]", rank=rank, ranks=2) for rank in range(2)]
    assert [len(samples) for samples in ranks] == [10, 10]
    assert Counter(names(ranks[0]) + names(ranks[1])) == wanted


@every_reader
def test_a_weight_is_how_often_a_pass_reads_a_data_set(
    pets: Path, turned: Path, read: Reader
) -> None:
    """In slices, too; other weights than counts are refused."""
    counts = Counter(names(read([pets, turned], weights=[1, 3])))
    assert counts == Counter(
        {**dict.fromkeys(names(read(pets)), 1), **dict.fromkeys(names(read(turned)), 3)}
    )
    assert len(read([pets, turned], "train[:2]", weights=[2, 1])) == 6
    for weights in ([1], [0.5, 0.5], [1, 0], [True, 1], [1, 1 << 64]):
        with pytest.raises(UsageError, match="expected 2 whole numbers from 1 to 1000000:"):
            read([pets, turned], weights=weights)


@pytest.mark.parametrize("read", [by_random_access, by_torch])
def test_a_position_of_another_data_set_is_refused(
    pets: Path, tmp_path: Path, read: Reader
) -> None:
    """The same images and counts in another order, as another seed gives it."""
    argv = ("--images", f"{pets}/../photos", "--output", f"{tmp_path}/out", "--num_shards", "3")
    assert convert(*argv, "--seed", "1", "--name", "out") == 0
    kind = beam_pipeline.RandomAccess if read is by_random_access else torch_data_set
    first, same, other = (kind(folder) for folder in (pets, pets, tmp_path / "out"))
    if read is by_torch:
        first, same, other = map(iter, (first, same, other))
        next(first)
    else:
        assert repr(first) == repr(same) != repr(other).replace(str(tmp_path), str(pets.parent))
    same.load_state_dict(first.state_dict())
    with pytest.raises(UsageError, match="saved with another data set or other settings: data was"):
        other.load_state_dict(first.state_dict())


FORMATS = {
    "tfrecord": ("--format", "tfrecord"),
    "gzip": ("--compression", "gzip"),
    "webdataset": ("--format", "webdataset"),
    "array_record": ("--format", "array_record"),
}


def of_bitmaps(folder: Path, *options: str) -> list[Path]:
    """The shards of a data set of 16 images of the same length."""
    images = {f"photos/{i:02}.bmp": picture(i, file_format="BMP") for i in range(16)}
    write_files(str(folder), images)
    argv = ("--images", f"{folder}/photos", "--output", f"{folder}/out", "--unlabelled", "keep")
    assert convert(*argv, *options) == 0
    shards = manifest_of(folder / "out")["splits"]["train"]["shards"]
    return [folder / "out" / shard["path"] for shard in shards]


@pytest.mark.parametrize("record_format", FORMATS)
@pytest.mark.parametrize("read", [by_tf_data, by_torch])
def test_a_replaced_shard_is_found(tmp_path: Path, record_format: str, read: Reader) -> None:
    """By its length before anything is read; by its checksum, where Python reads it, at its end."""
    if record_format == "array_record":
        pytest.importorskip("array_record")
    first, second = of_bitmaps(tmp_path, "--num_shards", "2", *FORMATS[record_format])
    data = first.read_bytes()
    shutil.copy(second, first)
    if len(data) != second.stat().st_size:
        with pytest.raises(DamagedRecordError, match="damaged or replaced"):
            read(tmp_path / "out")
    first.write_bytes(data + data)
    with pytest.raises(DamagedRecordError, match="damaged or replaced"):
        read(tmp_path / "out")
    first.write_bytes(data)
    assert len(read(tmp_path / "out")) == 16


def test_a_shard_of_the_same_length_is_found_at_its_end(tmp_path: Path) -> None:
    """Its records are whole, and there are as many of them."""
    (shard,) = of_bitmaps(tmp_path, "--num_shards", "1")
    data = shard.read_bytes()
    size = len(data) // 16
    shard.write_bytes(data[size:] + data[:size])
    with pytest.raises(DamagedRecordError, match="in the manifest: it was replaced"):
        by_torch(tmp_path / "out")


PICTURES = {
    **{
        f"{mode} {kind}": (mode, kind)
        for mode in ("L", "RGB")
        for kind in ("JPEG", "PNG", "GIF", "BMP", "WEBP")
    },
    "CMYK JPEG": ("CMYK", "JPEG"),
    "1 PNG": ("1", "PNG"),
    "RGBA PNG": ("RGBA", "PNG"),
    "RGBA BMP": ("RGBA", "BMP"),
}


@pytest.fixture(scope="module")
def formats(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A picture of one colour in every format and mode."""
    samples = []
    for kind, (mode, file_format) in PICTURES.items():
        data = io.BytesIO()
        Image.new("RGB", (32, 32), (250, 240, 230)).convert(mode).save(data, file_format)
        samples.append({"image/encoded": data.getvalue(), "kind": kind})
    out = str(tmp_path_factory.mktemp("formats") / "out")
    return beam_pipeline.convert_samples(samples, output=out, writers=0).path


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_every_format_has_every_number_of_channels(formats: str, channels: int) -> None:
    """As Pillow converts them, within the rounding of grey and the loss of a JPEG; alpha is opaque."""
    for tf_options, size in (({}, {}), ({"antialias": True}, {"image_size": 8})):
        options = {"channels": channels, **size}
        arrays = by_random_access(formats, decode=True, **options)
        tensors = by_tf_data(formats, **options, **tf_options)
        for tensor, array in zip(tensors, arrays, strict=True):
            assert tensor["kind"] == array["kind"]
            assert tensor["image"].shape == array["image"].shape
            difference = np.abs(tensor["image"].astype(float) - array["image"]).max()
            assert difference <= 4, array["kind"]
            if channels == 4:
                assert tensor["image"][..., 3].min() > 254.9, array["kind"]


@every_reader
@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_16_bits_are_kept_if_asked(tmp_path: Path, read: Reader, mode: str) -> None:
    """Data of 12 bits, which 8 bits leave at 0 to 15; other images are scaled to the same range."""
    deep = np.arange(64, dtype=np.uint16).reshape(8, 8) * 65
    planes = deep if mode == "L" else np.stack([deep, deep + 1, deep + 2], axis=-1)
    from tensorflow.io import encode_png

    png = encode_png(planes if planes.ndim == 3 else planes[..., np.newaxis]).numpy()
    grey = io.BytesIO()
    Image.new(mode, (8, 8)).save(grey, "PNG")
    samples = [{"image/encoded": data, "id": i} for i, data in enumerate((png, grey.getvalue()))]
    out = str(tmp_path / "out")
    beam_pipeline.convert_samples(samples, output=out, key="id", writers=0)
    channels = 1 if mode == "L" else 3
    by_id = {s["id"]: s["image"] for s in read(out, decode=True, channels=channels, dtype="uint16")}
    assert by_id[0].dtype == np.uint16
    assert np.array_equal(by_id[0].reshape(planes.shape), planes)
    assert by_id[1].max() == 0
    small = {s["id"]: s["image"] for s in read(out, decode=True, image_size=4, dtype="uint16")}
    assert small[0].max() > 2000
    assert {s["id"]: s["image"].max() for s in read(out, decode=True)}[0] <= 16


@every_reader
def test_arrays_instead_of_image_files_are_named(tmp_path: Path, read: Reader) -> None:
    """The bytes of an array are no image file; an error says so before anything is decoded."""
    samples = [
        {"image/encoded": np.zeros((4, 4, 3), np.uint8), "image/class/label": i} for i in (0, 1)
    ]
    dataset = beam_pipeline.convert_samples(samples, output=str(tmp_path / "out"), writers=0)
    assert isinstance(dataset, beam_pipeline.Dataset)
    with pytest.raises(
        UsageError, match="48 bytes that are not an image file, such as the bare pixels"
    ):
        read(dataset.path, decode=True)


@pytest.mark.skipif(sys.platform != "linux", reason="the file is Linux's")
def test_an_error_while_reading_names_the_shard() -> None:
    """As a disk that fails in the middle of a file; this one opens, and gives no byte."""
    failing = "/proc/self/mem"
    with (
        pytest.raises(DamagedRecordError, match=f"^{failing} cannot be read: Input/output error$"),
        open_shard(failing) as file,
    ):
        file.read(1)


def test_what_cannot_be_opened_names_the_shard(tmp_path: Path) -> None:
    """A file that is not there, or is a folder."""
    for path, reason in ((f"{tmp_path}/gone", "No such file or directory$"), (str(tmp_path), "")):
        refused = pytest.raises(DamagedRecordError, match=f"{path} cannot be read: {reason}")
        with refused, open_shard(path):
            pass


# --- pixels ----------------------------------------------------------------------------------


IMAGE = {"image/encoded": feature("bytes")}
MASK = "image/segmentation/class/encoded"


def only(folder: Path, data: bytes, /, features: Any = IMAGE, **options: Any) -> Any:
    """The pixels of a data set of this image."""
    write_by_hand(folder, features, [{"image/encoded": [data]}])
    return RandomAccess(folder, decode=True, **options)[0]["image"]


def resized(image: Image.Image, height: int, width: int) -> Any:
    return np.asarray(image.convert("RGB").resize((width, height), Image.Resampling.BILINEAR))


@in_rows
def test_a_jpeg_is_decoded_at_the_smallest_scale_that_suffices(
    tmp_path: Path, size: tuple[int, int], scale: int
) -> None:
    """150 x 200 pixels; half as many again as are wanted have to be there."""
    data = jpeg(200, 150)
    image = Image.open(io.BytesIO(data))
    if scale > 1:
        image.draft("RGB", (200 // scale, 150 // scale))
    assert image.size == (200 // scale, -(-150 // scale))
    found = only(tmp_path / "d", data, image_size=size)
    assert found.tolist() == resized(image, *size).tolist()
    whole = resized(Image.open(io.BytesIO(data)), *size)
    exact = RandomAccess(tmp_path / "d", decode=True, image_size=size, exact=True)[0]["image"]
    assert exact.tolist() == whole.tolist()
    assert (found.tolist() != whole.tolist()) == (scale > 1)


def test_16_bits_become_8(tmp_path: Path) -> None:
    """The upper ones, as TensorFlow has it."""
    data = grey([[0, 255, 256, 65535]], bits=16)
    assert only(tmp_path / "d", data, channels=1).ravel().tolist() == [0, 0, 1, 255]


def test_bare_pixels_are_shaped(tmp_path: Path) -> None:
    """Height, width and channels stand in the example."""
    sizes = {f"image/{side}": feature("int64") for side in ("height", "width", "channels")}
    example = {
        "image/encoded": [bytes(range(12))],
        "image/height": [2],
        "image/width": [2],
        "image/channels": [3],
    }
    folder = write_by_hand(tmp_path / "d", {**IMAGE, **sizes}, [example], image_encoding="raw")
    found = RandomAccess(folder, decode=True)[0]
    assert found["image"].tolist() == np.arange(12).reshape(2, 2, 3).tolist()
    short = write_by_hand(
        tmp_path / "e",
        {**IMAGE, **sizes},
        [{**example, "image/encoded": [b"x"]}],
        image_encoding="raw",
    )
    with pytest.raises(DamagedRecordError, match="cannot be decoded: cannot reshape"):
        RandomAccess(short, decode=True)[0]
    without = write_by_hand(tmp_path / "f", IMAGE, [], image_encoding="raw")
    with pytest.raises(UsageError, match="bare pixels without image/height"):
        RandomAccess(without, decode=True)


@every_reader
@pytest.mark.parametrize("bits", [8, 16])
def test_masks_keep_their_ids(tmp_path: Path, read: Reader, bits: int) -> None:
    """They are resized to the nearest neighbour; an image without one has 255 everywhere."""
    largest = (1 << bits) - 1
    features = {**IMAGE, MASK: feature("bytes", optional=True, pixels=f"uint{bits}")}
    data = picture(size=(4, 2))
    mask = grey([[0, 1, 2, largest], [3, 4, 5, 6]], bits=bits)
    shard = [{"image/encoded": [data], MASK: [mask]}, {"image/encoded": [data]}]
    folder = write_by_hand(tmp_path / "d", features, shard)
    first, second = read(folder, decode=True)
    assert first.keys() == {"image", "mask"}
    assert first["mask"].dtype == np.dtype(f"uint{bits}")
    assert first["mask"][..., 0].tolist() == [[0, 1, 2, largest], [3, 4, 5, 6]]
    assert second["mask"][..., 0].tolist() == [[255] * 4] * 2
    small = read(folder, decode=True, image_size=(1, 2))[0]
    assert (small["image"].shape, small["mask"][..., 0].tolist()) == ((1, 2, 3), [[4, 6]])


@pytest.mark.parametrize("data", [b"", b"no image", picture()[:-40], jpeg(20, 20)[:300]])
def test_what_is_no_image_is_an_error(tmp_path: Path, data: bytes) -> None:
    """Not a traceback out of Pillow."""
    with pytest.raises(DamagedRecordError, match=r"^image b'' cannot be decoded: "):
        only(tmp_path / "d", data)


def test_options_that_do_not_fit_are_errors(tmp_path: Path) -> None:
    """No image, another number of channels, sizes that are none, a key that is taken."""
    one = {"image/encoded": [picture()]}
    folder = write_by_hand(tmp_path / "d", IMAGE, [one])
    bare = write_by_hand(tmp_path / "e", {"x": feature("int64")}, [])
    taken = write_by_hand(tmp_path / "f", {**IMAGE, "image": feature("int64")}, [])
    with pytest.raises(UsageError, match="channels is 2, expected one of"):
        RandomAccess(folder, decode=True, channels=2)
    for wrong in (0, 1), (1, -1), 0, (1, 2, 3):
        with pytest.raises(UsageError, match="image_size is"):
            RandomAccess(folder, decode=True, image_size=wrong)
    with pytest.raises(UsageError, match="has no images"):
        RandomAccess(bare, decode=True)
    with pytest.raises(UsageError, match="has a feature 'image'"):
        RandomAccess(taken, decode=True)
