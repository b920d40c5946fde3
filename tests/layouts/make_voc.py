"""Two years of Pascal VOC as their archives unpack, and a folder as LabelImg leaves it."""

from __future__ import annotations

from collections.abc import Sequence

Box = tuple[str, str, str, str]
"""xmin, ymin, xmax, ymax as they stand in the file."""

_SIZE = """\t<size>
\t\t<width>{width}</width>
\t\t<height>{height}</height>
\t\t<depth>3</depth>
\t</size>
\t<segmented>0</segmented>
"""


_OBJECT = """\t<object>
\t\t<name>{name}</name>
\t\t<pose>{pose}</pose>
\t\t<truncated>{truncated}</truncated>
"""

_OBJECT_2007 = (
    _OBJECT
    + """\t\t<difficult>{difficult}</difficult>
\t\t<bndbox>
\t\t\t<xmin>{box[0]}</xmin>
\t\t\t<ymin>{box[1]}</ymin>
\t\t\t<xmax>{box[2]}</xmax>
\t\t\t<ymax>{box[3]}</ymax>
\t\t</bndbox>
\t</object>
"""
)


_LABELIMG = (
    """<annotation>
\t<folder>images</folder>
\t<filename>{name}</filename>
\t<path>C:\\Users\\me\\Desktop\\images\\{name}</path>
\t<source>
\t\t<database>Unknown</database>
\t</source>
"""
    + _SIZE
    + "{objects}</annotation>\n"
)


def labelimg_xml(name: str, size: tuple[int, int], objects: Sequence[tuple[str, Box]]) -> str:
    """An annotation as LabelImg writes it: (class, box) of each object."""
    text = "".join(
        _OBJECT_2007.format(name=kind, pose="Unspecified", truncated=0, difficult=0, box=box)
        for kind, box in objects
    )
    return _LABELIMG.format(name=name, width=size[0], height=size[1], objects=text)


BOX: Box = ("10", "20", "30", "40")
CAT = labelimg_xml("a.jpg", (100, 50), [("cat", BOX)])
"""An annotation of one cat in an image of 100 x 50 pixels."""
