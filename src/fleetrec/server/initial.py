"""Initial rows of a new server, from a checkpoint."""

from collections.abc import Mapping

from fleetrec.checkpoint.folder import open_folder
from fleetrec.checkpoint.tables import stored_tables
from fleetrec.core.errors import CheckpointError
from fleetrec.embedding.record import StoredTable
from fleetrec.server.shard import Shard


def initial_tables(url: str) -> Mapping[str, StoredTable]:
    """Return the tables of a checkpoint of one model."""
    checkpoint = open_folder(url, kind="checkpoint")
    parts = checkpoint.parts()
    if len(parts) != 1:
        raise CheckpointError(
            f"{url}: expected a checkpoint of one model, it has {', '.join(parts) or 'none'}"
        )
    return stored_tables(checkpoint, parts[0])


def load_initial_rows(shard: Shard, url: str) -> None:
    """Load the weights of a shard's rows; the checkpoint must have every table."""
    tables = initial_tables(url)
    for name in shard.stores:
        if name not in tables:
            raise CheckpointError(f"{url}: has no table {name!r}")
        shard.load_table(tables[name], exactly=False)
