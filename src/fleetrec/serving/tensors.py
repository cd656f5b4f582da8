"""Tensors of the Open Inference Protocol: datatypes, JSON data and raw bytes, as numpy arrays."""

import itertools
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetrec.serving.request_error import RequestError

Array = npt.NDArray[Any]

INPUT_TYPES: Mapping[str, np.dtype[Any]] = MappingProxyType(
    {"FP32": np.dtype("<f4"), "INT64": np.dtype("<i8"), "UINT64": np.dtype("<u8")}
)
OUTPUT_TYPES = MappingProxyType(
    {
        "bool": "BOOL",
        "int8": "INT8",
        "int16": "INT16",
        "int32": "INT32",
        "int64": "INT64",
        "uint8": "UINT8",
        "uint16": "UINT16",
        "uint32": "UINT32",
        "uint64": "UINT64",
        "float16": "FP16",
        "float32": "FP32",
        "float64": "FP64",
    }
)
MAX_RANK = 8
MAX_SHOWN = 60  # characters of a value in a message


def shown(value: object) -> str:
    """Return a value of a request for a message: short, and on one line."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def check_shape(where: str, shape: object) -> tuple[int, ...]:
    """Return the shape that a request gives; raises RequestError."""
    if (
        not isinstance(shape, list)
        or not 0 < len(shape) <= MAX_RANK
        or any(type(size) is not int or size < 0 for size in shape)
    ):
        raise RequestError(f"{where}: expected a shape such as [2, 3], got {shown(shape)}")
    return tuple(shape)


def from_bytes(where: str, content: memoryview, datatype: str, shape: tuple[int, ...]) -> Array:
    """Return raw little-endian values as a read-only array, without a copy."""
    kind = INPUT_TYPES[datatype]
    expected = math.prod(shape) * kind.itemsize
    if len(content) != expected:
        raise RequestError(
            f"{where}: expected {expected} bytes for {datatype} {list(shape)}, got {len(content)}"
        )
    values: Array = np.frombuffer(content, kind).reshape(shape)
    if datatype == "FP32":
        check_finite(where, values)
    return values


def from_json(where: str, data: object, datatype: str, shape: tuple[int, ...]) -> Array:
    """Return values that are given flat, or nested as the shape says."""
    flat = _flattened(where, data, shape)
    values: Array = to_floats(where, flat) if datatype == "FP32" else to_ids(where, flat)
    return values.view(INPUT_TYPES[datatype]).reshape(shape)


def to_ids(where: str, flat: list[Any]) -> npt.NDArray[np.int64]:
    """Return ids of 64 bits; -1 and 2^64-1 are the same."""
    wrong = set(map(type, flat)) - {int}
    if wrong:
        bad = next(value for value in flat if type(value) is not int)
        raise RequestError(f"{where}: expected integers of 64 bits, got {shown(bad)}")
    try:
        return np.array(flat, np.int64)
    except OverflowError:
        pass
    for value in flat:
        if not -(2**63) <= value < 2**64:
            raise RequestError(f"{where}: expected integers of 64 bits, got {shown(value)}")
    return np.array([value & (2**64 - 1) for value in flat], np.uint64).view(np.int64)


def to_floats(where: str, flat: list[Any]) -> npt.NDArray[np.float32]:
    """Return finite numbers."""
    wrong = set(map(type, flat)) - {int, float}
    if wrong:
        bad = next(value for value in flat if type(value) not in (int, float))
        raise RequestError(f"{where}: expected numbers, got {shown(bad)}")
    try:
        with np.errstate(over="ignore"):
            values = np.array(flat, np.float64).astype(np.float32)
    except OverflowError:
        raise RequestError(f"{where}: expected float32 numbers, got a larger one") from None
    check_finite(where, values)
    return values


def check_finite(where: str, values: Array) -> None:
    """Raise RequestError for NaN and infinity."""
    is_finite = np.isfinite(values)
    if not is_finite.all():
        bad = values.reshape(-1)[int(np.argmin(is_finite.reshape(-1)))]
        raise RequestError(f"{where}: expected finite float32 numbers, got {bad}")


def _flattened(where: str, data: object, shape: Sequence[int]) -> list[Any]:
    if not isinstance(data, list):
        raise RequestError(f"{where}: expected data as a list of numbers, got {shown(data)}")
    number = math.prod(shape)
    if data and isinstance(data[0], list):
        for depth, size in enumerate(shape):
            if depth:
                data = list(itertools.chain.from_iterable(_lists(where, data, size)))
            elif len(data) != size:
                raise RequestError(
                    f"{where}: expected nested data of shape {list(shape)}, got {len(data)} lists"
                )
    if len(data) != number:
        raise RequestError(
            f"{where}: expected {number} numbers for shape {list(shape)}, got {len(data)}"
        )
    return data


def _lists(where: str, data: list[Any], length: int) -> list[list[Any]]:
    for one in data:
        if not isinstance(one, list):
            raise RequestError(f"{where}: expected nested lists of equal depth, got {shown(one)}")
        if len(one) != length:
            raise RequestError(f"{where}: expected lists of {length}, got one of {len(one)}")
    return data
