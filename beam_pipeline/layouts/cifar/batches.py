"""The files of CIFAR-10 and CIFAR-100, pickled and binary, read without trusting them.

An image is 32 x 32 RGB, 3,072 bytes: the red plane, then green, then blue, each row by row. A file
of the binary version holds records: a byte for each label, then the image. A file of the Python
version holds a pickled dict: the images as a NumPy array, one row each, and lists of labels and
file names. It was pickled by Python 2, so its texts are bytes.

A pickle can call anything that it names. Here it may only name the functions that pickled NumPy
arrays use, and gets stand-ins that store their arguments. NumPy's own functions trust a pickle: a
forged dtype turns an array of bytes into one of pointers, and reading it crashes the process.

Source: https://www.cs.toronto.edu/~kriz/cifar.html
"""

from __future__ import annotations

import io
import pickle
import pickletools
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from beam_pipeline.core.images.preparation import PixelFormat

PIXELS = PixelFormat(32, 32)
BINARY_SUFFIX = ".bin"
_CHUNK_BYTES = 1 << 20  # 1 MiB
_INT64_BITS = 63


class CifarError(ValueError):
    """A file does not have the expected content. The message does not name the file of a batch."""


@dataclass(frozen=True)
class LabelField:
    """One label that every image has.

    Attributes:
      name: "label"; a pickled batch calls the list of labels `<name>s`, and the pickled meta file
        calls the list of their meanings `<name>_names`.
      names_file: the binary version's file with their meanings, one per line.
      count: the number of different labels, which count from 0.
      meanings: their meanings if no file gives them; empty if a file is required.
    """

    name: str
    names_file: str
    count: int
    meanings: tuple[str, ...] = ()


@dataclass(frozen=True)
class CifarFormat:
    """One of the two data sets.

    Attributes:
      title: its name.
      splits: name of a batch's file, without `.bin` -> split.
      fields: the labels of an image, in the order of a binary record.
      class_field: the index of the class among them.
      meta_file: the Python version's file with the meanings of labels.
      folders: the folders that its archives unpack to.
      archives: the names of its archives.
    """

    title: str
    splits: Mapping[str, str]
    fields: tuple[LabelField, ...]
    class_field: int
    meta_file: str
    folders: tuple[str, ...]
    archives: tuple[str, ...]

    @property
    def record_bytes(self) -> int:
        """Bytes per record of the binary version."""
        return len(self.fields) + PIXELS.size

    @property
    def name_files(self) -> frozenset[str]:
        """The files of both versions with the meanings of labels."""
        return frozenset({self.meta_file, *(field.names_file for field in self.fields)})


CIFAR10 = CifarFormat(
    "CIFAR-10",
    {**{f"data_batch_{i}": "train" for i in range(1, 6)}, "test_batch": "test"},
    (
        LabelField(
            "label",
            "batches.meta.txt",
            10,
            (
                *("airplane", "automobile", "bird", "cat", "deer"),
                *("dog", "frog", "horse", "ship", "truck"),
            ),
        ),
    ),
    class_field=0,
    meta_file="batches.meta",
    folders=("cifar-10-batches-py", "cifar-10-batches-bin"),
    archives=("cifar-10-python.tar.gz", "cifar-10-binary.tar.gz"),
)

CIFAR100 = CifarFormat(
    "CIFAR-100",
    {"train": "train", "test": "test"},
    (
        LabelField("coarse_label", "coarse_label_names.txt", 20),
        LabelField("fine_label", "fine_label_names.txt", 100),
    ),
    class_field=1,
    meta_file="meta",
    folders=("cifar-100-python", "cifar-100-binary"),
    archives=("cifar-100-python.tar.gz", "cifar-100-binary.tar.gz"),
)


@dataclass(frozen=True)
class Batch:
    """The labels and names of a file's images, unchecked.

    Attributes:
      labels: for each label field, the labels of all images, of any type.
      filenames: the names of all images, of any type; None if the file has no names.
    """

    labels: tuple[Sequence[object], ...]
    filenames: Sequence[object] | None = None


def read_records(
    file: IO[bytes], fmt: CifarFormat, copy_to: Callable[[bytes], None] | None = None
) -> Batch:
    """Reads the labels of a file of the binary version.

    Args:
      file: open at its beginning.
      fmt: its data set.
      copy_to: takes the whole file, piece by piece.

    Raises:
      CifarError: the file is empty or ends within a record.
    """
    record, size = fmt.record_bytes, 0
    labels = tuple(bytearray() for _ in fmt.fields)
    while chunk := file.read(_CHUNK_BYTES):
        for index, found in enumerate(labels):
            found += chunk[(index - size) % record :: record]
        size += len(chunk)
        if copy_to:
            copy_to(chunk)
    if size % record or not size:
        raise CifarError(
            f"{size} bytes, expected records of {record} bytes: it is cut short, or no file of "
            f"{fmt.title}'s binary version; download it again"
        )
    return Batch(labels)


