"""Tests for reading CIFAR's files: pickles of any Python, and none that could do harm."""

from __future__ import annotations

import io
import pickle
import re
import struct
import tracemalloc
from typing import Any

import numpy as np
import pytest

from beam_pipeline.layouts.cifar import (
    CIFAR10,
    CIFAR100,
    CifarError,
    read_pickled,
    read_records,
)
from tests.layouts.make_cifar10 import (
    CIFAR10_NAMES,
    TWO_IMAGES,
    Picture,
    UInt8Array,
    batch_10,
    pixels_of,
    records,
)

NAMED_10 = (tuple(CIFAR10_NAMES),)


def refused(data: bytes) -> str:
    """Why a pickle is refused."""
    with pytest.raises(CifarError) as caught:
        read_pickled(io.BytesIO(data), CIFAR10, lambda _: None)
    return str(caught.value)


@pytest.mark.parametrize("protocol", [3, 4])
@pytest.mark.parametrize("texts", [str, str.encode])
@pytest.mark.parametrize("package", [b"numpy.core", b"numpy._core"])
def test_what_todays_python_pickles_is_read_too(protocol: int, texts: Any, package: bytes) -> None:
    """Texts as str or bytes, NumPy's old and new module names, and another array beside the pixels."""
    pixels = np.frombuffer(pixels_of(3) + pixels_of(4), np.uint8).reshape(2, 3072)
    content = {
        texts("data"): pixels,
        texts("labels"): [3, 4],
        texts("filenames"): [texts("a"), "b"],
        "more": pixels[:1],
    }
    data = pickle.dumps(content, protocol)
    if protocol == 3:  # whose names have no length
        data = data.replace(b"cnumpy._core.", b"c" + package + b".")
    copied: list[bytes] = []
    labels, filenames = read_pickled(io.BytesIO(data), CIFAR10, copied.append)
    assert b"".join(copied) == pixels.tobytes()
    assert (labels, filenames) == (([3, 4],), [texts("a"), "b"])


@pytest.mark.parametrize(
    "name",
    [
        b"numpy\nndarray",
        b"numpy\ndtype",
        b"numpy.core.multiarray\n_reconstruct",
    ],
)
def test_a_pickle_cannot_change_what_the_next_one_finds(name: bytes) -> None:
    """State is taken by what was made, and not by what makes it: here BUILD would set attributes."""
    attack = b"\x80\x02c" + name + b"\nN(X\x08\x00\x00\x00__init__K\x01d\x86b."
    assert refused(attack).startswith("not a pickle, or one that is cut short (TypeError ")
    assert "__setstate__" in refused(attack)
    copied: list[bytes] = []
    read_pickled(io.BytesIO(batch_10()), CIFAR10, copied.append)
    assert b"".join(copied) == TWO_IMAGES


@pytest.mark.parametrize(
    "name",
    [
        b"builtins\neval",
        b"__builtin__\neval",
        b"posix\nsystem",
        b"numpy\nload",
        b"numpy.core.multiarray\nscalar",
        b"numpy.core.multiarray\nndarray.tofile",
        b"copy_reg\n_reconstructor",
    ],
)
@pytest.mark.parametrize("opcodes", [b"\x80\x02c%b\n.", b"\x80\x02(i%b\n."])
def test_nothing_but_arrays_is_found(name: bytes, opcodes: bytes) -> None:
    """By GLOBAL or INST, whatever it is; the message names it."""
    named = name.decode().replace("\n", ".")
    assert refused(opcodes % name).startswith(f"refuses {named}: ")


# Pickles that crash a C unpickler or fill the memory


def test_a_key_of_nested_tuples_does_not_end_the_process() -> None:
    """A million of them; hashing the outermost one would overflow the C stack."""
    attack = b"\x80\x02}K\x00" + b"\x85" * 1_000_000 + b"K\x01s."
    assert refused(attack).startswith(
        "contains more than 64 tuples, expected a dict of lists and one"
    )


@pytest.mark.slow
def test_nested_lists_and_dicts_are_taken_apart_again() -> None:
    """A million of them are no batch, and no stack overflows when they are freed."""
    lists = b"\x80\x02" + b"]" * 1_000_000 + b"a" * 999_999 + b"."
    assert re.fullmatch(r"contains \[+\.\.\., expected a dict", refused(lists))
    nested = b"\x80\x02" + b"}K\x00" * 1_000_000 + b"}" + b"s" * 1_000_000 + b"."
    assert refused(nested).startswith("'data' is None, expected a NumPy array")


@pytest.mark.parametrize(
    "attack",
    [
        b"\x80\x02]r" + struct.pack("<I", 0x7FFFFFFF) + b".",
        b"\x80\x02]p2147483647\n.",
        b"\x80\x02T" + struct.pack("<i", 0x7FFFFFFF) + b"x.",
        b"\x80\x05\x8e" + struct.pack("<Q", 1 << 62) + b"x.",
        b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b"x.",
        b"\x80\x05\x95" + struct.pack("<Q", 1 << 62) + b".",
        b"\x80\x02\x8b" + struct.pack("<i", 0x7FFFFFFF) + b"x.",
        b"L" + b"9" * 100_000 + b"L\n.",
    ],
    ids=["memo", "memo as text", "text", "bytes", "bytearray", "frame", "integer", "digits"],
)
def test_lengths_that_are_not_there_allocate_nothing(attack: bytes) -> None:
    """A few bytes that claim gigabytes: of the memo, of a text, of a frame, of an integer."""
    tracemalloc.start()
    try:
        refused(attack)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10 << 20


def test_a_forged_type_does_not_reach_numpy() -> None:
    """NumPy would take the bytes for pointers to objects and crash; here the type is refused."""
    forged = pickle.dumps(
        {"data": np.zeros((2, 3072), np.dtype([("a", "u1")])), "labels": [0, 0]}, 4
    )
    assert "and type 'V1', expected a NumPy array of shape (images, 3072) and type u1" in refused(
        forged
    )
    objects = pickle.dumps({"data": np.full((2, 3072), None), "labels": [0, 0]}, 4)
    assert "and type 'O8', expected a NumPy array of shape (images, 3072) and type u1" in refused(
        objects
    )


def test_a_file_larger_than_any_batch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it is unpickled, so that a wrong file does not fill the memory."""
    monkeypatch.setattr("beam_pipeline.layouts.cifar._MAX_FILE_BYTES", 5 << 20)
    images = 2000
    content = {
        "labels": [0] * images,
        "filenames": [b"x.png"] * images,
        "data": UInt8Array(images, 3072, bytes(images * 3072)),
    }
    assert refused(batch_10(**content)).startswith("more than 5 MiB, expected a file of CIFAR's")


class _Dribble(io.BytesIO):
    """A file that gives a few bytes at a time, as a network may."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(size, 1000) if size is not None and size >= 0 else 1000)


def test_records_may_come_in_any_pieces() -> None:
    """Labels are found wherever a piece ends, and all is handed on."""
    pictures = [Picture((i % 20, i), "", pixels_of(i)) for i in range(20)]
    copied: list[bytes] = []
    labels, filenames = read_records(_Dribble(records(pictures)), CIFAR100, copied.append)
    assert [list(numbers) for numbers in labels] == [[*range(20)], [*range(20)]]
    assert filenames is None
    assert b"".join(copied) == records(pictures)
