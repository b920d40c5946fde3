"""Pascal VOC's annotations, parsed."""

from __future__ import annotations

import tracemalloc

import pytest

from beam_pipeline.layouts.label_files import BadLabelError
from beam_pipeline.layouts.voc import (
    COLUMNS,
    parse_annotation,
)
from tests.layouts.make_voc import BOX, CAT, labelimg_xml

BOMB = (
    '<?xml version="1.0"?>\n<!DOCTYPE annotation [\n<!ENTITY a "boom">\n'
    + "".join(f'<!ENTITY {chr(i + 1)} "{f"&{chr(i)};" * 10}">\n' for i in range(ord("a"), ord("j")))
    + "]>\n<annotation><filename>&j;</filename></annotation>\n"
)
REFUSED = (
    "a document type (<!DOCTYPE>) can make a few lines of XML fill the memory or read other files, "
    "so it is refused; annotations need none, remove it"
)
BAD_FILES: dict[str, tuple[str | bytes, int, str]] = {
    "bomb": (BOMB, 2, REFUSED),
    "external": (
        '<!DOCTYPE annotation [<!ENTITY x SYSTEM "file:///etc/passwd">]>\n' + CAT,
        1,
        REFUSED,
    ),
    "dtd": ('\n<!DOCTYPE annotation SYSTEM "http://localhost:1/voc.dtd">\n' + CAT, 2, REFUSED),
    "cut": (CAT[:60], 3, "not well-formed XML: unclosed token"),
    "mismatched": (CAT.replace("</name>", "</nam>"), 15, "not well-formed XML: mismatched tag"),
    "empty": ("", 1, "not well-formed XML: no element found"),
    "entity": (CAT.replace(">cat<", ">&cat;<"), 15, "not well-formed XML: undefined entity"),
    "latin1": (
        CAT.replace(">cat<", ">ch\xeane<").encode("latin-1"),
        15,
        "not well-formed XML: not well-formed (invalid token)",
    ),
    "gb2312": (
        f'<?xml version="1.0" encoding="gb2312"?>\n{CAT}',
        1,
        "XML that cannot be read: multi-byte encodings are not supported; save it as UTF-8",
    ),
    "coco": ("<annotations/>\n", 1, "the root element is <annotations>, expected <annotation>"),
    "nameless": (CAT.replace("<name>cat</name>", "<name/>"), 14, "object 1 has no <name>"),
    "names": (
        CAT.replace("<name>cat</name>", "<name>cat</name><name>dog</name>"),
        14,
        "object 1 has 2 <name>, expected one",
    ),
    "polygon": (
        CAT.replace("bndbox>", "polygon>"),
        14,
        "object 1 ('cat') has no <bndbox>; it holds <name>, <pose>, <truncated>, <difficult>, "
        "<polygon>, and boxes are all that is read of places",
    ),
    "boxes": (
        CAT.replace("\t</object>", "\t\t<bndbox/>\n\t</object>"),
        14,
        "object 1 ('cat') has 2 <bndbox>, expected one",
    ),
    "second": (
        labelimg_xml("a.jpg", (100, 50), [("cat", BOX), ("dog", ("1", "2", "x", "4"))]),
        26,
        "object 2 ('dog'): <bndbox/xmax> is 'x', expected a number",
    ),
    "missing": (
        CAT.replace("\t\t\t<ymin>20</ymin>\n", ""),
        14,
        "object 1 ('cat'): <bndbox/ymin> is missing or empty, expected a number",
    ),
    "nan": (CAT.replace(">30<", ">nan<"), 14, "object 1 ('cat'): <bndbox/xmax> is 'nan', expected a number"),
    "infinite": (CAT.replace(">30<", ">-inf<"), 14, "object 1 ('cat'): <bndbox/xmax> is '-inf', expected a number"),
    "large": (CAT.replace(">30<", ">1e39<"), 14, "object 1 ('cat'): <bndbox/xmax> is '1e39', expected a number"),
    "difficult": (
        CAT.replace("<difficult>0", "<difficult>no"),
        14,
        "object 1 ('cat'): <difficult> is 'no', expected an integer",
    ),
}  # fmt: skip
"""name -> (text of the annotation, line, message)."""


@pytest.mark.parametrize(("text", "line", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_an_annotation_that_cannot_be_read_is_an_error(
    text: str | bytes, line: int, message: str
) -> None:
    """XML bombs, files that would read others, broken XML, objects without a box: the error has the
    line and says what was found."""
    with pytest.raises(BadLabelError) as caught:
        parse_annotation(text.encode() if isinstance(text, str) else text)
    assert (str(caught.value), caught.value.line) == (message, line)


def test_an_annotation_without_objects_has_empty_lists() -> None:
    """One for each column, as with objects."""
    assert parse_annotation(labelimg_xml("a.jpg", (100, 50), []).encode()) == (
        ((),) * len(COLUMNS),
        (100, 50),
        "",
    )
    values, *_ = parse_annotation(CAT.encode())
    assert len(values) == len(COLUMNS)


@pytest.mark.parametrize(
    "annotation",
    [
        "<annotation><object><name>cat</name><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>3</xmax>"
        "<ymax>4</ymax></bndbox></object></annotation>",
        '<?xml version="1.0" encoding="utf-8"?><annotation verified="yes"><source><annotation>x'
        "</annotation><object>no</object></source><object><bndbox><ymax> 4 </ymax><xmax>3.0</xmax>"
        "<ymin>2</ymin><xmin>1</xmin></bndbox><name>\n cat </name><pose/><truncated></truncated>"
        "<part><name>ear</name><bndbox><xmin>9</xmin></bndbox></part></object></annotation>",
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_order_blanks_and_optional_elements_do_not_count(annotation: str, encoding: str) -> None:
    """Missing or empty flags are 0, a missing pose is Unspecified, elements of other depth than an
    object's own are passed over."""
    assert parse_annotation(annotation.encode(encoding))[0] == (
        ((1.0, 2.0, 3.0, 4.0, 1),),
        ("cat",),
        (0,),
        (0,),
        ("Unspecified",),
    )


def test_an_annotation_in_utf_16_and_with_character_references() -> None:
    """XML says its own encoding, and what a reference stands for."""
    text = CAT.replace(">cat<", ">Kätzchen &amp; &#20;&#x732b;<".replace("&#20;", ""))
    values, *_ = parse_annotation(text.encode("utf-16"))
    assert values[1] == ("Kätzchen & 猫",)


def test_deep_nesting_costs_no_memory() -> None:
    """Ten thousand levels inside an object are passed over, and their paths are not kept."""
    deep = "<a>" * 10_000 + "</a>" * 10_000
    data = CAT.replace("\t</object>", f"{deep}\t</object>").encode()
    parse_annotation(data)  # imports what it needs
    tracemalloc.start()
    try:
        values, *_ = parse_annotation(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert values[1] == ("cat",)
    assert peak < 10 << 20


def test_an_error_names_the_objects_line() -> None:
    """The line is that of the object's start tag."""
    with pytest.raises(BadLabelError, match="no <name>") as caught:
        parse_annotation(b"<annotation>\n\n<object>\n</object></annotation>")
    assert caught.value.line == 3
