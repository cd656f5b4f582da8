"""Samples in memory are shuffled as a whole, dealt between workers, and given back."""

import dataclasses
import threading

import pytest

from fleetrec.config.job import DatasetOptions
from fleetrec.core.cursor import Cursor
from fleetrec.data.loader import Loader
from fleetrec.data.memory import MemoryRows
from fleetrec.data.plan import DataShard

NUM_ROWS = 300


@pytest.fixture
def folder(tmp_path):
    lines = [f"click:0 id:{row}" for row in range(NUM_ROWS)]
    (tmp_path / "part").write_text("\n".join(lines))
    return tmp_path


def make_memory(folder, *, index=0, count=1) -> MemoryRows:
    options = DatasetOptions(
        name="rows",
        kind="InMemoryDataset",
        data_path=folder,
        batch_size=16,
        sparse=("click", "id"),
    )
    return Loader(options, seed=0, shard=DataShard(index=index, count=count)).load_into_memory()


def ids(memory):
    batches = memory.batches(batch_size=16, start=Cursor())
    return [i for batch in batches for i in batch.block.ids["id"].values.tolist()]


def test_memory_holds_all_samples(folder):
    memory = make_memory(folder)
    assert len(memory) == NUM_ROWS
    assert ids(memory) == list(range(NUM_ROWS))
    assert memory.num_bytes >= NUM_ROWS * 2 * 8


def test_shuffling_is_fixed_by_seed_and_epoch(folder):
    memory = make_memory(folder)
    memory.shuffle(seed=1, epoch=0)
    first = ids(memory)
    memory.shuffle(seed=1, epoch=1)
    assert sorted(ids(memory)) == sorted(first) != first
    assert ids(memory) != first


def test_released_memory_is_empty(folder):
    memory = make_memory(folder)
    memory.release()
    assert len(memory) == 0
    assert ids(memory) == []
    assert memory.num_bytes == 0


@dataclasses.dataclass
class ThreadExchange:
    """Workers that are threads of one process."""

    index: int
    count: int
    table: dict
    barrier: threading.Barrier

    def all_to_all(self, blocks):
        self.table[self.index] = blocks
        self.barrier.wait()
        return [self.table[i][self.index] for i in range(self.count)]


def test_a_global_shuffle_deals_every_sample_to_one_worker(folder):
    count = 3
    memories = [make_memory(folder, index=i, count=count) for i in range(count)]
    before = [set(ids(memory)) for memory in memories]
    table, barrier = {}, threading.Barrier(count)

    def deal(i):
        exchange = ThreadExchange(i, count, table, barrier)
        memories[i].shuffle_globally(exchange, seed=5, epoch=2)

    threads = [threading.Thread(target=deal, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = [ids(memory) for memory in memories]
    assert sorted(row for share in after for row in share) == list(range(NUM_ROWS))
    assert all(
        len(set(share) & rows) < len(share) for share, rows in zip(after, before, strict=True)
    )
