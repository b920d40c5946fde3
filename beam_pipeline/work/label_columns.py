"""The labels of images in somebody's pipeline: values by name, as the columns of references have them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from beam_pipeline.core.errors import SampleError, UsageError
from beam_pipeline.core.labels import samples, schema
from beam_pipeline.core.labels.classes import AUTO_ORDER, ClassNumbering
from beam_pipeline.core.text import excerpt

_KINDS = {**schema.KIND_NAMES, **{kind.value: kind for kind in schema.ColumnKind}}
_BOX_SIDES = 4


@dataclass(frozen=True)
class LabelColumns:
    """The labels that images have.

    Attributes:
      columns: as examples have them.
      merger: makes one row of all that name the same image.
      numbering: how classes get their ids.
    """

    columns: tuple[schema.Column, ...] = ()
    merger: samples.RowMerger = field(default_factory=samples.RowMerger)
    numbering: ClassNumbering = field(default_factory=lambda: ClassNumbering(order=AUTO_ORDER))

    @classmethod
    def of_kinds(cls, kinds: Mapping[str, Any]) -> LabelColumns:
        """Those of name -> kind, [kind] or the fields of a `Column`. Raises UsageError."""
        columns: list[schema.Column] = []
        for name, given in kinds.items():
            classes = any(column.kind is schema.ColumnKind.CLASS for column in columns)
            columns.append(_column(name, given, first_class=not classes))
        repeated = tuple(column.repeated for column in columns)
        unique = tuple(map(schema.is_list_of_classes, columns))
        return cls(tuple(columns), samples.RowMerger(repeated=repeated, unique=unique))

    @property
    def keeping(self) -> samples.KeepUnlabelled:
        """Makes samples of images without labels."""
        return samples.KeepUnlabelled.of(self.columns)

    def with_unlabelled(self) -> LabelColumns:
        """The same, with the mark that tells which images have labels; others have no lists, not even empty ones."""
        return replace(self, columns=self.keeping.columns, merger=samples.RowMerger())

    def values(self, labels: Mapping[str, Any]) -> tuple[Any, ...]:
        """The labels in the order of the columns; for one that is missing None, or () if rows' lists are put together.

        Raises:
          SampleError: one is not of its column's kind.
        """
        lists = self.merger.repeated or (False,) * len(self.columns)
        values = (_value(column, labels.get(column.name)) for column in self.columns)
        pairs = zip(values, lists, strict=True)
        return tuple(() if value is None and many else value for value, many in pairs)

    def fault(self, values: Sequence[Any]) -> str:
        """Why these values are no sample's; or empty."""
        for column, value in zip(self.columns, values, strict=True):
            if value is None and column.required and not column.repeated:
                return f"label {column.name!r} is empty"
        return ""

    def checked(self, labels: Mapping[str, Any]) -> tuple[Any, ...]:
        """The values of a sample. Raises SampleError if one is missing, or is not of its column's kind."""
        names = {column.name for column in self.columns}
        unknown = sorted(
            name for name, value in labels.items() if value is not None and name not in names
        )
        if unknown:
            expected = ", ".join(map(repr, sorted(names))) or "none"
            raise SampleError(
                f"label {unknown[0]!r} of the sample is none of the encoder's labels, which are {expected}; "
                "give the encoder the same labels as JoinLabels"
            )
        values = self.values(labels)
        for column, value in zip(self.columns, values, strict=True):
            if column.kind in schema.CELL_FILES and isinstance(value and value[-1], str):
                raise SampleError(
                    f"label {column.name!r} is {excerpt(value)}, expected the uri, size and version of each "
                    "file, as JoinLabels gives them"
                )
        if fault := self.fault(values):
            raise SampleError(fault)
        return values

    def labels(self, values: Sequence[Any]) -> dict[str, Any]:
        """Name -> value of those that are not missing."""
        names = (column.name for column in self.columns)
        return {name: value for name, value in zip(names, values, strict=True) if value is not None}


def _column(name: str, given: Any, *, first_class: bool) -> schema.Column:
    repeated = isinstance(given, (list, tuple)) and len(given) == 1
    kind = given[0] if repeated else given
    if isinstance(kind, Mapping):
        try:
            column = schema.Column(
                **{"name": name, **kind, "kind": schema.ColumnKind(kind.get("kind"))}
            )
        except (TypeError, ValueError) as error:
            raise UsageError(f"labels[{name!r}] is {excerpt(given)}: {error}") from error
    elif isinstance(kind, str) and kind in ("class", *schema.KIND_NAMES, *schema.CELL_FILES):
        made = schema.label_column if kind == "class" and first_class else schema.further_column
        column = made(name, _KINDS[kind])
    else:
        raise UsageError(
            f"labels[{name!r}] is {excerpt(given)}, expected 'class', 'int', 'float' or 'str', a list of "
            "one of them, or a dict with 'kind' and 'feature'"
        )
    return replace(column, repeated=column.repeated or repeated)


def plain(name: str, value: Any) -> Any:
    """A label as references contain it: numbers, texts, bytes and None, in tuples. Raises SampleError."""
    if hasattr(value, "tolist"):  # of NumPy
        value = value.tolist()
    if value is None or isinstance(value, str | bool | int | float | bytes):
        return value
    if isinstance(value, Iterable) and not isinstance(value, Mapping | bytearray):
        return tuple(plain(name, item) for item in value)
    raise SampleError(
        f"label {name!r} is a {type(value).__name__}, expected a text, a number or a list of them"
    )


def _value(column: schema.Column, given: Any) -> Any:
    value = plain(column.name, given)
    if value is None or column.kind in (schema.ColumnKind.POINT, schema.ColumnKind.MASK):
        return value
    if column.kind is schema.ColumnKind.BOX:
        boxes = value if not value or isinstance(value[0], tuple) else (value,)
        for box in boxes:
            if not isinstance(box, tuple) or len(box) not in (_BOX_SIDES, _BOX_SIDES + 1):
                raise SampleError(
                    f"label {column.name!r} has {excerpt(box)}, expected xmin, ymin, xmax, ymax"
                )
        return tuple((*map(float, box[:_BOX_SIDES]), int((*box, 0)[_BOX_SIDES])) for box in boxes)
    if column.kind not in _SCALARS:  # a file
        return value
    if not column.repeated:
        return _item(column, value)
    items = value if isinstance(value, tuple) else (value,)
    return tuple(_item(column, item) for item in items)


_SCALARS: Mapping[schema.ColumnKind, tuple[Any, Callable[[Any], Any], str]] = {
    schema.ColumnKind.CLASS: (str | int, str, "a text or an integer"),
    schema.ColumnKind.INT64: (int, int, "an integer"),
    schema.ColumnKind.FLOAT: (int | float, float, "a number"),
    schema.ColumnKind.BYTES: (str, str, "a text"),
}
"""Kind of a column -> the types of its values, what makes one of them, and its noun."""


def _item(column: schema.Column, value: Any) -> Any:
    types, make, expected = _SCALARS[column.kind]
    if isinstance(value, types) and not (column.kind is schema.ColumnKind.CLASS and value == ""):
        return make(value)
    raise SampleError(f"label {column.name!r} is {excerpt(value)}, expected {expected}")
