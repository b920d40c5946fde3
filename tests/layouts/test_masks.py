"""Masks: whole conversions of the usual folders, and what cannot be a mask."""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image

from beam_pipeline.cli import main
from beam_pipeline.core import errors, references
from beam_pipeline.core.images.png import grey_png
from beam_pipeline.core.labels.mask_names import Addition, MaskNames
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.layouts import label_files, layout
from beam_pipeline.layouts.masks import MaskReader, Masks, first_keys, look_for_pairs, voc_sets
from tests import harness
from tests.layouts.make_segmentation import SIZE, folders, grey, make_segmentation, palette, scene
from tests.pictures import encoded, picture, write_files

CLASS = "image/segmentation/class"


@pytest.fixture
def here(working_folder: Path) -> Path:
    """The working directory, with the sets of the page."""
    make_segmentation(str(working_folder))
    return working_folder


def ids(number: int) -> bytes:
    """The pixels of a scene's mask."""
    return scene(number)[1].tobytes()


def test_the_bytes_of_grey_masks_are_kept(here: Path) -> None:
    """Found beside the images without --masks, and with it; splits are those of the images."""
    assert harness.convert_asking("--images", "shapes", "--output", "found", "--name", "d") == 0
    argv = ("--images", "shapes/images", "--masks", "shapes/masks", "--classes", "classes.txt")
    assert harness.convert(*argv, "--output", "out", "--name", "d") == 0
    examples = harness.read_all("out")
    files = folders()
    assert len(examples) == 12
    for key, features in examples.items():
        mask = files[f"shapes/masks/{key[:-4]}.png"]
        assert features[f"{CLASS}/encoded"] == [mask]
        assert features[f"{CLASS}/format"] == [b"png"]
        assert features["image/encoded"] == [files[f"shapes/images/{key}"]]
    assert {key: split for key, split in harness.split_of_each("out").items() if "val/" in key} == {
        f"val/scene_{n:03d}.jpg": "validation" for n in (3, 7, 11)
    }
    manifest = harness.manifest_of("out")
    assert manifest["classes"] == [
        {"id": i, "name": name} for i, name in enumerate(("background", "disc", "square"))
    ]
    assert manifest["features"][f"{CLASS}/encoded"] == {
        "kind": "bytes",
        "optional": False,
        "shape": [],
        "pixels": "uint8",
    }
    assert manifest["dead_letters"] == {}
    assert Path("out/labels.txt").read_text(encoding="utf-8") == "background\ndisc\nsquare\n"
    shards = [name for name in harness.digests("out") if ".tfrecord" in name]
    assert {n: harness.digests("found")[n] for n in shards} == {
        n: harness.digests("out")[n] for n in shards
    }


ROWS = [[0, 1, 2], [255, 1, 0]]


def test_what_is_no_mask_of_its_image_is_a_dead_letter(working_folder: Path) -> None:
    """Each with its reason and its mask; the others are written."""
    photo = picture(1, size=(3, 2))
    masks = {
        "good.png": grey(ROWS),
        "palette.png": palette([[0, 1, 2], [3, 1, 0]]),
        "larger.png": grey([*ROWS, [0, 0, 0]]),
        "turned.png": grey([[0, 1], [1, 1], [0, 0]]),
        "rgb.png": picture(2, file_format="PNG", size=(3, 2)),
        "lossy.jpg": photo,
        "broken.png": grey(ROWS)[:-9],
        "empty.png": b"",
        "wide.png": grey(ROWS, bits=16),
        "alone.png": grey(ROWS),
    }
    write_files("masks", masks)
    stems = [name.partition(".")[0] for name in masks if name != "alone.png"]
    write_files("images", {f"{stem}.jpg": photo for stem in (*stems, "unlabelled")})
    argv = ("--images", "images", "--masks", "masks", "--max_bad_fraction", "1")
    assert harness.convert(*argv, "--output", "out") == 0
    examples = harness.read_all("out")
    assert examples.keys() == {"good.jpg", "palette.jpg"}
    assert examples["good.jpg"][f"{CLASS}/encoded"] == [masks["good.png"]]
    assert examples["palette.jpg"][f"{CLASS}/encoded"] == [grey_png(b"\0\1\2\3\1\0", 3, 2)]
    letters = {letter["key"].partition(".")[0]: letter for letter in harness.dead_letters_of("out")}
    assert {key: letter["reason"] for key, letter in letters.items()} == {
        "larger": "size_mismatch",
        "turned": "size_mismatch",
        "rgb": "bad_mask",
        "lossy": "bad_mask",
        "broken": "corrupt_image",
        "empty": "empty_file",
        "wide": "bad_mask",
        "alone": "missing_image",
        "unlabelled": "unlabelled",
    }
    of_masks = {key: os.path.basename(letter.get("file", "")) for key, letter in letters.items()}
    assert of_masks.pop("unlabelled") == ""
    assert of_masks == {key: name for name in masks if (key := name.partition(".")[0]) in of_masks}
    assert letters["turned"]["message"].startswith(
        "the mask: a mask of 2 x 3 pixels, the image has 3 x 2; width and height are swapped"
    )
    assert letters["unlabelled"]["message"] == "no mask is for this image"


