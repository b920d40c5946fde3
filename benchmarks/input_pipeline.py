"""Times the input of a training loop: decoded, resized batches out of folders and out of shards.

    python benchmarks/input_pipeline.py --work /tmp/input --count 2000 --kilobytes 110 --side 224

makes images and shards in the folder `--work`, where they stay for the next run, and prints a table.
Each way makes one pass over all images in batches of 32, in its own process. The time starts with the
listing or `load()`, after the import of what reads, whether a library or this package, and after a collection of
the garbage that imports leave. Every round runs each way
once, in turn, with the files in the page cache and with their pages dropped from it. The table shows
medians over the rounds, with the span, and each way's wall and CPU time as ratios to those of the first
of `--ways`, as the medians of the rounds' own ratios.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from make_images import make_images

BATCH = 32
ARRAY_RECORDS = "Grain, ArrayRecord, Pillow by hand"
CACHES = ("warm", "cold")


class Data(NamedTuple):
    """Attributes: images, class folders; shards, a data set of them; side, pixels to resize to."""

    images: str
    shards: str
    side: int

    @property
    def array_records(self) -> str:
        """The same data set as ArrayRecords."""
        return f"{self.shards}_as_array_records"


class Figures(NamedTuple):
    """The figures of one pass: images, wall and CPU seconds."""

    images: int
    wall: float
    cpu: float


def by_load(data: Data) -> Any:
    """Reads with `load()` and its defaults."""
    from beam_pipeline import load

    return load(data.shards, batch_size=BATCH, image_size=(data.side, data.side))


def by_scaled_load(data: Data) -> Any:
    """Reads with `load()` and antialiasing, with which large JPEGs are decoded at a smaller scale."""
    from beam_pipeline import load

    return load(data.shards, batch_size=BATCH, image_size=(data.side, data.side), antialias=True)


def by_pytorch(data: Data) -> Any:
    """Reads the shards with our data set for PyTorch, decoding as most people do."""
    import io

    import numpy as np
    import torch
    from PIL import Image
    from torch.utils.data import DataLoader

    from beam_pipeline import TFRecordDataset

    def decode(example: Any) -> Any:
        image = Image.open(io.BytesIO(example["image/encoded"])).convert("RGB")
        image = image.resize((data.side, data.side), Image.Resampling.BILINEAR)
        return torch.from_numpy(np.array(image)), example["image/class/label"]

    return DataLoader(TFRecordDataset(data.shards, decode=decode), BATCH, num_workers=2)


def by_scaled_pytorch(data: Data) -> Any:
    """Reads the shards with our data set for PyTorch and its own decoding."""
    from torch.utils.data import DataLoader

    from beam_pipeline import TFRecordDataset

    dataset = TFRecordDataset(
        data.shards, decode=True, image_size=data.side, features=["image", "image/class/label"]
    )
    for batch in DataLoader(dataset, BATCH, num_workers=2):
        yield batch["image"], batch["image/class/label"]


def by_random_access(data: Data) -> Any:
    """Reads the shards in random order with PyTorch and our own decoding."""
    from torch.utils.data import DataLoader

    from beam_pipeline import RandomAccess

    source = RandomAccess(
        data.shards, decode=True, image_size=data.side, features=["image", "image/class/label"]
    )
    for batch in DataLoader(source, BATCH, shuffle=True, num_workers=2):
        yield batch["image"], batch["image/class/label"]


def by_hand(data: Data, *, antialias: bool = False) -> Any:
    """Reads the same shards with a pipeline written for this data: JPEGs, two features, the count."""
    import tensorflow as tf

    spec = {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    }

    def parse(record: Any) -> Any:
        example = tf.io.parse_single_example(record, spec)
        image = tf.io.decode_jpeg(example["image/encoded"], channels=3)
        image = tf.image.resize(image, (data.side, data.side), antialias=antialias)
        return image, example["image/class/label"]

    paths = sorted(tf.io.gfile.glob(f"{data.shards}/*.tfrecord-*"))
    size = sum(map(os.path.getsize, paths))
    count = len(paths_below(data.images))
    options = tf.data.Options()
    options.deterministic = False
    return (
        tf.data.Dataset.from_tensor_slices(paths)
        .shuffle(len(paths))
        .interleave(tf.data.TFRecordDataset, cycle_length=16, num_parallel_calls=tf.data.AUTOTUNE)
        .shuffle(count * min(size, 128 << 20) // size)
        .map(parse, num_parallel_calls=tf.data.AUTOTUNE)
        .batch(BATCH)
        .prefetch(tf.data.AUTOTUNE)
        .with_options(options)
    )


by_antialiased_hand = partial(by_hand, antialias=True)


def by_generator(data: Data) -> Any:
    """Reads the class folders with a Python generator and Pillow, as in tutorials."""
    import numpy as np
    import tensorflow as tf
    from PIL import Image

    classes = sorted(os.listdir(data.images))
    paths = [
        (f"{data.images}/{name}/{file}", label)
        for label, name in enumerate(classes)
        for file in os.listdir(f"{data.images}/{name}")
    ]
    random.Random(0).shuffle(paths)

    def samples() -> Iterator[Any]:
        for path, label in paths:
            image = Image.open(path).convert("RGB")
            image = image.resize((data.side, data.side), Image.Resampling.BILINEAR)
            yield np.asarray(image, np.float32), label

    signature = (
        tf.TensorSpec((data.side, data.side, 3), tf.float32),
        tf.TensorSpec((), tf.int64),
    )
    dataset = tf.data.Dataset.from_generator(samples, output_signature=signature)
    return dataset.batch(BATCH).prefetch(tf.data.AUTOTUNE)


def by_keras(data: Data) -> Any:
    """Reads with Keras's own reader of class folders."""
    import keras

    return keras.utils.image_dataset_from_directory(
        data.images, image_size=(data.side, data.side), batch_size=BATCH, verbose=False
    )


