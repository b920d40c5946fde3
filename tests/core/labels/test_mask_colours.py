"""Tables of colours in masks."""

from __future__ import annotations

import pytest

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels.mask_colours import MaskColours, parse_mask_colours

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
        ("", "has no line with a class"),
        ("name,r,g,b\n", "has no line with a class"),
        ("a,1,2\n", "line 1: found 'a,1,2', expected a class and its colour"),
        ("a,0,0,0\nb,256,0,0\n", "line 2: found"),
        (",0,0,0\n", "line 1: found"),
        ("a,0,0,0\nb,0,0,0\n", "line 2: the colour 0,0,0 stands for another class, too"),
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