@pytest.mark.slow
def test_masks_of_16_bits_are_kept(working_folder: Path) -> None:
    """The first mask decides; those of 8 bits are widened, so that all are of one type."""
    masks = {"a.png": grey([[0, 300, 2]], bits=16), "b.png": grey([[0, 1, 2]])}
    write_files("masks", masks)
    write_files("images", {f"{stem}.png": picture(1, size=(3, 1)) for stem in "ab"})
    assert harness.convert("--images", "images", "--masks", "masks", "--output", "out") == 0
    written = {key: f[f"{CLASS}/encoded"][0] for key, f in harness.read_all("out").items()}
    assert written == {"a.png": masks["a.png"], "b.png": grey_png(b"\0\0\0\1\0\2", 3, 1, 16)}
    assert harness.manifest_of("out")["features"][f"{CLASS}/encoded"]["pixels"] == "uint16"


@pytest.mark.slow
def test_a_mask_that_changes_is_noticed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--resume` names the image; `repair` does not write another shard than there was."""
    argv = ("--images", "shapes", "--output", "out", "--writers", "0")
    assert harness.convert(*argv) == 0
    before = harness.digests("out")
    assert harness.convert(*argv, "--resume") == 0
    assert harness.digests("out") == before
    shard = next(name for name in before if "train" in name and ".tfrecord" in name)
    os.remove(f"out/{shard}")
    assert main(["repair", "out"]) == 0
    assert harness.digests("out") == before
    write_files("shapes/masks/train", {"scene_001.png": grey([[1] * SIZE[0]] * SIZE[1])})
    capsys.readouterr()
    assert harness.convert(*argv, "--resume") == 1
    assert "1 changed (train/scene_001.jpg)" in capsys.readouterr().err
    os.remove(f"out/{shard}")
    assert main(["repair", "out"]) == 1
    assert "Restore the images, or convert again with --overwrite" in capsys.readouterr().err


def test_one_of_several_kinds_of_masks_must_be_named(working_folder: Path) -> None:
    """Unless it is known which holds class ids, as of Cityscapes."""
    photo, mask = scene(1)
    for kind in ("binary", "types"):
        write_files("masks", {f"{n}_{kind}.png": grey([[0]]) for n in range(4)})
    write_files("images", {f"{n}.jpg": encoded(photo, "JPEG") for n in range(4)})
    with pytest.raises(errors.UsageError, match=r"2 masks of each image: .*_types.*, .*_binary"):
        Masks().open(layout.SourceOptions(("images",), masks=("masks",)))
    city = {f"{n}_leftImg8bit.png": encoded(photo, "JPEG") for n in range(4)}
    write_files("left", city)
    for kind in ("labelIds", "instanceIds"):
        write_files("gt", {f"{n}_gtFine_{kind}.png": grey([[0]]) for n in range(4)})
    source = Masks().open(layout.SourceOptions(("left",), masks=("gt",)))
    assert source.uris == (f"{working_folder}/left", f"{working_folder}/gt")
    assert source.labels.folders[0].patterns == ("**/*_gtFine_labelIds.*",)
    assert source.notes == (
        "the mask of an image NAME_leftImg8bit is called NAME_gtFine_labelIds",
        "other masks of the same images are passed over: NAME_gtFine_instanceIds",
    )
    assert mask.size == SIZE


def test_masks_in_black_and_white_are_noted(working_folder: Path) -> None:
    """0 and 255 alone: a table of colours would make them 0 and 1."""
    write_files("masks", {f"{n}.png": grey([[0, 255]]) for n in range(3)})
    write_files("images", {f"{n}.jpg": picture(n, size=(2, 1)) for n in range(3)})
    (note,) = Masks().open(layout.SourceOptions(("images",), masks=("masks",))).notes
    assert note.startswith("the first masks contain only 0 and 255")
    write_files(".", {"table.csv": "background,0,0,0\nobject,255,255,255\n"})
    argv = ("--images", "images", "--masks", "masks", "--mask_colors", "table.csv")
    assert harness.convert(*argv, "--output", "out") == 0
    assert {f[f"{CLASS}/encoded"][0] for f in harness.read_all("out").values()} == {
        grey_png(b"\0\1", 2, 1)
    }


def test_a_row_is_a_reference() -> None:
    """Of the column whose folder the file lies in; a reader goes to any worker."""
    names = MaskNames(Addition(mask_suffix="_m"))
    reader = MaskReader(names, ("/c", "/o"), label_files.Splits({"a": "train"}, bare=True))
    reader = pickle.loads(pickle.dumps(reader))
    assert reader.row(
        references.ImageRef("x/a_m.png", "/o/x/a_m.png", 5, 7)
    ) == references.LabelRow("x/a", (None, ("/o/x/a_m.png", 5, 7)), "train", "/o/x/a_m.png", 0)
    assert reader.row(references.ImageRef("b.png", "/c/b.png", 5)).split == "unlisted"


def test_masks_below_the_images_are_no_images(here: Path) -> None:
    """A folder of masks within --images is left out of the listing."""
    source = Masks().open(layout.SourceOptions(("shapes",), masks=("shapes/masks",)))
    assert source.roots == (ImageRoot(f"{here}/shapes", without=("masks/",)),)
    assert Image.open("shapes/masks/train/scene_000.png").mode == "L"


def put(*names: str) -> None:
    write_files(".", dict.fromkeys(names, "x"))


@pytest.mark.parametrize(
    ("names", "why", "images", "masks", "found"),
    [
        (
            ["images/a.jpg", "masks/a.png"],
            "masks/ beside images/ in .",
            ("images", ()),
            ("masks", ()),
            MaskNames(),
        ),
        (
            ["images/training/a.jpg", "annotations/training/a.png"],
            "annotations/ beside images/ in .",
            ("images", ()),
            ("annotations", ()),
            MaskNames(),
        ),
        (
            ["train/images/a.jpg", "train/masks/a.png", "val/images/b.jpg", "val/masks/b.png"],
            "train/masks/ beside train/images/ in .",
            ("", ("train/images/", "val/images/")),
            ("", ("train/masks/", "val/masks/")),
            MaskNames(folders=(("masks", "images"),)),
        ),
        (
            ["train/a.png", "train_labels/a_L.png", "test/b.png", "test_labels/b_L.png"],
            "test_labels/ beside test/ in .",
            ("", ("test/", "train/")),
            ("", ("test_labels/", "train_labels/")),
            MaskNames(
                Addition(mask_suffix="_L"), (("test_labels", "test"), ("train_labels", "train"))
            ),
        ),
    ],
)
def test_folders_beside_each_other_are_pairs(
    working_folder: Path,
    names: list[str],
    why: str,
    images: tuple[str, Sequence[str]],
    masks: tuple[str, Sequence[str]],
    found: MaskNames,
) -> None:
    """With splits above, below or in the names; nothing is opened."""
    put(*names)
    pairs = look_for_pairs(str(working_folder))
    assert pairs is not None
    roots = [
        ImageRoot(str(working_folder / folder), within=tuple(within))
        for folder, within in (images, masks)
    ]
    assert [*pairs.images, *pairs.masks] == roots
    assert pairs.names.names == found
    assert Masks().recognise(layout.SourceOptions((".",))) == why


@pytest.mark.parametrize(
    "names",
    [
        ["images/a.jpg", "labels/a.txt"],
        ["images/a.jpg", "masks/b.png"],
        ["images/a.jpg", "masks/a.jpg"],
        ["images/a.jpg", "masks/a.png", "labels/a.png"],
        ["cat/a.jpg", "dog/b.jpg"],
        ["train/cat/a.jpg", "val/cat/b.jpg"],
        ["images/a.jpg", "images/b.jpg", "masks/a_x.png", "masks/a_y.png", "masks/b_x.png"],
    ],
)
def test_what_is_not_certain_is_not_taken(working_folder: Path, names: list[str]) -> None:
    """Label files, names that do not meet, JPEGs, two folders of masks, classes, several kinds."""
    put(*names)
    assert look_for_pairs(str(working_folder)) is None
    assert Masks().recognise(layout.SourceOptions((".",))) == ""


def test_names_are_looked_at_in_order(working_folder: Path) -> None:
    """The first few, without hidden ones."""
    put("b/1.png", "a/2.png", "a/.hidden.png", ".x/3.png", "a/notes.txt")
    root = ImageRoot(str(working_folder))
    assert first_keys([root]) == ["a/2.png", "b/1.png"]
    assert first_keys([root], 1) == ["a/2.png"]
    assert first_keys([ImageRoot(f"{working_folder}/nowhere")]) == []


@pytest.fixture
def year(working_folder: Path) -> str:
    """A year without masks of objects."""
    folder = f"{working_folder}/VOCdevkit/VOC2012"
    for name in ("JPEGImages", "SegmentationClass"):
        os.makedirs(f"{folder}/{name}")
    return folder


@pytest.mark.parametrize(
    "path", [".", "VOCdevkit", "VOCdevkit/VOC2012", "VOCdevkit/VOC2012/JPEGImages"]
)
def test_a_year_is_found_from_around(year: str, path: str) -> None:
    """The folder above, itself, and that of its images."""
    assert voc_sets([path]) == [year]


def test_a_set_of_ones_own_has_no_standard_classes(year: str) -> None:
    """Its folder is not called as a year."""
    os.rename(year, "mine")
    os.mkdir("mine/SegmentationObject")
    source = Masks().open(layout.SourceOptions(("mine",)))
    assert source.numbering.known == ()
    assert [column.name for column in source.columns] == ["class", "object"]


def test_boxes_come_first(year: str) -> None:
    """With Annotations/ the layout voc is recognised; --layout masks takes the masks."""
    options = layout.SourceOptions(("VOCdevkit",))
    assert Masks().recognise(options) == (
        "SegmentationClass/ beside JPEGImages/ in VOCdevkit/VOC2012"
    )
    os.mkdir(f"{year}/Annotations")
    assert Masks().recognise(options) == ""