def by_files_in_pytorch(data: Data) -> Any:
    """Reads the class folders with a DataLoader and Pillow, as torchvision's ImageFolder does."""
    import numpy as np
    import torch
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset

    class Files(Dataset[Any]):
        def __init__(self) -> None:
            classes = sorted(os.listdir(data.images))
            self.paths = [
                (f"{data.images}/{name}/{file}", label)
                for label, name in enumerate(classes)
                for file in os.listdir(f"{data.images}/{name}")
            ]

        def __len__(self) -> int:
            return len(self.paths)

        def __getitem__(self, index: int) -> Any:
            path, label = self.paths[index]
            image = Image.open(path).convert("RGB")
            image = image.resize((data.side, data.side), Image.Resampling.BILINEAR)
            return torch.from_numpy(np.array(image)), label

    return DataLoader(Files(), BATCH, shuffle=True, num_workers=2)


def by_offsets(data: Data) -> Any:
    """Reads the shards in random order with PyTorch, a list of offsets in mapped files, and Pillow."""
    import io
    import mmap

    import numpy as np
    import torch
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset

    from beam_pipeline.core.records.example_view import Example

    class Offsets(Dataset[Any]):
        def __init__(self) -> None:
            self.places = []
            for path in sorted(path for path in paths_below(data.shards) if ".tfrecord-" in path):
                with open(path, "rb") as file:
                    shard = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                end = 0
                while end < len(shard):
                    start = end + 12
                    end = start + int.from_bytes(shard[end : end + 8], "little")
                    self.places.append((shard, start, end))
                    end += 4

        def __len__(self) -> int:
            return len(self.places)

        def __getitem__(self, index: int) -> Any:
            shard, start, end = self.places[index]
            features = Example.FromString(shard[start:end]).features.feature
            image = Image.open(io.BytesIO(features["image/encoded"].bytes_list.value[0]))
            image = image.convert("RGB").resize((data.side, data.side), Image.Resampling.BILINEAR)
            label = features["image/class/label"].int64_list.value[0]
            return torch.from_numpy(np.array(image)), label

    return DataLoader(Offsets(), BATCH, shuffle=True, num_workers=2)


def _with_grain(source: Any, decode: Callable[[Any], Any]) -> Any:
    """Shuffles, decodes in two threads and batches with Grain."""
    import grain

    dataset = grain.MapDataset.source(source).shuffle(seed=0).map(decode)
    options = grain.ReadOptions(num_threads=2, prefetch_buffer_size=2 * BATCH)
    return dataset.to_iter_dataset(options).batch(BATCH)


def by_grain(data: Data) -> Any:
    """Reads the shards with Grain, decoding as most people do."""
    import io

    import numpy as np
    from PIL import Image

    from beam_pipeline import RandomAccess

    def decode(example: Any) -> Any:
        image = Image.open(io.BytesIO(example["image/encoded"])).convert("RGB")
        image = image.resize((data.side, data.side), Image.Resampling.BILINEAR)
        return np.array(image), example["image/class/label"]

    return _with_grain(RandomAccess(data.shards), decode)


def by_scaled_grain(data: Data) -> Any:
    """Reads the shards with Grain and our own decoding."""
    from beam_pipeline import RandomAccess

    source = RandomAccess(
        data.shards, decode=True, image_size=data.side, features=["image", "image/class/label"]
    )
    return _with_grain(source, lambda example: (example["image"], example["image/class/label"]))


