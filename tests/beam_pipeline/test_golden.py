"""Fixed input gives fixed bytes: every shard and manifest is compared with a recorded SHA-256.

A change here changes the bytes of every data set that users have, so `--resume` and checksums of theirs break.
Do not update a digest to make a test pass; a change of the output needs a reason and an entry in the changelog.

No image is drawn by Pillow, whose encoders change between releases, and gzip shards are compared after
decompression, because zlib and zlib-ng compress the same bytes differently.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from beam_pipeline.core.card.metadata_files import SCHEMA_NAME
from beam_pipeline.core.dataset.manifest import (
    CHECKSUM_ENTRY,
    IMAGES_ENTRY,
    LINES_ENTRY,
    MANIFEST_NAME,
    dump_json,
)
from tests.harness import convert
from tests.pictures import write_files

JPEG = base64.b64decode(  # 16 x 8 pixels
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDACgcHiMeGSgjISMtKygwPGRBPDc3PHtYXUlkkYCZlo+AjIqgtObDoKrarYqM"
    "yP/L2u71////m8H////6/+b9//j/2wBDASstLTw1PHZBQXb4pYyl+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4"
    "+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj/wAARCAAIABADASIAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAAAAT/xAAUEAEA"
    "AAAAAAAAAAAAAAAAAAAA/8QAFQEBAQAAAAAAAAAAAAAAAAAAAgT/xAAUEQEAAAAAAAAAAAAAAAAAAAAA/9oADAMBAAIR"
    "AxEAPwCYAF7/2Q=="
)
WEBP = base64.b64decode("UklGRh4AAABXRUJQVlA4TBEAAAAvD8ABAAdQjyKXp/+BiOh/AAA=")  # 16 x 8
GIF = base64.b64decode(  # 16 x 8
    "R0lGODdhEAAIAIEAAMgePAAAAAAAAAAAACwAAAAAEAAIAAAIFQABCBxIsKDBgwgTKlzIsKHDhwgDAgA7"
)


def bmp(number: int, width: int = 8, height: int = 4) -> bytes:
    """A BMP of 24 bits a pixel; the width is a multiple of 4, so rows need no padding."""
    pixels = bytes((number, 2 * number % 256, 3 * number % 256)) * (width * height)
    header = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, len(pixels), 2835, 2835, 0, 0)
    return struct.pack("<2sIHHI", b"BM", 54 + len(pixels), 0, 0, 54) + header + pixels


def png(number: int, width: int = 100, height: int = 80) -> bytes:
    """A grey PNG whose pixels are stored in one uncompressed block."""
    rows = (b"\0" + bytes((number,)) * width) * height
    stored = struct.pack("<BHH", 1, len(rows), len(rows) ^ 0xFFFF) + rows
    data = b"\x78\x01" + stored + struct.pack(">I", zlib.adler32(rows))
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)),
        (b"IDAT", data),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )


def _class_folders() -> dict[str, bytes | str]:
    names = {f"photos/{['cat', 'dog', 'Owl'][i % 3]}/{i:02d}.bmp": bmp(i) for i in range(30)}
    others = {
        "cat/größe 1.jpg": JPEG,
        "dog/x.webp": WEBP,
        "dog/x.gif": GIF,
        "Owl/named.jpg": png(5),
    }
    bad = {"cat/empty.jpg": b"", "cat/text.png": "not an image", "stray.png": png(6)}
    return {**names, **{f"photos/{name}": data for name, data in {**others, **bad}.items()}}


def _table() -> dict[str, bytes | str]:
    rows = "".join(
        f'{i}.bmp,"{("cat", "dog, small", "größe")[i % 3]}",{i / 7:.6f},{i * i},note {i}\n'
        for i in range(20)
    )
    table = f"filename,breed,weight,age,note\n{rows}20.bmp,cat,,,\nmissing.bmp,cat,1,1,\n"
    return {"labels.csv": table, **{f"flat/{i}.bmp": bmp(i) for i in range(21)}}


def _lists() -> dict[str, bytes | str]:
    rows = "".join(
        json.dumps({"file_name": f"{i}.bmp", "tags": ["a", "b", "c"][: i % 4], "score": i + 0.25})
        + "\n"
        for i in range(12)
    )
    return {"tags.jsonl": rows, **{f"tagged/{i}.bmp": bmp(i) for i in range(12)}}


KITTI_LINES = (
    "Car 0.00 0 1.62 12.50 20.25 68.75 62.00 1.52 1.63 3.88 -4.36 1.71 14.20 1.33\n",
    "Pedestrian 0.88 2 -0.31 40.00 15.00 50.25 79.00 1.82 0.61 0.94 0.75 1.52 8.63 -0.22\n",
    "DontCare -1 -1 -10 70.00 16.00 76.00 18.50 -1 -1 -1 -1000 -1000 -1000 -10\n",
)


def _kitti() -> dict[str, bytes | str]:
    found: dict[str, bytes | str] = {}
    for i in range(8):
        found[f"kitti/training/image_2/{i:06d}.png"] = png(i)
        found[f"kitti/training/label_2/{i:06d}.txt"] = "".join(KITTI_LINES[: i % 4])
    return found


def _coco() -> dict[str, bytes | str]:
    names = ("person", "bicycle", "traffic light")
    found: dict[str, bytes | str] = {}
    for split, first in (("train2017", 1), ("val2017", 11)):
        ids = range(first, first + 6)
        annotations = [
            {
                "id": 10 * image + number,
                "image_id": image,
                "category_id": (1, 3, 10)[(image + number) % 3],
                "bbox": [1.5 * number + 0.33, 2.0, 10.25 + image, 20],
                "area": 205.125 + number,
                "iscrowd": number % 2,
                "segmentation": [[1.0, 2.0, 3.0, 2.0, 3.0, 4.0]],
            }
            for image in ids
            for number in range(image % 3)
        ]
        images = [
            {"id": i, "file_name": f"{i:012d}.png", "width": 100, "height": 80, "license": 1}
            for i in ids
        ]
        categories = [
            {"id": number, "name": name, "supercategory": "thing"}
            for number, name in zip((1, 3, 10), names, strict=True)
        ]
        whole = {"images": images, "annotations": annotations, "categories": categories}
        found[f"coco/annotations/instances_{split}.json"] = json.dumps(whole)
        found.update({f"coco/{split}/{i:012d}.png": png(i) for i in ids})
    return found


VOC = (
    "<annotation><filename>{name}</filename><size><width>100</width><height>80</height>"
    "<depth>3</depth></size>{objects}</annotation>\n"
)
VOC_OBJECT = (
    "<object><name>{name}</name><pose>Left</pose><truncated>{flag}</truncated>"
    "<difficult>{flag}</difficult><bndbox><xmin>{left}</xmin><ymin>5</ymin><xmax>60.5</xmax>"
    "<ymax>80</ymax></bndbox></object>"
)


def _voc() -> dict[str, bytes | str]:
    found: dict[str, bytes | str] = {}
    for i in range(6):
        objects = "".join(
            VOC_OBJECT.format(name=("mug", "cup")[number], flag=number, left=1 + i + number)
            for number in range(i % 3)
        )
        found[f"voc/annotations/{i}.xml"] = VOC.format(name=f"{i}.png", objects=objects)
        found[f"voc/images/{i}.png"] = png(i)
    return found


def _automl() -> dict[str, bytes | str]:
    sets = ("TRAIN", "VALIDATION", "TEST", "UNASSIGNED")
    rows = ""
    for i in range(12):
        beginning = f"{sets[i % 4]},gs://project-vcm/streets/{i}.png"
        boxes = ("car,0.1,0.25,,,0.35,0.5,,", "sign,0.75,0.1,0.9,0.1,0.9,0.7,0.75,0.7")[: i % 3]
        rows += "".join(f"{beginning},{box}\r\n" for box in boxes or (",,,,,,,,",))
    return {"streets.csv": rows, **{f"project-vcm/streets/{i}.png": png(i) for i in range(12)}}


def _imagefolder() -> dict[str, bytes | str]:
    found: dict[str, bytes | str] = {}
    for split, images in (("train", 7), ("test", 3)):
        rows = ""
        for i in range(images):
            boxes = [[4.0 + i, 6.0, 20.0, 12.5], [40.0, 10.0, 25.0, 40.0]][: i % 3]
            objects = {"bbox": boxes, "categories": [0, 2][: len(boxes)]}
            rows += json.dumps({"file_name": f"{i}.png", "objects": objects}) + "\n"
            found[f"cppe/{split}/{i}.png"] = png(i)
        found[f"cppe/{split}/metadata.jsonl"] = rows
    return found


INPUTS = {
    "photos": _class_folders,
    "flat": _table,
    "tagged": _lists,
    "kitti": _kitti,
    "coco": _coco,
    "voc": _voc,
    "project-vcm/streets": _automl,
    "cppe": _imagefolder,
}
"""Value of --images -> the files that it needs."""

CASES: Mapping[str, str] = {
    "class_folders": "--images photos --num_shards train=3,test=2 --splits train=0.75,test=0.25",
    "class_folders_seed": "--images photos --num_shards 4 --seed 7 --image_check full",
    "table": "--images flat --labels labels.csv --label_column breed --num_shards 2 --label_base 1",
    "table_gzip": "--images flat --labels labels.csv --label_column breed --compression gzip",
    "table_float": "--images flat --labels labels.csv --label_column weight --shard_size 2KB",
    "lists": "--images tagged --labels tags.jsonl --label_column tags --num_shards 2",
    "kitti": "--images kitti --splits train=0.5,validation=0.5",
    "coco": "--images coco --num_shards 2",
    "voc": "--images voc --splits train=0.5,test=0.5 --seed 3",
    "automl": "--images project-vcm/streets --labels streets.csv",
    "imagefolder": "--images cppe --num_shards train=2,test=1",
}
"""Case -> options of its conversion."""


def digests_of(case: str) -> dict[str, str]:
    """Converts in the current folder and returns file -> SHA-256, compressed shards decompressed.

    Left out are the dead letters, which say where the images lie, what holds the sizes of compressed shards, the
    report, whose pictures Pillow makes, and the schema, which is younger.
    """
    argv = CASES[case].split()
    write_files(".", INPUTS[argv[1]]())
    options = ("--name", "d", "--max_bad_fraction=1", "--no_card", "--no_report")
    assert convert(*argv, *options, "--output", "out") == 0
    sized = {"manifest.json", "dataset_info.json"} if "gzip" in argv else set()
    names = sorted({path.name for path in Path("out").iterdir() if path.is_file()} - sized)
    found = {}
    for name in names:
        data = Path("out", name).read_bytes()
        data = gzip.decompress(data) if name.endswith(".gz") else data
        if name == MANIFEST_NAME:
            manifest = json.loads(data)
            for entry in (IMAGES_ENTRY, CHECKSUM_ENTRY, LINES_ENTRY):
                del manifest[entry]
            data = dump_json(manifest)
        if name not in ("dead_letters.jsonl", SCHEMA_NAME):
            found[name] = hashlib.sha256(data).hexdigest()
    return found


@pytest.mark.promise("same_bytes")
@pytest.mark.parametrize("case", CASES)
def test_fixed_input_gives_the_recorded_bytes(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names and SHA-256 of all shards, the manifest and the files beside it are those of version 0.1.0.

    It listed no duplicates, of which one case has some, no figures of images, and no checksums.
    """
    monkeypatch.chdir(tmp_path)
    assert digests_of(case) == GOLDEN[case]


