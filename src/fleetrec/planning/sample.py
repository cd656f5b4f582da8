"""A sample of the data: the ids of a batch, and the estimated number of unique ids."""

# Shape suffixes: N ids, B samples.

import dataclasses
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch

from fleetrec._native import fold_ids
from fleetrec.core.batch import Batch
from fleetrec.core.errors import DataError
from fleetrec.core.jagged import Jagged
from fleetrec.embedding.collection import EmbeddingCollection

Ids = npt.NDArray[np.int64]
Clock = Callable[[], float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampledTable:
    """Statistics of the ids of one table in the sample; means are per batch."""

    ids_per_batch: float
    different_ids_per_batch: float
    num_different: int  # in the whole sample
    power: float  # exponent by which the number of unique ids grows with the data


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sample:
    """Some batches from the beginning of the data, and how much of it they are."""

    batches: tuple[Batch, ...]  # the first batches
    num_samples: int
    fraction: float  # of all data
    read_s_per_sample: float
    tables: Mapping[str, SampledTable]

    @property
    def num_samples_of_all(self) -> int:
        """The number of samples of the data; an estimate unless all data was read."""
        return round(self.num_samples / self.fraction)

    def num_rows(self, table: str) -> int:
        """Return the estimated number of unique ids of a table in all data."""
        seen = self.tables[table]
        return max(1, round(seen.num_different * math.pow(self.fraction, -seen.power)))


def take_sample(
    batches: Iterable[Batch],
    collection: EmbeddingCollection,
    *,
    max_samples: int,
    num_kept: int,
    clock: Clock,
) -> Sample:
    """Read about ``max_samples`` samples, and keep the first batches."""
    kept: list[Batch] = []
    sizes: list[int] = []
    lists: dict[str, list[Ids]] = {name: [] for name in collection.tables}
    times: list[float] = []
    fraction = 1.0
    begin = clock()
    for batch in batches:
        times.append(clock() - begin)
        sizes.append(batch.num_samples)
        fraction = batch.progress or 1.0  # unknown progress counts as all
        for name, ids_N in table_ids(batch, collection).items():
            lists[name].append(ids_N)
        if len(kept) < num_kept:
            kept.append(batch)
        if sum(sizes) >= max_samples and len(sizes) > 1:
            break
        begin = clock()
    if not sizes:
        raise DataError("the data set is empty; planning needs samples")
    return Sample(
        batches=tuple(batch for batch in kept if batch.num_samples == sizes[0]),
        num_samples=sum(sizes),
        fraction=fraction,
        # The first batch waits for files to be opened.
        read_s_per_sample=statistics.median(times[1:] or times) / sizes[0],
        tables={name: _sampled(ids, sizes) for name, ids in lists.items()},
    )


def table_ids(batch: Batch, collection: EmbeddingCollection) -> dict[str, Ids]:
    """Return all ids that a batch looks up in each table, as stored in the table."""
    parts: dict[str, list[Ids]] = {name: [] for name in collection.tables}
    for feature in collection.features:
        jagged = batch.side(feature.side).ids[feature.feature]
        parts[feature.table].append(_last_ids(jagged, feature.max_length))
    found: dict[str, Ids] = {}
    for name, lists in parts.items():
        ids_N = np.concatenate(lists) if lists else np.zeros(0, np.int64)
        table = collection.tables[name]
        if table.out_of_range == "hash" and table.num_rows is not None:
            ids_N = fold_ids(ids_N, num_rows=table.num_rows)
        found[name] = ids_N
    return found


def growth_power(num_different: int, num_before: int, times: float) -> float:
    """Return the exponent by which the number of unique ids grows with the data.

    The growth is a power law, as for words of a text (Heaps' law). There were ``num_before`` unique
    ids before the data became ``times`` as large.
    """
    if times <= 1 or num_before == 0:
        return 0.0
    return min(1.0, max(0.0, math.log(num_different / num_before) / math.log(times)))


def _last_ids(jagged: Jagged, max_length: int | None) -> Ids:
    """Return the ids of all lists, at most the last ``max_length`` of each."""
    values_N = jagged.values
    if max_length is not None:
        ends_N = torch.repeat_interleave(jagged.offsets[1:], jagged.lengths())
        values_N = values_N[ends_N - torch.arange(len(values_N)) <= max_length]
    ids_N: Ids = values_N.numpy()
    return ids_N


def _sampled(batches: Sequence[Ids], sizes: Sequence[int]) -> SampledTable:
    different = [np.unique(ids_N) for ids_N in batches]
    full = [number for number, size in enumerate(sizes) if size == sizes[0]]
    half = len(batches) // 2
    num_different = _num_different(different)
    return SampledTable(
        ids_per_batch=float(np.mean([len(batches[number]) for number in full])),
        different_ids_per_batch=float(np.mean([len(different[number]) for number in full])),
        num_different=num_different,
        power=growth_power(
            num_different, _num_different(different[:half]), sum(sizes) / max(1, sum(sizes[:half]))
        ),
    )


def _num_different(lists: Sequence[Ids]) -> int:
    return len(np.unique(np.concatenate(lists))) if lists else 0
