"""Pascal VOC's annotations: one XML file per image, with one element `object` per object.

Source: the VOC2012 development kit, section "Ground Truth Annotation"
(http://host.robots.ox.ac.uk/pascal/VOC/voc2012/htmldoc/devkit_doc.html).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from xml.sax import SAXException, SAXParseException
from xml.sax.handler import ContentHandler
from xml.sax.xmlreader import AttributesImpl, Locator

from defusedxml import DTDForbidden

from beam_pipeline.core.labels.cells import parse_number
from beam_pipeline.core.labels.schema import ColumnKind, object_column, object_columns
from beam_pipeline.core.references import LabelValue, Size

COLUMNS = (
    *object_columns(pixels=True),
    object_column("difficult", ColumnKind.INT64),
    object_column("truncated", ColumnKind.INT64),
    object_column("view", ColumnKind.BYTES),
)
"""The label columns; VOC's `pose` is called view, as in the TensorFlow Model Garden."""

NO_OBJECTS: tuple[LabelValue, ...] = ((),) * len(COLUMNS)

_ROOT = "annotation"
_OBJECT = [_ROOT, "object"]
_BOX = "bndbox"
_SIZE = ("width", "height")
_SIDES = ("xmin", "ymin", "xmax", "ymax")
_UNKNOWN_POSE = "Unspecified"
_SHOWN = 8  # names of elements in a message
_DEEPEST = 4  # annotation/object/bndbox/xmin


class AnnotationError(Exception):
    """A file is not an annotation of VOC's. `line` is the position, 0 if unknown."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def parse_annotation(data: bytes) -> tuple[tuple[LabelValue, ...], Size | None]:
    """Returns (values in the order of `COLUMNS`, the image's size) of an annotation.

    Boxes are in pixels, as written. The size is that of `<size>`; None if it has none, or 0, which
    many tools write.

    Args:
      data: the whole file.

    Raises:
      AnnotationError: it is broken XML, has a document type, or an object is not VOC's.
    """
    from defusedxml.sax import parseString  # a 20 ms import

    handler = _Objects()
    try:
        parseString(data, handler, forbid_dtd=True)
    except SAXParseException as error:
        line = error.getLineNumber() or 0
        raise AnnotationError(f"not well-formed XML: {error.getMessage()}", line) from error
    except DTDForbidden as error:
        raise AnnotationError(
            "a document type (<!DOCTYPE>) can make a few lines of XML fill the memory or read other "
            "files, so it is refused; annotations need none, remove it",
            handler.line,
        ) from error
    except (SAXException, ValueError, LookupError) as error:  # mostly unknown encodings
        raise AnnotationError(
            f"XML that cannot be read: {error}; save it as UTF-8", handler.line
        ) from error
    if handler.root != _ROOT:
        raise AnnotationError(f"the root element is <{handler.root}>, expected <{_ROOT}>", 1)
    rows = [_values(number, found) for number, found in enumerate(handler.objects, 1)]
    return (tuple(zip(*rows, strict=True)) if rows else NO_OBJECTS), handler.size


@dataclass
class _Object:
    """The content of an element `object`.

    Attributes:
      line: the line of its start tag.
      texts: the text of each element in it, by path below it such as "bndbox/xmin".
      box_line: the line of the start tag of its last `bndbox`.
    """

    line: int
    texts: dict[str, list[str]] = field(default_factory=dict)
    box_line: int = 0


class _Objects(ContentHandler):
    """Collects the objects of an annotation, without the boxes of their parts, further down."""

    def __init__(self) -> None:
        super().__init__()
        self.root = ""
        self.objects: list[_Object] = []
        self._sides: dict[str, str] = {}
        self._path: list[str] = []
        self._text: list[str] = []
        self._locator: Locator | None = None

    @property
    def line(self) -> int:
        """The current line, from 1."""
        return (self._locator.getLineNumber() or 0) if self._locator else 0

    @property
    def size(self) -> Size | None:
        """Width and height; None unless both are whole numbers of pixels."""
        try:
            width, height = (
                int(parse_number(self._sides.get(side, ""), ColumnKind.FLOAT)) for side in _SIZE
            )
        except ValueError:
            return None
        return (width, height) if width > 0 and height > 0 else None

    def setDocumentLocator(self, locator: Locator) -> None:  # noqa: N802, the name is SAX's
        self._locator = locator

    def startElement(self, name: str, attrs: AttributesImpl) -> None:  # noqa: N802
        self._path.append(name)
        self._text.clear()
        if len(self._path) == 1:
            self.root = name
        elif self._path == _OBJECT:
            self.objects.append(_Object(self.line))
        elif self._path == [*_OBJECT, _BOX]:
            self.objects[-1].box_line = self.line

    def characters(self, content: str) -> None:
        self._text.append(content)

    def endElement(self, name: str) -> None:  # noqa: N802
        if self._path[:2] == _OBJECT and 2 < len(self._path) <= _DEEPEST:
            texts = self.objects[-1].texts.setdefault("/".join(self._path[2:]), [])
            texts.append("".join(self._text).strip())
        elif len(self._path) == len(_OBJECT) + 1 and self._path[1] == "size":
            self._sides[name] = "".join(self._text)
        self._text.clear()
        self._path.pop()


def _values(number: int, found: _Object) -> tuple[object, ...]:
    """Returns the values of one object, in the order of `COLUMNS`."""
    what = f"object {number}"
    name = _text(found, "name", what)
    if not name:
        raise AnnotationError(f"{what} has no <name>", found.line)
    what = f"{what} ({name!r})"
    if _BOX not in found.texts:
        children = [f"<{child}>" for child in found.texts if "/" not in child]
        holds = ", ".join(children[:_SHOWN])
        raise AnnotationError(
            f"{what} has no <{_BOX}>; it holds {holds}, and boxes are all that is read of places",
            found.line,
        )
    _text(found, _BOX, what)
    sides = [_number(found, f"{_BOX}/{side}", ColumnKind.FLOAT, what) for side in _SIDES]
    return (
        (*sides, found.box_line),
        name,
        _number(found=found, path="difficult", kind=ColumnKind.INT64, what=what, default="0"),
        _number(found=found, path="truncated", kind=ColumnKind.INT64, what=what, default="0"),
        _text(found, "pose", what) or _UNKNOWN_POSE,
    )


def _text(found: _Object, path: str, what: str) -> str:
    """Returns the text of an element that may occur once; empty if it does not."""
    texts: Sequence[str] = found.texts.get(path, ())
    if len(texts) > 1:
        raise AnnotationError(f"{what} has {len(texts)} <{path}>, expected one", found.line)
    return texts[0] if texts else ""


def _number(found: _Object, path: str, kind: ColumnKind, what: str, default: str = "") -> float:
    text = _text(found, path, what) or default
    try:
        return parse_number(text, kind)
    except ValueError as error:
        expected = "an integer" if kind is ColumnKind.INT64 else "a number"
        said = f"is {text!r}" if text else "is missing or empty"
        raise AnnotationError(
            f"{what}: <{path}> {said}, expected {expected}", found.line
        ) from error
