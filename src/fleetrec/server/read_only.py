"""Tables of a checkpoint, for whoever wants to look rows up; nothing changes them."""

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
from fleetrec.server.prometheus import Metrics
from fleetrec.server.push import check_ids
from fleetrec.server.shard import Shard
from fleetrec.server.spec import ServedModel
from fleetrec.server.wire import Kind, Message, WireError

SERVED_KINDS = (Kind.DUMP, Kind.STATS)  # beside pulls that only look


class ReadOnlyService:
    """Answers pulls that only look, dumps and figures; refuses everything else."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._counting = threading.Lock()
        self._num_rows_read = 0

    def handle(self, message: Message) -> Message:
        """Answer a request; raises WireError for one that would change something."""
        if message.kind in SERVED_KINDS:
            return admin.READS[message.kind](self._shard, message)
        if message.kind != Kind.PULL or message.sequence > 0:
            raise WireError(f"{message.kind.name}: this server only lets rows be read")
        stores = self._shard.stores
        if len(message.arrays) != len(stores) + 1:
            raise WireError(f"expected ids of {len(stores)} tables")
        ids = [message.array(place + 1, np.int64) for place in range(len(stores))]
        for store, ids_N in zip(stores.values(), ids, strict=True):
            check_ids(store, ids_N)
        with self._counting:
            self._num_rows_read += sum(map(len, ids))
        rows = self._shard.read(ids, as_new=False)
        return Message(kind=Kind.OK, arrays=[np.zeros(0, np.float32), *rows])

    def metrics(self) -> Metrics:
        """Return figures for those who watch: of the server, and by table."""
        tables = self._shard.stats()
        by_table = {
            f"table_{key}": {name: float(its[key]) for name, its in tables.items()}
            for key in ("rows", "bytes")
        }
        return {**by_table, "rows_read_total": float(self._num_rows_read)}


def read_checkpoint(folder: Folder, part: str) -> ReadOnlyService:
    """Load the rows of all tables of one phase of a checkpoint."""
    tables = stored_tables(folder, part)
    model = ServedModel(
        tables=tuple(_config(stored) for stored in tables.values()),
        dense_sizes=(0,),
        optimizers=(
            OptimizerOptions(name="sgd"),
        ),  # nothing is pushed; it has no state in the rows
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
