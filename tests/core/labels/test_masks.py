"""The names of masks and of their images, and tables of the colours in masks."""

from __future__ import annotations

import pytest

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels.mask_colours import MaskColours, parse_mask_colours
from beam_pipeline.core.labels.mask_names import (
    Addition,
    FoundNames,
    MaskNames,
    find_names,
)


@pytest.mark.parametrize(
    ("images", "masks", "expected"),
    [
        (["a.jpg", "b.jpg"], ["a.png", "b.png"], MaskNames()),
        (["a.jpg"], ["a_mask.png"], MaskNames(Addition(mask_suffix="_mask"))),
        (["1.jpg", "10.jpg"], ["mask_1.png", "mask_10.png"], MaskNames(Addition("", "", "mask_"))),
        (
            ["x_0019_leftImg8bit.png", "y_0019_leftImg8bit.png"],
            ["x_0019_gtFine_labelIds.png", "y_0019_gtFine_labelIds.png"],
            MaskNames(Addition("", "_leftImg8bit", "", "_gtFine_labelIds")),
        ),
        (
            ["img001.png", "img002.png"],
            ["seg001.png", "seg002.png"],
            MaskNames(Addition("img", "", "seg")),
        ),
        (
            ["train/images/a.jpg", "val/images/b.jpg"],
            ["train/masks/a.png", "val/masks/b.png"],
            MaskNames(folders=(("masks", "images"),)),
        ),
        (["x/a.jpg", "y/b.jpg"], ["all/a.png", "all/b.png"], MaskNames(bare=True)),
        (["x/a.jpg", "y/a.jpg"], ["all/a.png", "more/b.png"], MaskNames()),
        (["1.jpg", "2.jpg"], ["10.png", "20.png"], MaskNames()),
        (["cat.jpg", "dog.jpg"], ["car.png", "dot.png"], MaskNames()),
        (["p1.jpg"], ["p9.png"], MaskNames()),
        (["a.jpg", "b.jpg", "c.jpg"], ["a_x.png", "d.png", "e.png"], MaskNames()),
    ],
)
def test_names_are_found_out(images: list[str], masks: list[str], expected: MaskNames) -> None:
    """An addition or folders that most masks share; nothing that could be chance."""
    assert find_names(images, masks).names == expected


@pytest.mark.parametrize(
    ("names", "key", "image"),
    [
        (MaskNames(), "train/a.b.png", "train/a.b"),
        (MaskNames(Addition(mask_suffix="_mask")), "train/a_mask.png", "train/a"),
        (MaskNames(Addition(mask_suffix="_mask")), "train/a.png", "train/a"),
        (MaskNames(Addition(mask_suffix="_mask")), "_mask.png", "_mask"),
        (MaskNames(Addition("i_", "_r", "m_", "_l")), "m_7_l.png", "i_7_r"),
        (MaskNames(folders=(("masks", "images"),)), "train/masks/a.png", "train/images/a"),
        (MaskNames(folders=(("train_labels", "train"),)), "train_labels/x/a.png", "train/x/a"),
        (MaskNames(bare=True), "x/y/a.png", "a"),
    ],
)
def test_a_mask_names_its_image(names: MaskNames, key: str, image: str) -> None:
    """Without extension; a mask that lacks the addition keeps its name."""
    assert names.image_name(key) == image


def test_several_kinds_of_masks_are_told_apart() -> None:
    """The one that is known to hold class ids comes first."""
    images = [f"{n}_leftImg8bit.png" for n in range(5)]
    kinds = ("color", "instanceIds", "labelIds")
    masks = [f"{n}_gtFine_{kind}.png" for n in range(5) for kind in kinds]
    names = find_names(images, masks)
    assert names == FoundNames(
        MaskNames(Addition("", "_leftImg8bit", "", "_gtFine_labelIds")),
        1.0,
        tuple(Addition("", "_leftImg8bit", "", f"_gtFine_{kind}") for kind in kinds[:2]),
    )
    assert names.certain
    unknown = find_names(["1.jpg", "2.jpg"], ["1_a.png", "1_b.png", "2_a.png", "2_b.png"])
    assert len(unknown.further_kinds) == 1
    assert not unknown.certain


def test_the_share_of_masks_that_meet_an_image() -> None:
    """Of those that were looked at."""
    assert find_names(["a.jpg", "b.jpg"], ["a.png", "b.png", "c.png", "d.png"]).met == 0.5
    assert find_names([], ["a.png"]).met == 0
    assert find_names(["a.jpg"], []) == FoundNames(MaskNames(), 0.0)


TWO = MaskColours(((0, 0, 0, 0), (128, 64, 1, 1)), (("sky", 0), ("road", 1)))


@pytest.mark.parametrize(
    "text",
    [
        "sky,0,0,0\nroad,128,64,1\n",
        "name,r,g,b\nsky,0,0,0\nroad,128,64,1\n",
        "\ufeffname, r, g, b\r\n\r\nsky, 0, 0, 0\r\nroad, 128, 64, 1\r\n",
        "id,label,red,green,blue\n0,sky,0,0,0\n1,road,128,64,1\n",
        "0 0 0\tsky\n128 64 1\t\troad\n",
        "# label:color_rgb:parts:actions\nsky:0,0,0::\nroad:128,64,1::\n",
    ],
)
def test_usual_tables_are_read(text: str) -> None:
    """class_dict.csv, label_colors.txt, CVAT's labelmap.txt; ids count from 0 or stand there."""
    assert parse_mask_colours(text.encode(), "t") == TWO


def test_a_class_may_have_several_colours_and_any_id() -> None:
    """Names that repeat share an id; ids may leave gaps."""
    colours = parse_mask_colours(b"a,1,1,1\nb,2,2,2\na,3,3,3\n", "t")
    assert colours == MaskColours(((1, 1, 1, 0), (2, 2, 2, 1), (3, 3, 3, 0)), (("a", 0), ("b", 1)))
    colours = parse_mask_colours(b"name,r,g,b,id\nvoid,0,0,0,255\nb,2,2,2,7\n", "t")
    assert colours.classes == (("b", 7), ("void", 255))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "lacks a line with a class"),
        ("name,r,g,b\n", "lacks a line with a class"),
        ("a,1,2\n", "line 1: found 'a,1,2', expected a class and its colour"),
        ("a,0,0,0\nb,256,0,0\n", "line 2: found"),
        (",0,0,0\n", "line 1: found"),
        ("a,0,0,0\nb,0,0,0\n", "line 2: the colour 0,0,0 means another class, too"),
        (f"a,0,0,{'1' * 5000}\n", "line 1: found"),
        (f"a:0,0,{'1' * 5000}\n", "line 1: found"),
        ("name,r,g,b,id\na,0,0,0,1\na,1,0,0,2\n", "line 3: 'a' has the id 2"),
        ("name,r,g,b,id\na,0,0,0,1\nb,1,0,0,1\n", "gives two classes one id"),
        ("name,r,g,b,id\na,0,0,0,70000\n", "line 2: 'a' has the id 70000"),
    ],
)
def test_what_is_no_table_is_refused(text: str, said: str) -> None:
    """With the line."""
    with pytest.raises(UsageError, match="--mask_colors t") as caught:
        parse_mask_colours(text.encode(), "t")
    assert said in str(caught.value)
