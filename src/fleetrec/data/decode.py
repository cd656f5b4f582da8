"""From raw rows to samples: decode, skip bad rows, filter."""

import dataclasses
import hashlib
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

from fleetrec.config.dataset_features import check_id_rules
from fleetrec.config.job import Filter
from fleetrec.core.cursor import Cursor
from fleetrec.core.errors import DataError
from fleetrec.core.partition import contiguous_block
from fleetrec.data.block import Block, join, select
from fleetrec.data.scatter import scatter
from fleetrec.data.source import BadRowError, RowChunk, Source
from fleetrec.data.stream import RawBatch
from fleetrec.features.id_rule import IdMap

Mask = npt.NDArray[np.bool_]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """Samples, their position in the data, and the errors of skipped rows."""

    block: Block
    begin: Cursor
    end: Cursor
    progress: float
    faults: tuple[str, ...] = ()

    def portion(self, *, index: int, count: int) -> Self:
        """Return one of ``count`` equal portions of the samples; the cursors stay."""
        own = contiguous_block(self.block.num_samples, index, count)
        chosen = select([self.block], np.arange(own.start, own.stop))
        return dataclasses.replace(
            self, block=dataclasses.replace(chosen, counts=self.block.counts)
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Decoder:
    """Turns raw rows into samples; holds no state, so threads may share it."""

    source: Source
    seed: int
    id_maps: Mapping[str, IdMap] = dataclasses.field(default_factory=dict)

    @property
    def changes_row_count(self) -> bool:
        """Return whether a batch may have fewer or more samples than rows."""
        options = self.source.options
        return bool(
            options.filters
            or options.sample_ratio < 1
            or options.bad_rows.policy == "skip"
            or self.source.rows_map_to_many_samples
        )

    def __call__(self, raw: RawBatch, *, epoch: int) -> Decoded:
        """Return the samples of a batch of rows."""
        faults: list[str] = []
        if self.source.options.bad_rows.policy == "skip":
            block, rows = self._decode_leniently(raw.chunks, faults)
        else:
            block = self._decode(raw.chunks)
            rows = np.arange(block.num_samples)
        keep = self._kept(block, raw.chunks, rows, epoch=epoch)
        if keep is not None:
            chosen = select([block], np.flatnonzero(keep).astype(np.int64))
            block = dataclasses.replace(chosen, counts=block.counts)
        return Decoded(
            block=block,
            begin=raw.begin,
            end=raw.end,
            progress=raw.progress,
            faults=tuple(faults),
        )

    def _decode(self, chunks: Sequence[RowChunk]) -> Block:
        block = self.source.decode(chunks)
        return _mapped(block, self.id_maps) if self.id_maps else block

    def _decode_leniently(
        self, chunks: Sequence[RowChunk], faults: list[str]
    ) -> tuple[Block, npt.NDArray[np.int64]]:
        """Skip bad rows; returns the block and the indexes of its rows."""
        blocks: list[Block] = []
        rows: list[npt.NDArray[np.int64]] = []
        rest, first = tuple(chunks), 0
        while rest:
            try:
                good: Block | None = self._decode(rest)
                bad_row = None
            except BadRowError as error:
                faults.append(str(error))
                bad_row = error.row
                before, rest = _split(rest, bad_row)
                _, rest = _split(rest, 1)
                good = self._decode(before) if before else None
            if good is not None:
                blocks.append(good)
                rows.append(np.arange(first, first + good.num_samples))
            if bad_row is None:
                break
            first += bad_row + 1
        if not blocks:
            return Block.empty(self.source.inputs), np.arange(0)
        return join(blocks), np.concatenate(rows)

    def _kept(
        self,
        block: Block,
        chunks: Sequence[RowChunk],
        rows: npt.NDArray[np.int64],
        *,
        epoch: int,
    ) -> Mask | None:
        """Return a mask of the samples to keep; None: all."""
        options = self.source.options
        masks = [_passes(block, wanted) for wanted in options.filters]
        if options.sample_ratio < 1:
            salts = _row_salts(chunks)
            if self.source.rows_map_to_many_samples:  # a row does not identify a sample
                salts = salts[0] + np.arange(block.num_samples, dtype=np.uint64)
            else:
                salts = salts[rows]
            masks.append(_chance(salts, [self.seed, epoch]) < options.sample_ratio)
        return np.logical_and.reduce(masks) if masks else None


def id_maps_of(source: Source) -> Mapping[str, IdMap]:
    """Return the rules for ids that the source does not apply itself, by feature."""
    if source.applies_id_rules:
        return {}
    options = source.options
    check_id_rules(options)
    return {
        name: IdMap(rule, where=f"data set {options.name}: feature {name!r}")
        for name, rule in options.id_rules.items()
    }


def _mapped(block: Block, id_maps: Mapping[str, IdMap]) -> Block:
    """Apply rules to the ids of some features, but not to padding."""
    values = block.ids.values_N.numpy().copy()
    padding = values[block.padding_positions]
    for name, id_map in id_maps.items():
        first = block.ids.names.index(name) * block.num_samples
        begin, end = block.ids.offsets[[first, first + block.num_samples]].tolist()
        values[begin:end] = id_map(values[begin:end])
    values[block.padding_positions] = padding
    return dataclasses.replace(
        block, ids=dataclasses.replace(block.ids, values_N=torch.from_numpy(values))
    )


def check_filters(source: Source) -> None:
    """Raise if a filter names a feature that is not there."""
    known = (*source.inputs.sparse, *source.inputs.dense)
    for wanted in source.options.filters:
        if wanted.feature not in known:
            raise DataError(
                f"data set {source.options.name}: filters: no feature is called "
                f"{wanted.feature!r}; known: {', '.join(known)}"
            )


def _split(
    chunks: Sequence[RowChunk], num_rows: int
) -> tuple[tuple[RowChunk, ...], tuple[RowChunk, ...]]:
    before: list[RowChunk] = []
    for i, chunk in enumerate(chunks):
        if num_rows == 0:
            return tuple(before), tuple(chunks[i:])
        head, tail = chunk.take(num_rows)
        before.append(head)
        num_rows -= head.num_rows
        if tail is not None:
            return tuple(before), (tail, *chunks[i + 1 :])
    return tuple(before), ()


def _passes(block: Block, wanted: Filter) -> Mask:
    compare = _comparison(wanted.op)
    if wanted.feature in block.dense:
        values = block.dense[wanted.feature].flatten(1).numpy()
        return np.asarray(compare(values, np.float32(wanted.value)).all(axis=1))
    jagged = block.ids[wanted.feature]
    hits = compare(jagged.values.numpy(), wanted.value)
    samples = np.repeat(np.arange(block.num_samples), jagged.lengths().numpy())
    found = np.zeros(block.num_samples, np.bool_)
    found[samples[hits]] = True
    return found


def _comparison(op: str) -> Callable[[Any, Any], Any]:
    match op:
        case "==":
            return operator.eq
        case "!=":
            return operator.ne
        case "<":
            return operator.lt
        case "<=":
            return operator.le
        case ">":
            return operator.gt
    return operator.ge


def _row_salts(chunks: Sequence[RowChunk]) -> npt.NDArray[np.uint64]:
    """Return a number for every row that depends only on its file and its position there."""
    salts = []
    for chunk in chunks:
        digest = np.frombuffer(_digest(chunk), np.uint64)[0]
        rows = np.arange(chunk.first_row, chunk.first_row + chunk.num_rows, dtype=np.uint64)
        salts.append(scatter(rows + digest))
    return np.concatenate(salts)


def _digest(chunk: RowChunk) -> bytes:
    text = f"{chunk.file_slice.file.name}/{chunk.file_slice.begin}"
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def _chance(salts: npt.NDArray[np.uint64], seeds: Sequence[int]) -> npt.NDArray[np.float64]:
    """Return a number in [0, 1) per row, a pure function of salts and seeds."""
    mixed = salts
    for seed in seeds:
        mixed = scatter(mixed ^ np.uint64(seed))
    return (mixed >> np.uint64(11)).astype(np.float64) / float(1 << 53)
