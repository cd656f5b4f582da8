"""Messages between workers and servers: a fixed header, then raw arrays.

docs/formats/server-wire.md has the format. Decoding runs no code from a message, and checks every
length against the bytes that are there.
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
MIN_MESSAGE_BYTES = _HEADER.size
_ARRAY = struct.Struct("<BBHIQ")  # type, dimensions, 0, columns, rows
_TYPES = tuple(np.dtype(code) for code in ("<u1", "<u4", "<u8", "<i8", "<f4"))
MAX_LENGTH = 1 << 40
_ALIGNMENT = 8


class Kind(enum.IntEnum):
    """Kinds of requests and answers."""

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
    CUT = 16  # 15 was a request of earlier versions
    COMMIT = 17
    APPLY = 64  # only in a journal: pending pushes are applied
    OK = 128
    WAIT = 129  # not yet: other workers are missing; repeat the request


class WireError(FleetRecError):
    """Bytes that are not a message, or a message that does not fit."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A request or an answer; the meaning of ``sequence`` depends on the kind.

    ``content`` are the encoded bytes; only ``decode`` sets it.
    """

    kind: Kind
    worker: int = 0
    incarnation: int = 0
    sequence: int = 0
    arrays: Sequence[Array] = ()
    content: bytes | None = dataclasses.field(default=None, repr=False, compare=False)

    def text(self, index: int = 0) -> str:
        """Return a byte array as text."""
        raw = self.array(index, np.uint8).tobytes()
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise WireError(f"array {index}: expected text in UTF-8") from error

    def json(self, index: int = 0) -> Any:
        """Return the parsed JSON of a byte array."""
        try:
            return json.loads(self.text(index))
        except (ValueError, RecursionError) as error:
            raise WireError(f"array {index}: expected JSON: {error}") from error

    def array(self, index: int, kind: type, *, columns: int | None = None) -> Array:
        """Return an array; checks its type, and with ``columns`` that it is a matrix."""
        if index >= len(self.arrays):
            raise WireError(f"expected more than {index} arrays, got {len(self.arrays)}")
        found = self.arrays[index]
        num_dims = 1 if columns is None else 2
        if found.dtype != np.dtype(kind) or found.ndim != num_dims:
            raise WireError(
                f"array {index}: expected {np.dtype(kind)} of {num_dims} dimension(s), "
                f"got {found.dtype} of {found.ndim}"
            )
        if columns is not None and found.shape[1] != columns:
            raise WireError(f"array {index}: expected {columns} columns, got {found.shape[1]}")
        return found


def json_array(value: Any) -> Array:
    """Return a value as a byte array of JSON."""
    return text_array(json.dumps(value))


def text_array(text: str) -> Array:
    """Return text as a byte array."""
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
    """Decode a message; its arrays are views of ``content``."""
    if len(content) < _HEADER.size:
        raise WireError(f"expected at least {_HEADER.size} bytes, got {len(content)}")
    magic, version, kind, worker, incarnation, sequence, num_arrays, zero = _HEADER.unpack_from(
        content
    )
    if magic != MAGIC or zero:
        raise WireError("not a message between workers and servers")
    if version != VERSION:
        raise WireError(
            f"message of version {version}, expected {VERSION}; use the same release everywhere"
        )
    if kind not in Kind.__members__.values() or num_arrays > MAX_ARRAYS:
        raise WireError(f"message of unknown kind {kind}, or with {num_arrays} arrays")
    arrays = []
    offset = _HEADER.size
    for _ in range(num_arrays):
        array, offset = _decode_array(content, offset)
        arrays.append(array)
    if offset != len(content):
        raise WireError(f"{len(content) - offset} bytes after the last array")
    return Message(
        kind=Kind(kind),
        worker=worker,
        incarnation=incarnation,
        sequence=sequence,
        arrays=tuple(arrays),
        content=content,
    )


def split_chunks(content: bytes) -> Iterator[bytes]:
    """Yield a message in chunks for a gRPC stream."""
    for begin in range(0, len(content), CHUNK_BYTES):
        yield content[begin : begin + CHUNK_BYTES]


def _decode_array(content: bytes, offset: int) -> tuple[Array, int]:
    if len(content) - offset < _ARRAY.size:
        raise WireError("the message ends inside an array")
    code, num_dims, zero, columns, rows = _ARRAY.unpack_from(content, offset)
    offset += _ARRAY.size
    if code >= len(_TYPES) or num_dims not in (1, 2) or zero or (num_dims == 1 and columns != 1):
        raise WireError(f"array header is not valid: type {code}, {num_dims} dimensions")
    kind = _TYPES[code]
    num_bytes = rows * columns * kind.itemsize  # Python integers cannot overflow
    padded = num_bytes + -num_bytes % _ALIGNMENT
    if padded > len(content) - offset:
        raise WireError(f"an array of {num_bytes} bytes, but {len(content) - offset} are left")
    if max(rows, columns) > MAX_LENGTH:  # an empty array may be of any length by its bytes
        raise WireError(f"an array of {rows} x {columns} numbers; at most {MAX_LENGTH} each way")
    array = np.frombuffer(content, kind, count=rows * columns, offset=offset)
    return array.reshape(rows, columns) if num_dims == 2 else array, offset + padded


def _type_of(array: Array) -> int:
    if array.dtype not in _TYPES or array.ndim not in (1, 2):
        raise WireError(f"cannot encode an array of {array.dtype} with {array.ndim} dimensions")
    return _TYPES.index(array.dtype)
