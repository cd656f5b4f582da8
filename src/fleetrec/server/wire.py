"""Messages between workers and servers: a fixed header, then arrays as they lie in durable.

docs/formats/server-wire.md describes every byte. Nothing in a message can run code, and no length
is believed before it was compared with what is there.
"""

import dataclasses
import enum
import json
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetrec.core.errors import FleetRecError

MAGIC = b"FRPS"
VERSION = 1
MAX_ARRAYS = 1 << 16
MAX_MESSAGE_BYTES = 1 << 30
CHUNK_BYTES = 1 << 22

Array = npt.NDArray[Any]

_HEADER = struct.Struct("<4sHHIIQII")  # magic, version, kind, worker, incarnation, sequence, arrays
_ARRAY = struct.Struct("<BBHIQ")  # type, dimensions, 0, columns, rows
_TYPES = tuple(np.dtype(code) for code in ("<u1", "<u4", "<u8", "<i8", "<f4"))
_ALIGNMENT = 8


class Kind(enum.IntEnum):
    """What a message asks for, or answers with."""

    HELLO = 1
    SETUP = 2
    PULL = 3
    PUSH = 4
    END_PASS = 5
    EVICT = 6
    GATHER = 7
    SAVE = 8
    LOAD = 9
    DENSE = 10
    SET_DENSE = 11
    DUMP = 12
    STATS = 13
    CLEAR = 14
    WORKER_PROGRESS = 15
    CUT = 16
    COMMIT = 17
    APPLY = 64  # only in a journal: the held pushes were applied
    OK = 128
    WAIT = 129  # not yet; the answer names who is being waited for


class WireError(FleetRecError):
    """Bytes that are no message, or a message that does not fit."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A request or an answer; ``sequence`` is what its kind says.

    ``content`` are the bytes that a message was read from; nobody else sets it.
    """

    kind: Kind
    worker: int = 0
    incarnation: int = 0
    sequence: int = 0
    arrays: Sequence[Array] = ()
    content: bytes | None = dataclasses.field(default=None, repr=False, compare=False)

    def text(self, place: int = 0) -> str:
        """Return an array of bytes as text."""
        raw = self.array(place, np.uint8).tobytes()
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise WireError(f"array {place}: expected text in UTF-8") from error

    def json(self, place: int = 0) -> Any:
        """Return an array of bytes as the JSON that it is."""
        try:
            return json.loads(self.text(place))
        except (ValueError, RecursionError) as error:
            raise WireError(f"array {place}: expected JSON: {error}") from error

    def array(self, place: int, kind: type, *, columns: int | None = None) -> Array:
        """Return one array, which must be of this type and, with ``columns``, a matrix."""
        if place >= len(self.arrays):
            raise WireError(f"expected more than {place} arrays, got {len(self.arrays)}")
        found = self.arrays[place]
        num_dims = 1 if columns is None else 2
        if found.dtype != np.dtype(kind) or found.ndim != num_dims:
            raise WireError(
                f"array {place}: expected {np.dtype(kind)} of {num_dims} dimension(s), "
                f"got {found.dtype} of {found.ndim}"
            )
        if columns is not None and found.shape[1] != columns:
            raise WireError(f"array {place}: expected {columns} columns, got {found.shape[1]}")
        return found


def json_array(value: Any) -> Array:
    """Return plain data as the array of bytes that carries its JSON."""
    return text_array(json.dumps(value))


def text_array(text: str) -> Array:
    """Return text as an array of bytes."""
    return np.frombuffer(text.encode(), np.uint8)


def encode(message: Message) -> bytes:
    """Return the bytes of a message."""
    parts: list[bytes | memoryview] = [
        _HEADER.pack(
            MAGIC,
            VERSION,
            message.kind,
            message.worker,
            message.incarnation,
            message.sequence,
            len(message.arrays),
            0,
        )
    ]
    for array in message.arrays:
        columns = array.shape[1] if array.ndim == 2 else 1
        parts.append(_ARRAY.pack(_type_of(array), array.ndim, 0, columns, array.shape[0]))
        parts.append(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
        parts.append(bytes(-array.nbytes % _ALIGNMENT))
    return b"".join(parts)


def decode(content: bytes) -> Message:
    """Read a message; its arrays are views of ``content``."""
    if len(content) < _HEADER.size:
        raise WireError(f"expected at least {_HEADER.size} bytes, got {len(content)}")
    magic, version, kind, worker, incarnation, sequence, num_arrays, zero = _HEADER.unpack_from(
        content
    )
    if magic != MAGIC or zero:
        raise WireError("these bytes are no message between workers and servers")
    if version != VERSION:
        raise WireError(f"message of version {version}, expected {VERSION}; use one release")
    if kind not in Kind.__members__.values() or num_arrays > MAX_ARRAYS:
        raise WireError(f"message of unknown kind {kind}, or with {num_arrays} arrays")
    arrays = []
    at = _HEADER.size
    for _ in range(num_arrays):
        array, at = _decode_array(content, at)
        arrays.append(array)
    if at != len(content):
        raise WireError(f"{len(content) - at} bytes behind the last array")
    return Message(
        kind=Kind(kind),
        worker=worker,
        incarnation=incarnation,
        sequence=sequence,
        arrays=tuple(arrays),
        content=content,
    )


def split_chunks(content: bytes) -> Iterator[bytes]:
    """Yield a message in pieces that a stream carries well."""
    for begin in range(0, len(content), CHUNK_BYTES):
        yield content[begin : begin + CHUNK_BYTES]


def _decode_array(content: bytes, at: int) -> tuple[Array, int]:
    if len(content) - at < _ARRAY.size:
        raise WireError("the message ends within an array")
    code, num_dims, zero, columns, rows = _ARRAY.unpack_from(content, at)
    at += _ARRAY.size
    if code >= len(_TYPES) or num_dims not in (1, 2) or zero or (num_dims == 1 and columns != 1):
        raise WireError(f"an impossible array: type {code}, {num_dims} dimensions")
    kind = _TYPES[code]
    num_bytes = rows * columns * kind.itemsize  # whole numbers of Python cannot wrap around
    padded = num_bytes + -num_bytes % _ALIGNMENT
    if padded > len(content) - at:
        raise WireError(f"an array of {num_bytes} bytes, but {len(content) - at} are left")
    array = np.frombuffer(content, kind, count=rows * columns, offset=at)
    return array.reshape(rows, columns) if num_dims == 2 else array, at + padded


def _type_of(array: Array) -> int:
    if array.dtype not in _TYPES or array.ndim not in (1, 2):
        raise WireError(f"a message holds no {array.dtype} of {array.ndim} dimensions")
    return _TYPES.index(array.dtype)