def by_array_record(data: Data) -> Any:
    """Reads ArrayRecords of the same examples with Grain, TensorFlow's message and Pillow."""
    import io

    import grain
    import numpy as np
    import tensorflow as tf
    from PIL import Image

    def decode(record: bytes) -> Any:
        features = tf.train.Example.FromString(record).features.feature
        image = Image.open(io.BytesIO(features["image/encoded"].bytes_list.value[0]))
        image = image.convert("RGB").resize((data.side, data.side), Image.Resampling.BILINEAR)
        return np.array(image), features["image/class/label"].int64_list.value[0]

    paths = [path for path in paths_below(data.array_records) if ".array_record-" in path]
    return _with_grain(grain.sources.ArrayRecordDataSource(sorted(paths)), decode)


def by_dali(data: Data) -> Any:
    """Reads the shards with DALI on the CPU, after `beam-tfrecord index`."""
    from nvidia.dali import fn, pipeline_def, tfrecord, types

    indexes = [path for path in paths_below(data.shards) if "tfindex" in path]
    shards = [path.replace("tfindex", "tfrecord") for path in sorted(indexes)]

    @pipeline_def(  # not ahead of time, or it would decode more than is read
        batch_size=BATCH,
        num_threads=2,
        device_id=None,
        exec_pipelined=False,
        exec_async=False,
    )
    def batches() -> Any:
        example = fn.readers.tfrecord(
            path=shards,
            index_path=sorted(indexes),
            features={
                "image/encoded": tfrecord.FixedLenFeature((), tfrecord.string, ""),
                "image/class/label": tfrecord.FixedLenFeature([1], tfrecord.int64, -1),
            },
            random_shuffle=True,
            name="reader",
        )
        image = fn.decoders.image(example["image/encoded"], device="cpu", adjust_orientation=False)
        size = (data.side, data.side)
        return fn.resize(image, size=size, interp_type=types.INTERP_LINEAR), example[
            "image/class/label"
        ]

    pipeline = batches()
    pipeline.build()
    left = pipeline.epoch_size("reader")
    while left > 0:
        images, labels = pipeline.run()
        found = images.as_tensor()
        yield _Batch((min(left, found.shape()[0]),)), labels  # the last one is filled up
        left -= BATCH


class _Batch(NamedTuple):
    """Attributes: shape, whose first figure is the number of images."""

    shape: tuple[int, ...]


WAYS: Mapping[str, Callable[[Data], Any]] = {
    "load()": by_load,
    "load(antialias=True)": by_scaled_load,
    "tf.data by hand, the same shards": by_hand,
    "tf.data by hand, antialias=True": by_antialiased_hand,
    "image_dataset_from_directory, files": by_keras,
    "Python generator, files": by_generator,
    "TFRecordDataset, Pillow by hand": by_pytorch,
    "TFRecordDataset(decode=True)": by_scaled_pytorch,
    "RandomAccess(decode=True)": by_random_access,
    "mmap and offsets, Pillow by hand": by_offsets,
    "DataLoader with Pillow, files": by_files_in_pytorch,
    "Grain, Pillow by hand": by_grain,
    "Grain, RandomAccess(decode=True)": by_scaled_grain,
    ARRAY_RECORDS: by_array_record,
    "DALI on the CPU": by_dali,
}
WITH_PYTORCH = (
    by_pytorch,
    by_scaled_pytorch,
    by_random_access,
    by_offsets,
    by_files_in_pytorch,
)
_READERS = "beam_pipeline.readers"
IMPORTS = {
    **dict.fromkeys((by_load, by_scaled_load), ("tensorflow", f"{_READERS}.tf_data")),
    **dict.fromkeys((by_pytorch, by_scaled_pytorch), ("torch", f"{_READERS}.torch_dataset")),
    by_random_access: ("torch", f"{_READERS}.random_access"),
    by_offsets: ("torch", "beam_pipeline.core.records.example_view"),
    by_files_in_pytorch: ("torch",),
    **dict.fromkeys((by_grain, by_scaled_grain), ("grain", f"{_READERS}.random_access")),
    by_array_record: ("grain", "tensorflow"),
    by_dali: ("nvidia.dali",),
}
"""Way -> what reads; by default TensorFlow, whose threads do not survive a loader's fork."""


def one_pass(way: str, data: Data) -> Figures:
    """Makes a pass in this process."""
    for name in IMPORTS.get(WAYS[way], ("tensorflow",)):
        importlib.import_module(name)
    if "tensorflow" in sys.modules:
        sys.modules["tensorflow"].constant(0)  # starts its runtime
    gc.collect()
    start, cpu = time.perf_counter(), time.process_time()
    images = 0
    for batch, _ in WAYS[way](data):
        images += batch.shape[0]
    used = time.process_time() - cpu
    if WAYS[way] in WITH_PYTORCH:
        workers = resource.getrusage(resource.RUSAGE_CHILDREN)
        used += workers.ru_utime + workers.ru_stime
    return Figures(images, time.perf_counter() - start, used)


