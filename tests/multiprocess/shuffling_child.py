"""One worker of a global shuffle: prints the ids that it holds afterwards."""

import json
import sys

from torch import distributed

from fleetrec.config.job import DatasetOptions, DenseSlot
from fleetrec.core.cursor import Cursor
from fleetrec.data.loader import Loader
from fleetrec.data.plan import DataShard
from fleetrec.parallel.sample_exchange import GroupExchange


def main() -> None:
    store, rank, world, data = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=world
    )
    options = DatasetOptions(
        name="rows",
        kind="InMemoryDataset",
        data_path=data,
        batch_size=16,
        sparse=("click", "id"),
        dense=(DenseSlot(name="d", shape=(1,)),),
    )
    loader = Loader(options, seed=0, shard=DataShard(index=rank, count=world))
    memory = loader.load_into_memory()
    exchange = GroupExchange(distributed.group.WORLD, inputs=loader.inputs)
    memory.shuffle_globally(exchange, seed=1, epoch=0)
    rows = []
    for batch in memory.batches(batch_size=16, start=Cursor()):
        ids = batch.block.ids["id"].values.tolist()
        rows += zip(ids, batch.block.dense["d"].flatten().tolist(), strict=True)
    json.dump(rows, sys.stdout)
    distributed.destroy_process_group()


main()
