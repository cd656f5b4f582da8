"""The model that servers hold: tables, dense weights and their optimizers."""

from typing import Literal

from pydantic import Field, ValidationError, model_validator

from fleetrec.config.job import OptimizerOptions
from fleetrec.config.options import Options
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.sharding import TableShard
from fleetrec.embedding.table import RowOptimizer, TableConfig
from fleetrec.server.wire import Message, WireError

Mode = Literal["sync", "async"]  # one step of all pushes, or every push as it arrives


class ServedModel(Options):
    """The model of a run, the same on all servers.

    ``dense_sizes`` is the number of trained dense weights per optimizer; the flat vector of dense
    weights is ordered by optimizer. ``table_optimizers`` has the index of the optimizer of every
    table; if empty, all tables use the first.
    """

    tables: tuple[TableConfig, ...]
    table_optimizers: tuple[int, ...] = ()
    dense_sizes: tuple[int, ...]
    optimizers: tuple[OptimizerOptions, ...] = Field(min_length=1)
    seed: int
    mode: Mode

    @model_validator(mode="after")
    def _check_sizes(self) -> "ServedModel":
        if len(self.dense_sizes) != len(self.optimizers) or min(self.dense_sizes) < 0:
            raise ValueError("dense_sizes: expected one size of at least 0 for every optimizer")
        if self.table_optimizers and len(self.table_optimizers) != len(self.tables):
            raise ValueError("table_optimizers: expected one index for every table")
        if any(not 0 <= index < len(self.optimizers) for index in self.table_optimizers):
            raise ValueError(f"table_optimizers: expected indexes below {len(self.optimizers)}")
        return self

    @property
    def num_dense(self) -> int:
        """Return the number of trained dense weights."""
        return sum(self.dense_sizes)

    def table_optimizer(self, index: int) -> OptimizerOptions:
        """Return the optimizer of the table at ``index``."""
        return self.optimizers[self.table_optimizers[index] if self.table_optimizers else 0]

    def row_optimizer(self, index: int) -> RowOptimizer:
        """Return the row optimizer of the table at ``index``."""
        options = self.table_optimizer(index)
        return self.tables[index].row_optimizer(options.name, options.settings)

    def dense_segments(self, shard: TableShard) -> list[tuple[int, int, int]]:
        """Return (optimizer, first, last) for every part of one server's dense weights.

        Positions count from the first weight of that optimizer.
        """
        begin, end = shard.part_of(self.num_dense)
        segments = []
        offset = 0
        for index, size in enumerate(self.dense_sizes):
            first, last = max(begin, offset) - offset, min(end, offset + size) - offset
            if first < last:
                segments.append((index, first, last))
            offset += size
        return segments

    def differences(self, other: "ServedModel") -> list[str]:
        """Return the names of the fields in which another model differs."""
        mine, theirs = self.to_plain(), other.to_plain()
        return [key for key in mine if mine[key] != theirs[key]]


def read_model(message: Message) -> ServedModel:
    """Return the model of a SETUP message."""
    try:
        return ServedModel.model_validate(message.json())
    except (ValidationError, ValueError) as error:
        raise WireError(f"SETUP: the model is not valid: {error}") from error


def build_stores(model: ServedModel, shard: TableShard) -> dict[str, NativeStore]:
    """Return one empty shard of every table."""
    return {
        table.name: NativeStore(table, model.row_optimizer(index), seed=model.seed, shard=shard)
        for index, table in enumerate(model.tables)
    }
