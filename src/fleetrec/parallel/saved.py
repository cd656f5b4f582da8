"""Parts of a checkpoint that must be there."""

from collections.abc import Mapping

from torch import Tensor

from fleetrec.core.errors import CheckpointError
from fleetrec.embedding.record import StoredTable
from fleetrec.parallel.strategy import State


def table_of(tables: Mapping[str, StoredTable], name: str) -> StoredTable:
    """Return a table of a checkpoint."""
    if name not in tables:
        raise CheckpointError(f"the checkpoint has no table {name!r}")
    return tables[name]


def dense_weights(state: State) -> Mapping[str, Tensor]:
    """Return the weights of the dense network."""
    if "model" not in state:
        raise CheckpointError(
            "the checkpoint has no weights of a model; name the tables to load with load_vars"
        )
    return state["model"]
