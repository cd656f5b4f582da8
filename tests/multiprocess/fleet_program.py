"""A program of the Fleet API that does everything once: ``fleet_program.py train|reload``."""

import json
import sys

import torch
from torch import nn

from fleetrec import fleet
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.table import TableConfig
from fleetrec.models import base
from fleetrec.tasks.binary import BinaryTask


class Clicks(base.Model):
    def __init__(self):
        super().__init__(tasks=[BinaryTask(label="click")])
        self.embeddings = EmbeddingCollection(
            features=[EmbeddedFeature(feature="item", table="items")],
            tables=[TableConfig(name="items", dim=4)],
        )
        self.out = nn.Linear(4 + 1, 1)

    def forward(self, batch):
        x_BD = torch.cat([self.embeddings(batch).cat(), batch.dense["price"]], dim=1)
        logit_B = self.out(x_BD).squeeze(1)
        return {"logit": logit_B, "predict": torch.sigmoid(logit_B)}


def make_dataset(name):
    dataset = fleet.DatasetFactory().create_dataset(name)
    dataset.set_use_var(
        [
            fleet.data("price", [1]),
            fleet.data("item", [1], dtype="int64", lod_level=1),
            fleet.data("click", [1], dtype="int64"),
        ]
    )
    dataset.set_batch_size(20)
    dataset.set_filelist(fleet.util.get_file_shard([f"data/part-{i}" for i in range(3)]))
    return dataset


def items_of(dataset):
    with dataset.loader(seed=0).epoch(0) as batches:
        return [item for batch in batches for item in batch.ids["item"].values.tolist()]


def train(program):
    memory = make_dataset("InMemoryDataset")
    memory.load_into_memory()
    before = items_of(memory)
    memory.global_shuffle(fleet)
    told = {"before": before, "after": items_of(memory)}
    told["sum"] = fleet.util.all_reduce(fleet.worker_index() + 1)
    told["all"] = fleet.util.all_gather(float(fleet.worker_index()))
    for _ in range(2):
        told["train"] = fleet.train_from_dataset(program, memory)
    told["infer"] = fleet.infer_from_dataset(program, make_dataset("QueueDataset"))
    fleet.save_persistables(program, "model")
    fleet.save_inference_model(program, "inference", ["price", "item"], ["predict"])
    fleet.shrink(program)
    memory.release_memory()
    return told


def reload(program):
    told = {"first": fleet.infer_from_dataset(program, make_dataset("QueueDataset"))}
    fleet.save_persistables(program, "rows_only")
    fleet.barrier_worker()
    fleet.load_model(program, "model")
    told["infer"] = fleet.infer_from_dataset(program, make_dataset("QueueDataset"))
    return told


def main(what):
    torch.manual_seed(0 if what == "train" else 1)
    fleet.init()
    strategy = fleet.StrategyFactory.create_sync_strategy()
    optimizer = fleet.distributed_optimizer(fleet.Adam(learning_rate=0.05), strategy)
    program = optimizer.minimize(Clicks())
    if fleet.is_server():
        fleet.init_server("model" if what == "reload" else None)
        fleet.run_server()
        return
    fleet.init_worker()
    told = train(program) if what == "train" else reload(program)
    fleet.stop_worker()
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
