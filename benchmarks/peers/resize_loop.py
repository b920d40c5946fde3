"""The loop that people write to scale images: `resize_loop.py IMAGES OUTPUT SHARDS PROCESSES [--bare]`.

It scales images in class folders to a shortest side of 256 with Pillow and writes them as shuffled
TFRecords, in several processes. It does the same as `convert --resize 256`: small images stay as they
are, others are turned as EXIF says, converted to sRGB, and encoded with quality 90 and 4:4:4. It checks
nothing, and does not survive a broken file.

With --bare it loads no TensorFlow: it makes the bytes of examples and records by itself, which nobody
writes, but which leaves little more than Pillow's own work.
"""

import io
import multiprocessing
import os
import random
import struct
import sys

from PIL import Image, ImageCms, ImageOps

SIDE = 256
SRGB = ImageCms.createProfile("sRGB")
transforms = {}


def conversion(profile, mode):
    """The conversion to sRGB; None for a profile that is named so."""
    if (profile, mode) not in transforms:
        opened = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        named = "srgb" in ImageCms.getProfileDescription(opened).lower()
        made = None if named else ImageCms.buildTransform(opened, SRGB, mode, "RGB")
        transforms[profile, mode] = made
    return transforms[profile, mode]


def scaled(data):
    """(bytes, width, height, channels) of an image to write."""
    image = Image.open(io.BytesIO(data))
    width, height = image.size
    if min(image.size) <= SIDE:
        return data, width, height, len(image.getbands())
    factor = SIDE / min(image.size)
    size = (int(width * factor + 0.5), int(height * factor + 0.5))
    image.draft(None, (2 * size[0], 2 * size[1]))
    orientation = image.getexif().get(0x0112, 1)
    profile = image.info.get("icc_profile")
    image = image.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0)
    if profile and (transform := conversion(profile, image.mode)):
        image = ImageCms.applyTransform(image, transform)
    if orientation != 1:
        image.getexif()[0x0112] = orientation
        image = ImageOps.exif_transpose(image)
    out = io.BytesIO()
    image.info = {}
    image.save(out, "JPEG", quality=90, subsampling=0)
    return out.getvalue(), *image.size, len(image.getbands())


def features(path, name, label):
    with open(path, "rb") as file:
        data, width, height, channels = scaled(file.read())
    key = f"{name}/{os.path.basename(path)}".encode()
    return {
        "image/channels": channels,
        "image/class/label": label,
        "image/class/text": name.encode(),
        "image/encoded": data,
        "image/filename": key,
        "image/format": b"jpeg",
        "image/height": height,
        "image/source_id": key,
        "image/width": width,
    }


# --- with TensorFlow ------------------------------------------------------------------------------


def write_shard(task):
    import tensorflow as tf

    output, samples = task
    with tf.io.TFRecordWriter(output) as writer:
        for sample in samples:
            feature = {}
            for key, value in features(*sample).items():
                if isinstance(value, bytes):
                    made = tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
                else:
                    made = tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
                feature[key] = made
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())


# --- bare -----------------------------------------------------------------------------------------


def varint(value):
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def field(tag, data):
    return tag + varint(len(data)) + data


def example_of(values):
    entries = []
    for key, value in values.items():
        if isinstance(value, bytes):
            feature = field(b"\x0a", field(b"\x0a", value))
        else:
            feature = field(b"\x1a", field(b"\x0a", varint(value)))
        entries.append(field(b"\x0a", field(b"\x0a", key.encode()) + field(b"\x12", feature)))
    return field(b"\x0a", b"".join(entries))


def write_bare_shard(task):
    import google_crc32c

    def masked(data):
        crc = google_crc32c.value(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    output, samples = task
    with open(output, "wb") as file:
        for sample in samples:
            record = example_of(features(*sample))
            length = struct.pack("<Q", len(record))
            file.write(length + masked(length) + record + masked(record))


def main(images, output, shards, processes, *options):
    samples = [
        (entry.path, name, label)
        for label, name in enumerate(sorted(os.listdir(images)))
        for entry in os.scandir(os.path.join(images, name))
    ]
    random.Random(0).shuffle(samples)
    os.makedirs(output, exist_ok=True)
    tasks = [
        (
            os.path.join(output, f"loop-train.tfrecord-{shard:05d}-of-{shards:05d}"),
            samples[shard::shards],
        )
        for shard in range(shards)
    ]
    write = write_bare_shard if "--bare" in options else write_shard
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        pool.map(write, tasks, chunksize=1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:])
