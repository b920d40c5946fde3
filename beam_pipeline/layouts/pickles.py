"""Reads pickles of NumPy arrays, such as CIFAR batches, without running anything that they name.

A pickle can call anything that it names. Here it may only name the functions that pickled NumPy
arrays use, and gets stand-ins that store their arguments. NumPy's own functions trust a pickle: a
forged dtype turns an array of bytes into one of pointers, and reading it crashes the process.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any

from beam_pipeline.core.text import excerpt

_MAX_FILE_BYTES = 256 << 20  # 256 MiB; CIFAR-100's largest file has 148
_MAX_TUPLES = 64  # CIFAR's files have 7 at most


class CifarError(ValueError):
    """A file does not have the expected content. The message does not name the file of a batch."""


class _DType:
    """Stands for `numpy.dtype`."""

    def __init__(self, name: object = None, *_: object) -> None:
        self.name = as_text(name)

    def __setstate__(self, state: object) -> None:
        """Ignores byte order and alignment, which do not matter for a type of one byte."""


class PickledArray:
    """Stands for `numpy.ndarray`, and for the function that makes an empty array to fill."""

    shape: object = None
    type: object = None
    data: object = None

    def __init__(self, *_: object) -> None:
        """Ignores the description of the empty array."""

    def __setstate__(self, state: Any) -> None:
        """Fills it from (version, shape, type, in Fortran order, bytes)."""
        _, self.shape, dtype, is_fortran, self.data = state
        name = dtype.name if isinstance(dtype, _DType) else None
        self.type = f"{name} in Fortran order" if is_fortran else name

    def __repr__(self) -> str:
        return f"a NumPy array of shape {excerpt(self.shape)} and type {excerpt(self.type)}"


_ADMITTED: Mapping[str, type] = {
    "numpy.dtype": _DType,
    "numpy.ndarray": PickledArray,
    "numpy.core.multiarray._reconstruct": PickledArray,
    "numpy._core.multiarray._reconstruct": PickledArray,  # since NumPy 2
}
"""Every name that a pickle may use -> its stand-in.

Each class has a `__setstate__`, so that the opcode BUILD calls that, and cannot set attributes of
the class for the next pickle to find.
"""


class _Unpickler(pickle.Unpickler):
    """Finds the stand-ins, and nothing else."""

    def find_class(self, module_name: str, global_name: str) -> type:
        name = f"{module_name}.{global_name}"
        if name not in _ADMITTED:
            raise CifarError(
                f"refuses {name}: a pickle can run anything by such a name, and CIFAR's needs only "
                "NumPy's arrays; use the file as downloaded"
            )
        return _ADMITTED[name]


def unpickle(file: IO[bytes]) -> dict[str | None, object]:
    """Reads a pickled dict whose keys are texts of Python 2 or 3; its arrays are `PickledArray`s.

    Raises:
      CifarError: the file is not a pickle of that, uses a forbidden name, or is too large.
    """
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
    except Exception as error:  # broken pickles raise nearly any
        problem = f"{type(error).__name__} {error}"[:200].strip()
        raise CifarError(
            f"not a pickle, or one that is cut short ({problem}); download it again"
        ) from error
    if not isinstance(content, dict):
        raise CifarError(f"contains {excerpt(content)}, expected a dict")
    return {as_text(key): value for key, value in content.items()}


def _check_opcodes(data: bytes) -> None:
    """Refuses a pickle that would crash the C unpickler, or make it fill the memory.

    - Tuples nested a million deep, used to key a dict, overflow the C stack when they are hashed.
    - `LONG_BINPUT 2147483647` makes the unpickler's memo, an array, that long: 32 GiB. Real
      picklers number the objects that they memorise from 0 or 1 on.
    - Bytes with a stated length beyond the end of the file would be allocated; `genops` detects
      that.
    """
    tuples = 0
    for count, (opcode, argument, _) in enumerate(pickletools.genops(data), 1):
        tuples += opcode.name.startswith("TUPLE")
        if tuples > _MAX_TUPLES:
            raise CifarError(
                f"contains more than {_MAX_TUPLES} tuples, expected a dict of lists and one array"
            )
        if opcode.name.endswith("PUT") and not 0 <= (argument or 0) <= count:
            raise CifarError(
                f"numbers a value {argument} where at most {count} were expected; use the file as "
                "downloaded"
            )


def as_text(value: object) -> str | None:
    """Returns a text pickled by Python 2 or 3; None if it is something else, or not UTF-8."""
    with suppress(UnicodeDecodeError):
        value = value.decode() if isinstance(value, bytes) else value
    return value if isinstance(value, str) else None
