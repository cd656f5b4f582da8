"""The slow, obvious twin of the native slot-text parser: one Python loop over split lines."""

import dataclasses
from collections import Counter
from collections.abc import Sequence

import numpy as np

_ID_BYTES = b"0123456789+-"
_FLOAT_BYTES = b"0123456789+-.eE"
_MAX_SHORT_DIGITS = 100
# Half-way between the largest float32 and 2^128: from here on numbers round to infinity.
_FLOAT32_OVERFLOW = 2.0**128 - 2.0**103


class TwinTextError(ValueError):
    """The first bad token: ``segment`` and ``line`` from 0, ``column`` from 1."""

    def __init__(self, segment: int, line: int, column: int, token: bytes) -> None:
        super().__init__(f"segment {segment}, line {line}, column {column}: {token!r}")
        self.segment = segment
        self.line = line
        self.column = column
        self.token = token.decode(errors="replace")[:80]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceSlots:
    """What ``ParsedSlots`` holds."""

    num_samples: int
    ids: np.ndarray
    offsets: np.ndarray
    dense: list[np.ndarray]
    seen: np.ndarray
    undeclared: dict[str, int]
    num_empty: int


def cut_lines(text: bytes, begin: int, max_lines: int) -> tuple[int, int]:
    """Where ``max_lines`` lines from ``begin`` on end, and how many newlines lie before that."""
    lines = text[begin:].split(b"\n")
    if len(lines) - 1 < max_lines:
        return len(text), len(lines) - 1
    return begin + sum(len(line) + 1 for line in lines[:max_lines]), max_lines


def to_id(value: bytes) -> int:
    """The 64 bits of -2^63 .. 2^64-1 as a signed integer."""
    # int() also takes underscores and white space.
    if value.translate(None, _ID_BYTES):
        raise ValueError(f"not an integer: {value!r}")
    if len(value) > _MAX_SHORT_DIGITS:  # int() refuses thousands of digits, even zeros
        value = _without_leading_zeros(value)
    number = int(value)
    if not -(2**63) <= number < 2**64:
        raise ValueError(f"out of range: {value!r}")
    return number if number < 2**63 else number - 2**64


def _without_leading_zeros(value: bytes) -> bytes:
    sign = value[:1] if value[:1] in (b"+", b"-") else b""
    digits = value[len(sign) :]
    if not digits.isdigit():  # of bytes: ASCII only
        raise ValueError(f"not an integer: {value!r}")
    # Enough digits to be out of range if they are.
    return sign + (digits.lstrip(b"0")[:_MAX_SHORT_DIGITS] or b"0")


def to_float(value: bytes) -> float:
    """A number that is finite as a float32, not yet rounded to it."""
    # float() also takes underscores, white space, nan and infinity.
    if value.translate(None, _FLOAT_BYTES):
        raise ValueError(f"not a decimal number: {value!r}")
    number = float(value)
    if not -_FLOAT32_OVERFLOW < number < _FLOAT32_OVERFLOW:
        raise ValueError(f"out of range: {value!r}")
    return number


class ReferenceParser:
    """Same promises as ``fleetrec._native.SlotParser``, but for the wording of the reasons."""

    def __init__(
        self, sparse: Sequence[str], dense: Sequence[tuple[str, int]], padding: int = 0
    ) -> None:
        self._sparse = [name.encode() for name in sparse]
        self._dense = [(name.encode(), width) for name, width in dense]
        self._padding = padding

    def parse(self, segments: Sequence[bytes]) -> ReferenceSlots:
        """Parses whole lines; raises ``TwinTextError`` at the first bad token."""
        names = self._sparse + [name for name, _ in self._dense]
        lists: dict[bytes, list[list[float]]] = {name: [] for name in names}
        undeclared: Counter[str] = Counter()
        num_samples = num_empty = 0
        for segment, text in enumerate(segments):
            lines = bytes(text).split(b"\n")
            if lines[-1] == b"":
                lines.pop()
            for number, line in enumerate(lines):
                sample = self._parse_line(line, undeclared, segment, number)
                num_samples += 1
                num_empty += not line.strip()
                for name in names:
                    lists[name].append(sample[name])
        return self._to_slots(lists, num_samples, undeclared, num_empty)

    def _parse_line(
        self, line: bytes, undeclared: Counter[str], segment: int, number: int
    ) -> dict[bytes, list[float]]:
        sample: dict[bytes, list[float]] = {name: [] for name in self._sparse}
        dense: dict[bytes, list[float]] = {name: [] for name, _ in self._dense}
        tokens = line.strip().split(b" ")
        for i, token in enumerate(tokens):
            if not token:
                continue
            name, colon, rest = token.partition(b":")
            if not colon or not name:
                raise TwinTextError(segment, number, _column(line, tokens, i), token)
            try:
                if name in sample:
                    sample[name].append(to_id(rest.partition(b":")[0]))
                elif name in dense:
                    dense[name].append(to_float(rest.partition(b":")[0]))
                else:
                    undeclared[name.decode(errors="replace")] += 1
            except ValueError:
                raise TwinTextError(segment, number, _column(line, tokens, i), token) from None
        # Counts are known at the end of the line only, so bad tokens come first.
        wrong = {name for name, width in self._dense if len(dense[name]) not in (0, width)}
        if wrong:
            names = [token.partition(b":")[0] for token in tokens]
            i = next(i for i, name in enumerate(names) if name in wrong)
            raise TwinTextError(segment, number, _column(line, tokens, i), names[i])
        return sample | dense

    def _to_slots(
        self,
        lists: dict[bytes, list[list[float]]],
        num_samples: int,
        undeclared: Counter[str],
        num_empty: int,
    ) -> ReferenceSlots:
        ids: list[float] = []
        offsets = [0]
        for name in self._sparse:
            for values in lists[name]:
                ids.extend(values or [self._padding])
                offsets.append(len(ids))
        dense = [
            np.array(
                [values or [float(self._padding)] * width for values in lists[name]],
                dtype=np.float64,
            )
            .reshape(num_samples, width)
            .astype(np.float32)
            for name, width in self._dense
        ]
        return ReferenceSlots(
            num_samples=num_samples,
            ids=np.array(ids, dtype=np.int64),
            offsets=np.array(offsets, dtype=np.int64),
            dense=dense,
            seen=np.array([sum(map(bool, values)) for values in lists.values()], dtype=np.int64),
            undeclared=dict(undeclared),
            num_empty=num_empty,
        )


def _column(line: bytes, tokens: Sequence[bytes], i: int) -> int:
    num_stripped = len(line) - len(line.lstrip())
    return num_stripped + sum(len(token) + 1 for token in tokens[:i]) + 1