GOLDEN: Mapping[str, Mapping[str, str]] = {
    "class_folders": {
        "d-test.tfrecord-00000-of-00002": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "d-test.tfrecord-00001-of-00002": "87fe9ab4ab0ceb4c1440a3747643a6e0db0fd9f22a395e38c1ba0c5c9da431ca",
        "d-train.tfrecord-00000-of-00003": "779fa3f4849ba9804e0fe15afb1c28facca84a39f525abe44e7851436cfda353",
        "d-train.tfrecord-00001-of-00003": "48105f9b9e78e5c6c2360472ad922bbf4099c9a32a80923de276deae26343b89",
        "d-train.tfrecord-00002-of-00003": "614ecb8b990072901186ff2d4fb8a14770c42786103354f75ea1f5f5755658b4",
        "dataset_info.json": "ff59d44b66fbda44cdce6b6f9d613105f1fe87c5baaf2d634b7cb7e379489a85",
        "features.json": "f46436e03528c184fb744e5379662ffd5f9dcec65ba0f24912b4cd96b5df8fc5",
        "image.class.label.labels.txt": "4999c9fea5b44277c72feedf2a723df40a1f708d2e588e95accd8153a4f42af4",
        "labels.txt": "4999c9fea5b44277c72feedf2a723df40a1f708d2e588e95accd8153a4f42af4",
        "manifest.json": "db783876d79adbb4a36eaa2051b8fa13caefd43088e3915570e26878d09ffa48",
    },
    "class_folders_seed": {
        "d-train.tfrecord-00000-of-00004": "2e59a30539c6e88bbe38a06e19e69fad1e5d7d604136c5de9f56a6f7457062ab",
        "d-train.tfrecord-00001-of-00004": "aadf6d33c2d911cbfde53725d09aa7e84988b4c36bfa906322310ba7789c8d17",
        "d-train.tfrecord-00002-of-00004": "e683a062f2b01f0dc1fd52b847a56b9f199f96743beaa2079ba2e61eee81cd7a",
        "d-train.tfrecord-00003-of-00004": "fbbf08558f4e01d81661a0f1f1b386b3d0300e43dc58434c8c40cd420092d975",
        "dataset_info.json": "3ca21a4c13c90c2929118217aa48b874b9ffb4a05828c1c490cf1d86c3ff5a9f",
        "features.json": "f46436e03528c184fb744e5379662ffd5f9dcec65ba0f24912b4cd96b5df8fc5",
        "image.class.label.labels.txt": "4999c9fea5b44277c72feedf2a723df40a1f708d2e588e95accd8153a4f42af4",
        "labels.txt": "4999c9fea5b44277c72feedf2a723df40a1f708d2e588e95accd8153a4f42af4",
        "manifest.json": "f6c167a6f54402ed9d2f8f52e0bdfbbf72cbced5b8d9ca61b692eda24f32ba61",
    },
    "table": {
        "d-train.tfrecord-00000-of-00002": "5250c4840158862f94e8304af99e3732322c9ebdbf6ae9e1a9c6484be979530d",
        "d-train.tfrecord-00001-of-00002": "28dd2bbe78c6b64aa262b7f41f03ca20353f161536f5e658cbeed17f974a201e",
        "dataset_info.json": "76ee5392f94b0b158f46d8813a7c599930765c04ed5e21028b3d674b601a4aa7",
        "features.json": "0be5aaf37e85dd1fa4170ac3c3b5a6f3a54cde70523543476e320cfdfd21fca2",
        "labels.txt": "19747aab1a4746d549800b7c4146f07f969933ecafe7b88c85bf847cd3ff84cf",
        "manifest.json": "ee1a120c581e0a94e1aef3ff1bba6af8187c84cac465782626f37688bccf887d",
    },
    "table_gzip": {
        "d-train.tfrecord-00000-of-00001.gz": "e81ef85d6b9c1e6c19fb900248193786e6b636c582348a95a68636bfbe40bceb",
        "labels.txt": "19747aab1a4746d549800b7c4146f07f969933ecafe7b88c85bf847cd3ff84cf",
    },
    "table_float": {
        "d-train.tfrecord-00000-of-00002": "242c2b4591396f8d81056749c7d5b0e90ec815c95566c9a1856b4a5f19abab67",
        "d-train.tfrecord-00001-of-00002": "bd72b637e27a2138d97062710aa90a37a9d219373268886eb04d2543c8a11c5a",
        "dataset_info.json": "07790b0d66e15aebe5c94edbf85d5ab15741b8cce6d7666c2749982904a49cd8",
        "features.json": "1b7b015fd43ccfd071ff2511b2a41d5beee4845a43720616b418ce290d02959a",
        "manifest.json": "f8d1321b23bdc285ef0527051779582dc84d640684de712096575e1a539854e3",
    },
    "lists": {
        "d-train.tfrecord-00000-of-00002": "44dc5f6b5a96dc93aa5d21587dc3611b2157219fc5143d9c039f8d9a68865523",
        "d-train.tfrecord-00001-of-00002": "0ab3256269c4c33fe703055d4330f8af53ab91f110eda7e068c0db9635b9cb0a",
        "dataset_info.json": "a424098a3690e1d913fa020c81b298b493dc2832d1920963d7c5fcedc4787cba",
        "features.json": "689ed76d258e798963b1d729d65f8989c2e121d41032ae42f97fcff2c5ae4fe3",
        "image.class.label.labels.txt": "880553fca8fcea94e325ee2cfb48e5a985cc797f39a14cc6d3cedecfeb2ae4d2",
        "labels.txt": "880553fca8fcea94e325ee2cfb48e5a985cc797f39a14cc6d3cedecfeb2ae4d2",
        "manifest.json": "800356121be9fc76d96288886aa6d8be3cc5c6ce417d92b3d56d7b642012d348",
    },
    "kitti": {
        "d-train.tfrecord-00000-of-00001": "ea1950599b4cf8770f11a7573cb42c72ff2fe4ba2d3288d062e4817a9ff91480",
        "d-validation.tfrecord-00000-of-00001": "d1f4baf481f56320f91c6ac2d5f0a80bf486acbc586a3258b9842320640e385c",
        "dataset_info.json": "3a0a7cb6a32c915d3c7288ba20c0ce821456e657cccacf4380b49df1981de02f",
        "features.json": "1f86c68acaffa14650401c2b586162fcbf84133542b20406350e1b188e7485d0",
        "label_map.pbtxt": "7fd15641e1ca6793c76f05c74335ac144606af33819fbeddcec6c10227093ec7",
        "labels.txt": "486953c821909456079862ae9ff71d95c7c6e03ed47cdad078ebcf2e667725ca",
        "manifest.json": "b95148ee4bef680a475cc34e03445e657e735153bbb816a77c3611b198503c80",
    },
    "coco": {
        "d-train.tfrecord-00000-of-00002": "5b157ff0e2addc165c97ae2520abfe936a25d156c88bde1ce32b56504986e55a",
        "d-train.tfrecord-00001-of-00002": "e08033f062167ca6bf675e18c8024ebcaa8c184ad32421737f2c51a8eaee046b",
        "d-validation.tfrecord-00000-of-00002": "411b39261ea636a78da6b2ad838de2276d9f1fedcd1a2575468d6893d1c17920",
        "d-validation.tfrecord-00001-of-00002": "67289d40a180b9c0675922b988ae470bcc86c0f1e724360a8fa939f8b21b2aaa",
        "dataset_info.json": "d280fb9663b468dbc85a1b63062af0a3c7907ff2fee99b3a3e8cc09c1f0015de",
        "features.json": "bb72a9419ec2e132d8217801746195a7ca3aef51009984a78a7c422d616795ed",
        "label_map.pbtxt": "cd45e82918f07953b05e87eedc155bc5a2714d81bab3fdc60d6b5384f3c29603",
        "manifest.json": "1cdb9f62a9588ec5cfabc335067c4ee6716f1a596be2d760cbba1eafc3ffece5",
    },
    "voc": {
        "d-test.tfrecord-00000-of-00001": "9ac06adb304091c1f5fa115cd2353c8e629701aeeed69bb01c453b3fecb2bb6d",
        "d-train.tfrecord-00000-of-00001": "edc6fcbd8a91556e8ad3954a20aa372d519eaacb7c2b21390963992bbfde4320",
        "dataset_info.json": "fe786e482bcd1d922813876658d2fda56acd0ec6ace07a2018a183f53f4b282d",
        "features.json": "51abf2c46720f47ed8b33b6fe96d72381bd65218bbd5b80ce8bb7ea692b25a80",
        "label_map.pbtxt": "143c0a9f5be770778b53aecc288b885c87494b0946760463d1d7eb541e97606a",
        "labels.txt": "12a322cec0dfa6c0a24ad284d1e80342f142652a58ac7da256fb99d2d182754a",
        "manifest.json": "6540c2f28c1b9eb74a0e937493d06ce37d935217483c950e5f72aff4d35be861",
    },
    "automl": {
        "d-test.tfrecord-00000-of-00001": "4651f49891cb8a2b2ca6c14180072af705f9e96b348f796a3b4fa5e9ad9a6322",
        "d-train.tfrecord-00000-of-00001": "dc69f5bf55704c726dde780a9903860874d23a084dbd55f0b90566cc4d782227",
        "d-validation.tfrecord-00000-of-00001": "35870189b9f2c32dec3fca168b2e5c5539eb733ccb9dcbee0e1e3803d4b0216c",
        "dataset_info.json": "8eccaea82a763b1ba8a823bb45a91838cbc2044c7d93027ee644b969b8349e8f",
        "features.json": "1084e9e1a14d0859402008be3b04cfe94624b2f0289dd7ed19a69c98e6b9cf89",
        "label_map.pbtxt": "4b9b0b9cbb969e772447a72f9b757c988c2ec23cc3d190e0006caa7dd192bcc5",
        "labels.txt": "4a5f128e4971ac7a9e6e4ce7eeff9d5b695dd8c241222addfbf318def0c4ac87",
        "manifest.json": "493b74ef26a2c5cfbfa710f101db02cefec6b4b05a47386f4ae10946d06d0b43",
    },
    "imagefolder": {
        "d-test.tfrecord-00000-of-00001": "33538d046017b6fafdb80824259eaef95e633fde1d9c047fd17af4dcb661d541",
        "d-train.tfrecord-00000-of-00002": "dc752c62f7d818f5812b6cd65619b4f83a811a81c9323db397cd1413d59e255c",
        "d-train.tfrecord-00001-of-00002": "bdd6469a050840198860f92b135b7deb7cf1ae0bc7749705d770478bfcd10349",
        "dataset_info.json": "8261b374ae8572b0a40c14b74fcf714cae31c5dda352c1021fbc32b6dc639e2c",
        "duplicates.json": "006c793c42ced61e4a46fed6e0a3024c3b8c56d13488958a20749d1769e0101e",
        "features.json": "1084e9e1a14d0859402008be3b04cfe94624b2f0289dd7ed19a69c98e6b9cf89",
        "manifest.json": "bf214540796d206ab219cf3185a3bafa4c4be6e49c69ed96dee3fb251e7d6f4a",
    },
}
"""Case -> file -> SHA-256."""
