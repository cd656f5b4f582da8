"""Sequences whose steps may hold several values each."""

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fleetrec.config.features import FeatureOptions
from fleetrec.features.column import Column, Texts
from fleetrec.features.values import Ids, to_offsets


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Sequences of rows: values, steps by their values, and rows by their steps."""

    texts: Texts  # the values of every row, of all steps
    counts: Ids  # of the values of each step
    offsets: Ids  # of the steps of each row

    def step_of_value(self) -> Ids:
        """Return the index of the step of every value within its row."""
        steps = np.arange(len(self.counts)) - np.repeat(self.offsets[:-1], np.diff(self.offsets))
        return np.repeat(steps, self.counts)

    def row_of_value(self) -> Ids:
        """Return the row of every value."""
        return np.repeat(np.arange(len(self.texts.offsets) - 1), self.texts.lengths())


def read_steps(column: Column, options: FeatureOptions) -> Steps:
    """Return the first ``max_length`` steps of every row."""
    texts = column.texts(separator=options.separator, precision=options.precision)
    if options.max_length is not None:
        texts = texts.first(options.max_length)
    if not options.step_separator:
        ones = np.ones(len(texts.values), np.int64)
        return Steps(texts=texts, counts=ones, offsets=texts.offsets)
    split = pc.split_pattern(texts.values, options.step_separator.encode())
    values = split.flatten().cast(pa.large_binary())
    lengths = np.asarray(pc.list_value_length(split).to_numpy(zero_copy_only=False), np.int64)
    is_there = np.asarray(pc.greater(pc.binary_length(values), 0).to_numpy(zero_copy_only=False))
    before = to_offsets(is_there.astype(np.int64))
    ends = before[to_offsets(lengths)]  # of the values of each step, without empty ones
    counts = np.diff(ends)
    return Steps(
        texts=Texts(values=values.filter(pa.array(is_there)), offsets=ends[texts.offsets]),
        counts=counts[counts > 0],
        offsets=to_offsets((counts > 0).astype(np.int64))[texts.offsets],
    )
