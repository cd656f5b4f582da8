"""From samples made by Python code, dicts or lists, to blocks."""

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from fleetrec.config.job import DatasetOptions, DenseSlot
from fleetrec.core.jagged import KeyedJagged
from fleetrec.data.block import Block, SlotCounts
from fleetrec.features.id_rule import text_ids
from fleetrec.features.values import Ids

Named = Mapping[str, Any]
SHOWN_CHARACTERS = 80
_MIN_ID, _MAX_ID = -(2**63), 2**64 - 1


class BadSampleError(ValueError):
    """A sample that does not fit; ``sample`` is its index in the call."""

    def __init__(self, message: str, *, sample: int) -> None:
        super().__init__(message)
        self.sample = sample


def to_named(sample: Any, order: Sequence[str]) -> Named:
    """Return the values of a sample by feature; without names they are in the given order."""
    if isinstance(sample, Mapping):
        return sample
    if isinstance(sample, str | bytes) or not isinstance(sample, Iterable):
        raise ValueError(f"expected a dict or a list of values, got {shown(sample)}")
    items = list(sample)
    if items and all(_is_pair(item) for item in items):
        named = dict(items)
        if len(named) < len(items):
            raise ValueError(f"a feature comes twice: {shown([name for name, _ in items])}")
        return named
    if len(items) != len(order):
        raise ValueError(
            f"expected {len(order)} lists of values ({' '.join(order)}), got {len(items)}"
        )
    return dict(zip(order, items, strict=True))


def derived_options(options: DatasetOptions, sample: Any) -> DatasetOptions:
    """Return options that declare the features of a sample: whole numbers and text are ids.

    Features without names are numbered: 0, 1 and so on.
    """
    if not isinstance(sample, Mapping):
        sample = list(sample)
    named = to_named(sample, [str(place) for place in range(len(sample))])
    sparse: list[str] = []
    dense: list[DenseSlot] = []
    for name, value in named.items():
        values = np.asarray(value)
        if value is None or values.size == 0:
            raise ValueError(f"{name!r} is empty in the first sample: declare the features")
        if values.dtype.kind == "f":
            dense.append(DenseSlot(name=name, shape=values.shape or (1,)))
        else:
            sparse.append(name)
    return options.model_copy(update={"sparse": tuple(sparse), "dense": tuple(dense)})


def build_block(samples: Sequence[Named], options: DatasetOptions) -> Block:
    """Return the samples as a block; raises BadSampleError at the first that does not fit."""
    try:
        return _build(samples, options)
    except BadSampleError as error:
        first = error
    # Columns are parsed one by one, so an earlier sample may be bad in a later column.
    while first.sample:
        try:
            _build(samples[: first.sample], options)
        except BadSampleError as error:
            first = error
            continue
        break
    raise first


def shown(value: Any) -> str:
    """Return a value for a message, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."


def _build(samples: Sequence[Named], options: DatasetOptions) -> Block:
    ids: list[Ids] = []
    lengths: list[npt.NDArray[np.int64]] = []
    is_missing: list[npt.NDArray[np.bool_]] = []
    seen: list[int] = []
    for name in options.sparse:
        lists = [_as_list(sample.get(name)) for sample in samples]
        is_missing.append(np.array([not values for values in lists], np.bool_))
        seen.append(sum(map(bool, lists)))
        lengths.append(np.array([max(1, len(values)) for values in lists], np.int64))
        ids.append(_padded(lists, is_missing[-1], _to_ids(name, lists), options.padding))
    dense = {}
    for slot in options.dense:
        columns = [sample.get(slot.name) for sample in samples]
        rows, num_seen = _to_rows(slot, columns, options.padding)
        dense[slot.name] = torch.from_numpy(rows)
        seen.append(num_seen)
    offsets = np.cumsum(np.concatenate([np.zeros(1, np.int64), *lengths]))
    return Block(
        ids=KeyedJagged(
            names=options.sparse,
            values_N=torch.from_numpy(np.concatenate([np.empty(0, np.int64), *ids])),
            offsets=torch.from_numpy(offsets),
            num_samples=len(samples),
        ),
        dense=dense,
        counts=SlotCounts(
            num_samples=len(samples),
            seen=np.array(seen, np.int64),
            undeclared=_undeclared(samples, options),
            num_empty=sum(not sample for sample in samples),
        ),
        padding_positions=offsets[:-1][np.concatenate([np.empty(0, np.bool_), *is_missing])],
    )


def _undeclared(samples: Sequence[Named], options: DatasetOptions) -> dict[str, int]:
    declared = {*options.sparse, *(slot.name for slot in options.dense)}
    found: collections.Counter[str] = collections.Counter()
    for sample in samples:
        found.update(str(name) for name in sample.keys() - declared)
    return dict(found)


def _is_pair(item: Any) -> bool:
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str)


def _as_list(value: Any) -> Sequence[Any]:
    """Return the values of a feature, which may be a list, an array or a single value."""
    if value is None:
        return ()
    if hasattr(value, "tolist"):  # arrays and tensors
        value = np.asarray(value).reshape(-1).tolist()
    values: Sequence[Any] = value if isinstance(value, list | tuple) else (value,)
    if any(isinstance(text, str | bytes) and not text for text in values):
        return [text for text in values if not isinstance(text, str | bytes) or text]
    return values


def _to_ids(name: str, lists: Sequence[Sequence[Any]]) -> Ids:
    """Return the ids of all values: integers as they are, text as in every other format."""
    flat = [value for values in lists for value in values]
    if flat and set(map(type, flat)) <= {int, bool}:
        ids = np.array(flat)
        if ids.dtype.kind in "bi":  # others are too large for 63 bits
            return ids.astype(np.int64)
    numbers = np.empty(len(flat), np.uint64)
    texts: dict[int, str | bytes] = {}
    place = 0
    for number, values in enumerate(lists):
        for value in values:
            if isinstance(value, str | bytes):
                texts[place] = value
            elif isinstance(value, int | np.integer) and _MIN_ID <= value <= _MAX_ID:
                numbers[place] = int(value) % 2**64
            else:
                raise BadSampleError(
                    f"feature {name!r} is sparse: expected integers from -2^63 to 2^64-1 or text, "
                    f"got {shown(value)}",
                    sample=number,
                )
            place += 1
    ids = numbers.view(np.int64)
    if texts:
        ids[list(texts)] = text_ids(pa.array(list(texts.values()), pa.large_binary()))
    return ids


def _padded(
    lists: Sequence[Sequence[Any]], is_missing: npt.NDArray[np.bool_], ids: Ids, padding: int
) -> Ids:
    """Give an empty list one id."""
    if not is_missing.any():
        return ids
    starts = np.cumsum([0, *map(len, lists)])[:-1]
    return np.insert(ids, starts[is_missing], padding)


def _to_rows(
    slot: DenseSlot, columns: Sequence[Any], padding: int
) -> tuple[npt.NDArray[np.float32], int]:
    rows = np.full((len(columns), *slot.shape), padding, np.float32)
    num_seen = 0
    for number, value in enumerate(columns):
        if value is None or np.size(value) == 0:
            continue
        num_seen += 1
        try:
            numbers = np.asarray(value, np.float64).astype(np.float32)
        except (TypeError, ValueError):
            numbers = np.array([np.nan])
        if numbers.size != rows[number].size or not np.isfinite(numbers).all():
            raise BadSampleError(
                f"feature {slot.name!r} is dense: expected {rows[number].size} finite numbers, "
                f"got {shown(value)}",
                sample=number,
            )
        rows[number] = numbers.reshape(slot.shape)
    return rows, num_seen