def read_pickled(file: IO[bytes], fmt: CifarFormat, copy_to: Callable[[bytes], None]) -> Batch:
    """Reads a whole file of the Python version: 30 MB for CIFAR-10, 155 MB for CIFAR-100.

    Args:
      file: open at its beginning.
      fmt: its data set.
      copy_to: takes the pixels of all images, one image after another.

    Raises:
      CifarError: the file is not a pickle, uses a forbidden name, or holds other content.
    """
    content = _unpickle(file)
    pixels = _pixels_of(content.get("data"))
    images = len(pixels) // PIXELS.size
    labels = tuple(_list_of(images, content, f"{field.name}s") for field in fmt.fields)
    named = content.get("filenames") is not None
    batch = Batch(labels, _list_of(images, content, "filenames") if named else None)
    copy_to(pixels)
    return batch


def label_meanings(
    fmt: CifarFormat, found: Mapping[str, bytes]
) -> tuple[tuple[str, ...], ...] | None:
    """Returns the meanings of the labels of each field, in the order of their numbers.

    Args:
      fmt: the data set.
      found: name -> content of those of its `name_files` that exist.

    Returns: None if these files do not contain the meanings.

    Raises:
      CifarError: a file has other content; the message names it.
    """
    if fmt.meta_file in found:
        return _pickled_meanings(fmt, found[fmt.meta_file])
    if any(field.names_file not in found for field in fmt.fields):
        return None
    return tuple(
        _meanings(field, found[field.names_file].splitlines(), field.names_file)
        for field in fmt.fields
    )


def _pickled_meanings(fmt: CifarFormat, data: bytes) -> tuple[tuple[str, ...], ...]:
    try:
        content = _unpickle(io.BytesIO(data))
        lists = [_list_of(field.count, content, f"{field.name}_names") for field in fmt.fields]
    except CifarError as error:
        raise CifarError(f"{fmt.meta_file}: {error}") from error
    return tuple(
        _meanings(field, values, fmt.meta_file)
        for field, values in zip(fmt.fields, lists, strict=True)
    )


def _meanings(field: LabelField, values: Sequence[object], file_name: str) -> tuple[str, ...]:
    names = [name for value in values if (name := (as_text(value) or "").strip())]
    if len(names) != field.count or len(set(names)) != field.count:
        raise CifarError(
            f"{file_name}: {len(set(names))} different names, expected {field.count}, one for each "
            f"{field.name}"
        )
    return tuple(names)


def as_text(value: object) -> str | None:
    """Returns a text pickled by Python 2 or 3; None if it is something else, or not UTF-8."""
    if not isinstance(value, bytes):
        return value if isinstance(value, str) else None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


class _DType:
    """Stands for `numpy.dtype`."""

    name: object = None

    def __init__(self, name: object = None, *_: object) -> None:
        self.name = as_text(name)

    def __setstate__(self, state: object) -> None:
        """Ignores byte order and alignment, which do not matter for a type of one byte."""


class _Array:
    """Stands for `numpy.ndarray`, and for the function that makes an empty array to fill."""

    shape: object = None
    dtype: object = None
    data: object = None
    is_fortran = False

    def __init__(self, *_: object) -> None:
        """Ignores the description of the empty array."""

    def __setstate__(self, state: Any) -> None:
        """Fills it from (version, shape, type, in Fortran order, bytes)."""
        _, self.shape, self.dtype, self.is_fortran, self.data = state


class _ArrayFromBuffer(_Array):
    """Stands for `numpy.core.numeric._frombuffer`, which pickles of protocol 5 call."""

    def __init__(self, *arguments: Any) -> None:
        self.data, self.dtype, self.shape, order, *_ = arguments
        self.is_fortran = order != "C"


_ADMITTED: dict[tuple[str, str], type] = {
    ("numpy", "dtype"): _DType,
    ("numpy", "ndarray"): _Array,
    **{
        (f"numpy.{core}.{name}", function): stand_in
        for core in ("core", "_core")  # before NumPy 2, and since
        for name, function, stand_in in (
            ("multiarray", "_reconstruct", _Array),
            ("numeric", "_frombuffer", _ArrayFromBuffer),
        )
    },
}
"""Every name that a pickle may use -> its stand-in.

Each class has a `__setstate__`, so that the opcode BUILD calls that, and cannot set attributes of
the class for the next pickle to find.
"""

