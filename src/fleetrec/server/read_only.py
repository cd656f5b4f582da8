"""Serves the tables of a checkpoint for lookups."""

import threading

import numpy as np
import torch

from fleetrec.checkpoint.folder import Folder
from fleetrec.checkpoint.tables import stored_tables
from fleetrec.config.job import OptimizerOptions
from fleetrec.embedding.record import StoredTable
from fleetrec.embedding.sharding import WHOLE_TABLE
from fleetrec.embedding.table import TableConfig
from fleetrec.server import admin
from fleetrec.server.prometheus import Metrics, table_metrics
from fleetrec.server.shard import Shard
from fleetrec.server.spec import ServedModel
from fleetrec.server.steps import read_ids
from fleetrec.server.wire import Kind, Message, WireError

READ_KINDS = (Kind.DUMP, Kind.STATS)  # beside PULL with sequence 0


class ReadOnlyService:
    """Answers lookups (PULL with sequence 0), DUMP and STATS; refuses all other requests."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._counting = threading.Lock()
        self._num_rows_read = 0

    def handle(self, message: Message) -> Message:
        """Answer a request; raises WireError for one that would change the tables."""
        if message.kind in READ_KINDS:
            return admin.READS[message.kind](self._shard, message)
        if message.kind != Kind.PULL or message.sequence > 0:
            raise WireError(f"{message.kind.name}: this server is read-only")
        ids = read_ids(message, self._shard)
        with self._counting:
            self._num_rows_read += sum(map(len, ids))
        rows = self._shard.read(ids, as_new=False)
        return Message(kind=Kind.OK, arrays=[np.zeros(0, np.float32), *rows])

    def metrics(self) -> Metrics:
        """Return metrics of the server and of every table."""
        tables = table_metrics(self._shard.stats(), ("rows", "bytes"))
        return {**tables, "rows_read_total": float(self._num_rows_read)}


def read_checkpoint(folder: Folder, part: str) -> ReadOnlyService:
    """Load the rows of all tables of one phase of a checkpoint."""
    tables = stored_tables(folder, part)
    model = ServedModel(
        tables=tuple(_config(stored) for stored in tables.values()),
        dense_sizes=(0,),
        optimizers=(OptimizerOptions(name="sgd"),),  # never used; sgd keeps no state in rows
        seed=int(folder.meta.get("job", {}).get("seed", 0)),  # hashes of ids depend on it
        mode="async",
    )
    shard = Shard(model, WHOLE_TABLE, torch.zeros(0))
    for stored in tables.values():
        shard.load_table(stored, exactly=False)
    return ReadOnlyService(shard)


def _config(stored: StoredTable) -> TableConfig:
    identity = stored.record.identity
    return TableConfig(
        name=stored.name,
        dim=identity.dim,
        num_rows=identity.num_rows,
        out_of_range="hash" if identity.out_of_range == "hash" else "error",
    )