def pass_of_its_own(way: str, data: Data) -> Figures:
    """Makes a pass in a new process."""
    command = [sys.executable, os.path.abspath(__file__), "--one_pass", way, *map(str, data)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{way} ended with {done.returncode}:\n{done.stderr}")
    return Figures(*json.loads(done.stdout.splitlines()[-1]))


def paths_below(folder: str) -> list[str]:
    """Lists every file below a folder."""
    return [os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names]


def prepare(cache: str, data: Data) -> None:
    """Puts all files into the page cache, or drops all their pages."""
    os.sync()
    for path in (*paths_below(data.images), *paths_below(data.shards)):
        with open(path, "rb") as file:
            if cache == "warm":
                file.read()
            else:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def make_data(arguments: argparse.Namespace) -> Data:
    """Makes images, unless they are given, and their shards, unless they exist already."""
    pixels = f"_{arguments.megapixels:g}_mp" if arguments.megapixels else ""
    kind = f"{arguments.count}_of_{arguments.kilobytes:g}_kb{pixels}"
    images = arguments.images or f"{arguments.work}/{kind}/images"
    shards = f"{arguments.work}/{os.path.basename(images) if arguments.images else kind}/shards"
    data = Data(images, shards, arguments.side)
    folders = {"tfrecord": shards, "array_record": data.array_records}
    if not arguments.images and not os.path.exists(f"{shards}/manifest.json"):
        make_images(images, arguments.count, arguments.kilobytes, arguments.megapixels)
    for name, folder in folders.items():
        wanted = name == "tfrecord" or ARRAY_RECORDS in arguments.ways
        if wanted and not os.path.exists(f"{folder}/manifest.json"):
            command = [sys.executable, "-m", "beam_pipeline", "convert", "--overwrite"]
            command += ["--images", images, "--output", folder, "--num_shards", "16"]
            subprocess.run([*command, "--format", name], check=True, stdout=subprocess.DEVNULL)
    command = [sys.executable, "-m", "beam_pipeline", "index", shards]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return data


def table(results: Mapping[tuple[str, str], list[Figures]]) -> str:
    """Formats the results as Markdown."""
    lines = [
        "| way | page cache | images/s, median (span) | CPU ms an image | CPU, ratio | wall, ratio |",
        "|---|---|---|---|---|---|",
    ]
    for (cache, way), passes in results.items():
        first = next(others for (same, _), others in results.items() if same == cache)
        rates = [one.images / one.wall for one in passes]
        pairs = [*zip(passes, first, strict=True)]
        wall = statistics.median(a.wall / b.wall for a, b in pairs)
        cpu = statistics.median(a.cpu / b.cpu for a, b in pairs)
        milliseconds = statistics.median(1000 * one.cpu / one.images for one in passes)
        lines.append(
            f"| {way} | {cache} | {statistics.median(rates):,.0f} "
            f"({min(rates):,.0f}-{max(rates):,.0f}) "
            f"| {milliseconds:.2f} | {cpu:.2f} | {wall:.2f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--work", required=True, help="folder for images and shards, on a disk")
    parser.add_argument("--images", help="class folders; by default JPEGs are made")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--kilobytes", type=float, default=110)
    parser.add_argument("--megapixels", type=float, default=0, help="by default noise has few")
    parser.add_argument(
        "--side", type=int, default=224, help="width and height to resize to, in pixels"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--ways",
        nargs="+",
        default=list(WAYS),
        choices=list(WAYS),
        help="the others are compared with the first",
    )
    parser.add_argument("--caches", nargs="+", default=list(CACHES), choices=CACHES)
    arguments = parser.parse_args()
    data = make_data(arguments)
    sizes = [os.path.getsize(path) for path in paths_below(data.images)]
    results: dict[tuple[str, str], list[Figures]] = {
        (cache, way): [] for cache in arguments.caches for way in arguments.ways
    }
    for _ in range(arguments.rounds):
        for cache, way in results:
            prepare(cache, data)
            figures = pass_of_its_own(way, data)
            if figures.images != len(sizes):
                sys.exit(f"{way} gave {figures.images} images, expected {len(sizes)}")
            results[cache, way].append(figures)
    mean = statistics.mean(sizes) / 1000
    print(f"{len(sizes):,} images of {mean:.1f} kB on average, resized to {data.side} pixels\n")
    print(table(results))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one_pass"]:
        way, images, shards, side = sys.argv[2:]
        print(json.dumps(one_pass(way, Data(images, shards, int(side)))))
    else:
        main()
