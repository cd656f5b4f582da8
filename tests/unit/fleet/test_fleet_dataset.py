"""Data sets as programs of the Fleet API describe them."""

import pytest

from fleetrec.core.cursor import Cursor
from fleetrec.core.errors import ConfigError
from fleetrec.fleet import DatasetFactory, InMemoryDataset, QueueDataset, data
from fleetrec.fleet.fleet import Fleet

NUM_ROWS = 60


@pytest.fixture
def paths(tmp_path):
    """Two files of wire text: a number, an id, a label."""
    rows = [f"1 {row}.5 1 {row} 1 {row % 2}\n" for row in range(NUM_ROWS)]
    for index in range(2):
        (tmp_path / f"part-{index}").write_text("".join(rows[index::2]))
    return [str(tmp_path / f"part-{index}") for index in range(2)]


def described(dataset, paths, **more):
    dataset.set_use_var(
        [
            data("price", [-1, 1]),
            data("item", [1], dtype="int64", lod_level=1),
            data("label", [1], dtype="int64"),
        ]
    )
    dataset.set_filelist(paths)
    dataset.set_batch_size(8)
    dataset.set_thread(2)
    return dataset


def items(dataset):
    with dataset.loader(seed=0).epoch(0, start=Cursor()) as batches:
        return [item for batch in batches for item in batch.ids["item"].values.tolist()]


def test_variables_become_features(paths):
    inputs = described(QueueDataset(), paths).inputs
    assert inputs.sparse == ("item", "label")
    assert inputs.dense == {"price": (1,)}


def test_a_dtype_other_than_int64_and_float32_is_refused():
    with pytest.raises(
        ConfigError, match=r"variable age: expected dtype 'int64' .* 'float32' .*, got 'int32'"
    ):
        data("age", [1], dtype="int32")


def test_a_queue_reads_all_files_by_turns(paths):
    found = items(described(QueueDataset(), paths))
    assert sorted(found) == list(range(NUM_ROWS))
    assert found[:8] == list(range(0, 16, 2))


def test_files_go_through_a_program(paths):
    dataset = described(DatasetFactory().create_dataset(), paths)
    dataset.set_pipe_command("sed 's/^1 [0-9]*/1 0/; s/ 1 \\([0-9]*\\) / 1 7\\1 /'")
    assert sorted(items(dataset))[0] == 70


def test_samples_in_memory_keep_their_order_until_they_are_shuffled(paths):
    dataset = described(InMemoryDataset(), paths)
    dataset.load_into_memory()
    assert dataset.get_memory_data_size() == NUM_ROWS
    straight = items(dataset)
    assert items(dataset) == straight
    dataset.local_shuffle()
    shuffled = items(dataset)
    assert sorted(shuffled) == sorted(straight) != shuffled
    dataset.global_shuffle(Fleet())  # a fleet of one
    assert sorted(items(dataset)) == sorted(straight)
    dataset.release_memory()
    with pytest.raises(RuntimeError, match="call load_into_memory first"):
        dataset.local_shuffle()


def test_the_next_files_are_read_while_those_before_stay(paths):
    dataset = described(InMemoryDataset(), paths[:1])
    dataset.load_into_memory()
    dataset.set_filelist(paths[1:])
    dataset.preload_into_memory()
    with pytest.raises(RuntimeError, match="call wait_preload_done before"):
        dataset.preload_into_memory()
    assert sorted(items(dataset)) == list(range(0, NUM_ROWS, 2))
    dataset.wait_preload_done()
    assert sorted(items(dataset)) == list(range(1, NUM_ROWS, 2))
    with pytest.raises(RuntimeError, match="call preload_into_memory first"):
        dataset.wait_preload_done()


def test_the_same_shuffles_give_the_same_order(paths):
    orders = []
    for _ in range(2):
        dataset = described(InMemoryDataset(), paths)
        dataset.load_into_memory()
        dataset.local_shuffle()
        orders.append(items(dataset))
    assert orders[0] == orders[1]


def test_dense_variables_come_first():
    label, price = data("label", [1], dtype="int64"), data("price", [1])
    with pytest.raises(ConfigError, match=r"dense variables .* must precede"):
        QueueDataset().set_use_var([label, price])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: data("x", [1], lod_level=1), "lod_level 1 is for int64, not float32"),
        (lambda: data("x", [0]), r"expected positive sizes, got shape \[0\]"),
        (lambda: DatasetFactory().create_dataset("FileDataset"), "known: QueueDataset, InMemory"),
        (lambda: QueueDataset().options(), "no variables; call set_use_var"),
    ],
)
def test_what_cannot_be_is_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