# All errors that the standard library's modules raise on broken pickles.
_UNPICKLING_ERRORS = (
    pickle.UnpicklingError,
    struct.error,
    EOFError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    MemoryError,
)

_MAX_FILE_BYTES = 256 << 20  # 256 MiB; CIFAR-100's largest file has 148
_MAX_TUPLES = 64  # CIFAR's files have 7 at most
_TUPLE_OPCODES = frozenset({"TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"})
_PUT_OPCODES = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})


class _Unpickler(pickle.Unpickler):
    """Finds the stand-ins, and nothing else."""

    def find_class(self, module_name: str, global_name: str) -> type:
        stand_in = _ADMITTED.get((module_name, global_name))
        if stand_in is None:
            raise CifarError(
                f"refuses {module_name}.{global_name}: a pickle can run anything by such a name, and "
                "CIFAR's needs only NumPy's arrays; use the file as downloaded"
            )
        return stand_in


def _unpickle(file: IO[bytes]) -> dict[str | None, object]:
    data = file.read(_MAX_FILE_BYTES + 1)
    if len(data) > _MAX_FILE_BYTES:
        raise CifarError(
            f"more than {_MAX_FILE_BYTES >> 20} MiB, expected a file of CIFAR's, of 148 MiB at most"
        )
    try:
        _check_opcodes(data)
        content = _Unpickler(io.BytesIO(data), encoding="bytes").load()
    except CifarError:
        raise
    except _UNPICKLING_ERRORS as error:
        what = f"{type(error).__name__} {error}"[:200].strip()
        raise CifarError(
            f"not a pickle, or one that is cut short ({what}); download it again"
        ) from error
    if not isinstance(content, dict):
        raise CifarError(f"holds {_described(content)}, expected a dict")
    return {as_text(key): value for key, value in content.items()}


def _check_opcodes(data: bytes) -> None:
    """Refuses a pickle that would crash the C unpickler, or make it fill the memory.

    - Tuples nested a million deep, as the key of a dict, overflow the C stack when they are hashed.
    - `LONG_BINPUT 2147483647` makes the unpickler's memo, an array, that long: 32 GiB. Real
      picklers number the objects that they memorise from 0 or 1 on.
    - Bytes with a stated length beyond the end of the file would be allocated; `genops` detects
      that.
    """
    tuples = 0
    for count, (opcode, argument, _) in enumerate(pickletools.genops(data), 1):
        if opcode.name in _TUPLE_OPCODES:
            tuples += 1
            if tuples > _MAX_TUPLES:
                raise CifarError(
                    f"holds more than {_MAX_TUPLES} tuples, expected a dict of lists and one array"
                )
        elif opcode.name in _PUT_OPCODES and not 0 <= (argument or 0) <= count:
            raise CifarError(
                f"numbers a value {argument} where at most {count} were expected; use the file as "
                "downloaded"
            )


def _list_of(length: int, content: Mapping[str | None, object], key: str) -> list[object]:
    values = content.get(key)
    if not isinstance(values, list) or len(values) != length:
        raise CifarError(f"{key!r} is {_described(values)}, expected a list of {length}")
    return values


def _pixels_of(array: object) -> bytes:
    """Returns the pixels of all images, one image after another."""
    if not isinstance(array, _Array):
        raise CifarError(f"'data' is {_described(array)}, expected a NumPy array")
    shape, dtype, data = array.shape, array.dtype, array.data
    type_name = dtype.name if isinstance(dtype, _DType) else None
    if (
        not isinstance(shape, tuple)
        or shape[1:] != (PIXELS.size,)
        or type(shape[0]) is not int
        or type_name != "u1"
        or array.is_fortran
    ):
        lengths = ", ".join(map(shown, shape)) if isinstance(shape, tuple) else "none"
        raise CifarError(
            f"'data' is an array of shape ({lengths}) and type {type_name}"
            f"{' in Fortran order' if array.is_fortran else ''}, expected shape "
            f"(images, {PIXELS.size}) and type u1"
        )
    if not isinstance(data, bytes | bytearray) or not 0 < len(data) == shape[0] * PIXELS.size:
        raise CifarError(f"'data' does not hold the pixels of {shown(shape[0])} images")
    return bytes(data)


def shown(value: object) -> str:
    """Returns a value for a message; only its type if it may be of any size."""
    small = isinstance(value, int) and value.bit_length() <= _INT64_BITS
    if small or value is None or isinstance(value, str | bytes | float):
        return f"{value!r:.50}"
    return _described(value)


def _described(value: object) -> str:
    if value is None:
        return "not there"
    if isinstance(value, _Array):
        return "a NumPy array"
    length = f" of {len(value)}" if isinstance(value, list | dict) else ""
    return f"of type {type(value).__name__}{length}"
