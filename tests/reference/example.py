"""A slow twin of the native reader of tf.Example messages."""

import math
import struct
from collections.abc import Sequence


class TwinExampleError(ValueError):
    """A message that cannot be, or does not fit."""


def parse_example(
    data: bytes, *, sparse: Sequence[str], dense: Sequence[tuple[str, int]]
) -> dict[str, list[float]]:
    """The values of the declared features; those that are empty are left out."""
    found: dict[str, bytes] = {}
    for number, kind, features in fields_of(data):
        if (number, kind) != (1, 2):
            continue
        for entry_number, entry_kind, entry in fields_of(features):
            if (entry_number, entry_kind) != (1, 2):
                continue
            parts = {n: value for n, k, value in fields_of(entry) if k == 2}
            found[parts.get(1, b"").decode(errors="replace")] = parts.get(2, b"")
    sample = {}
    for name in (*sparse, *(name for name, _ in dense)):
        values = values_of(found.get(name, b""), is_sparse=name in sparse)
        if name not in sparse and len(values) not in (0, dict(dense)[name]):
            raise TwinExampleError(name)
        if values:
            sample[name] = values
    return sample


def values_of(feature: bytes, *, is_sparse: bool) -> list[float]:
    lists: list[tuple[int, bytes]] = []
    for number, kind, data in fields_of(feature):
        if kind == 2 and number <= 3:
            if lists and lists[-1][0] != number:
                lists = []
            lists.append((number, data))
    values: list[float] = []
    for number, data in lists:
        for item, kind, value in fields_of(data):
            if item == 1:
                values += items_of(number, kind, value, is_sparse=is_sparse)
    return values


def items_of(number: int, kind: int, value: int | bytes, *, is_sparse: bool) -> list[float]:
    if number == 3 and kind == 0:
        return [signed(value)]
    if number == 3 and kind == 2:
        out = []
        at = 0
        while at < len(value):
            one, at = varint_at(value, at)
            out.append(signed(one))
        return out
    if number == 2 and kind in (2, 5) and len(value) % 4 == 0:
        floats = list(struct.unpack(f"<{len(value) // 4}f", value))
        if (floats and is_sparse) or not all(map(math.isfinite, floats)):
            raise TwinExampleError(value)
        return floats
    raise TwinExampleError(value)


def fields_of(data: bytes) -> list[tuple[int, int, int | bytes]]:
    fields = []
    at = 0
    while at < len(data):
        tag, at = varint_at(data, at)
        number, kind = tag >> 3, tag & 7
        if not 0 < number < 2**29 or kind not in (0, 1, 2, 5):
            raise TwinExampleError(tag)
        if kind == 0:
            value, at = varint_at(data, at)
        else:
            length, at = (8, at) if kind == 1 else (4, at) if kind == 5 else varint_at(data, at)
            if at + length > len(data):
                raise TwinExampleError(length)
            value, at = data[at : at + length], at + length
        fields.append((number, kind, value))
    return fields


def varint_at(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for i in range(10):
        if at + i >= len(data):
            raise TwinExampleError(at)
        number |= (data[at + i] & 0x7F) << (7 * i)
        if data[at + i] < 0x80:
            return number % 2**64, at + i + 1
    raise TwinExampleError(at)


def signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number
