"""What a server is told before it can serve: the tables, the dense part, and who will come."""

from typing import Literal

from pydantic import Field, ValidationError

from fleetrec.config.job import OptimizerOptions
from fleetrec.config.options import Options
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.sharding import TableShard
from fleetrec.embedding.table import RowOptimizer, TableConfig
from fleetrec.server.wire import Message, WireError

Mode = Literal["sync", "async"]  # pushes are held for one step, or applied as they come


class ServedModel(Options):
    """What the servers of one run hold together; the same for all of them."""

    tables: tuple[TableConfig, ...]
    num_dense: int = Field(ge=0)  # numbers of the dense network that are trained
    optimizer: OptimizerOptions
    seed: int
    mode: Mode

    def row_optimizer(self, table: TableConfig) -> RowOptimizer:
        """Return how the rows of a table move."""
        return table.row_optimizer(self.optimizer.name, self.optimizer.settings)

    def differences(self, other: "ServedModel") -> list[str]:
        """Return the parts in which another model is not the same."""
        mine, theirs = self.to_plain(), other.to_plain()
        return [key for key in mine if mine[key] != theirs[key]]


def read_model(message: Message) -> ServedModel:
    """Return the model that a message describes."""
    try:
        return ServedModel.model_validate(message.plain())
    except (ValidationError, ValueError) as error:
        raise WireError(f"the description of the model is wrong: {error}") from error


def build_stores(model: ServedModel, shard: TableShard) -> dict[str, NativeStore]:
    """Return one shard of every table, empty."""
    return {
        table.name: NativeStore(
            table,
            model.row_optimizer(table),
            seed=model.seed,
            shard=shard,
        )
        for table in model.tables
    }
