"""The keys of the dialect in all the spellings that job files use."""

import pytest
from pydantic import ValidationError

from fleetrec.config.yaml_dialect.schema import (
    Dataset,
    OptimizerKeys,
    Phase,
    Runner,
    TopLevel,
    dense_shape,
)

ALIASES = [
    "train",
    "single_train",
    "infer",
    "single_infer",
    "local_cluster",
    "local_cluster_train",
    "cluster",
    "cluster_train",
]


def make_runner(**keys):
    return Runner.model_validate({"name": "r", "class": "train", **keys})


def make_dataset(**keys):
    return Dataset.model_validate({"name": "d", "type": "DataLoader", "data_path": "x", **keys})


def message(make, **keys):
    with pytest.raises(ValidationError) as caught:
        make(**keys)
    return str(caught.value)


@pytest.mark.parametrize("spelling", ALIASES)
def test_every_class_of_a_runner_is_known_in_any_case(spelling):
    assert make_runner(**{"class": spelling}).runner_class == spelling
    assert make_runner(**{"class": spelling.upper()}).runner_class == spelling


@pytest.mark.parametrize(
    ("written", "gpus"),
    [
        (0, (0,)),
        (3, (3,)),
        ("0", (0,)),
        ("0,1", (0, 1)),
        (" 0 , 2 ", (0, 2)),
        ([0, 1], (0, 1)),
        (["0", "1"], (0, 1)),
    ],
)
def test_selected_gpus_may_be_a_number_a_text_or_a_list(written, gpus):
    assert make_runner(selected_gpus=written).selected_gpus == gpus


@pytest.mark.parametrize("written", ["", "0,", "a", "0 1", -1, "-1", [], 0.5])
def test_selected_gpus_that_name_no_gpu_are_refused(written):
    assert "selected_gpus" in message(make_runner, selected_gpus=written)


def test_less_exact_products_are_for_the_cpu():
    assert make_runner(matmul_precision="HIGH").matmul_precision == "high"
    assert "matmul_precision" in message(make_runner, matmul_precision="low")
    assert "device: cpu" in message(make_runner, matmul_precision="high", device="gpu")


def test_phases_may_be_one_name_or_a_list():
    assert make_runner(phases="p1").phases == ("p1",)
    assert make_runner(phases=["p1", "p2"]).phases == ("p1", "p2")
    assert make_runner().phases == ()


def test_words_that_are_not_paths_are_read_in_any_case():
    runner = make_runner(device="GPU", fleet_mode="PS")
    assert (runner.device, runner.fleet_mode) == ("gpu", "ps")


def test_an_empty_path_is_no_path():
    runner = make_runner(init_model_path="", save_checkpoint_path=None)
    assert runner.init_model_path is None
    assert runner.save_checkpoint_path is None


def test_backslashes_in_paths_become_slashes():
    assert make_runner(save_checkpoint_path="a\\b").save_checkpoint_path == "a/b"
    assert make_dataset(data_path="a\\b").data_path == "a/b"


def test_a_runner_has_the_documented_defaults():
    runner = make_runner()
    assert runner.device == "cpu"
    assert runner.selected_gpus == (0,)
    assert runner.distribute_strategy == "async"
    assert (runner.worker_num, runner.server_num) == (1, 1)
    assert (runner.save_checkpoint_interval, runner.save_step_interval) == (-1, -1)
    assert runner.print_interval == 20


@pytest.mark.parametrize(
    "keys",
    [
        {"epochs": 0},
        {"epochs": 1.5},
        {"epochs": "two"},
        {"worker_num": 0},
        {"print_interval": 0},
        {"save_checkpoint_interval": -2},
        {"device": "tpu"},
        {"name": "a/b"},
        {"name": ".."},
        {"name": ""},
        {"seed": -1},
        {"distribute_strategy": "ASYNC"},
    ],
)
def test_a_runner_that_makes_no_sense_is_refused(keys):
    assert next(iter(keys)) in message(make_runner, **keys)


@pytest.mark.parametrize(
    ("slot", "shape"),
    [
        ("d:13", ("d", (13,))),
        ("d:3,28,28", ("d", (3, 28, 28))),
        ("d:[3,28,28]", ("d", (3, 28, 28))),
        ("d:[7]", ("d", (7,))),
        ("größe:1", ("größe", (1,))),
    ],
)
def test_a_dense_slot_has_a_shape(slot, shape):
    assert dense_shape(slot) == shape


@pytest.mark.parametrize(
    "slot", ["d", "d:", ":13", "d:x", "d:-1", "d:[3", "d:3]", "d:[[3]]", "d:1,,2", "d:1.5", "a:b:3"]
)
def test_a_dense_slot_without_a_shape_is_refused(slot):
    with pytest.raises(ValueError, match="expected name:width or name"):
        dense_shape(slot)


def test_slots_are_separated_by_blanks():
    dataset = make_dataset(sparse_slots="click 1  2\t3", dense_slots="d:2 e:[1,2]")
    assert dataset.sparse_slots == ("click", "1", "2", "3")
    assert dataset.dense_slots == ("d:2", "e:[1,2]")


def test_slots_may_be_a_list_or_a_single_number():
    assert make_dataset(sparse_slots=["click", 1]).sparse_slots == ("click", "1")
    assert make_dataset(sparse_slots=5).sparse_slots == ("5",)


def test_a_sparse_slot_with_a_colon_is_refused():
    assert "expected names without a colon, not 'a:1'" in message(
        make_dataset, sparse_slots="click a:1"
    )


@pytest.mark.parametrize("padding", [0, -1, 7, 2**63 - 1, -(2**63)])
def test_padding_is_any_id(padding):
    assert make_dataset(padding=padding).padding == padding


@pytest.mark.parametrize(
    "keys",
    [
        {"batch_size": 0},
        {"batch_size": "many"},
        {"type": "dataloader"},
        {"padding": 2**63},
        {"dense_slots": "d"},
        {"batchsize": 3},
    ],
)
def test_a_data_set_that_makes_no_sense_is_refused(keys):
    assert next(iter(keys)) in message(make_dataset, **keys)


@pytest.mark.parametrize("written", [0.001, "1e-3", "0.001", "1.0e-3"])
def test_a_learning_rate_may_be_a_number_or_a_text(written):
    assert OptimizerKeys.model_validate({"learning_rate": written}).learning_rate == 0.001


@pytest.mark.parametrize("written", [0, -1, "fast", float("nan"), float("inf"), "inf"])
def test_a_learning_rate_that_cannot_learn_is_refused(written):
    assert "learning_rate" in message(OptimizerKeys.model_validate, obj={"learning_rate": written})


@pytest.mark.parametrize("slot", ["d:0", "d:3,0", f"d:{10**20}"])
def test_a_dense_slot_has_a_width_that_can_be(slot):
    with pytest.raises(ValueError, match="a dense slot is 1 to 16777216 wide"):
        dense_shape(slot)


def test_a_key_with_nothing_behind_it_counts_as_left_out():
    assert OptimizerKeys.model_validate({"learning_rate": None}).learning_rate == 0.001


@pytest.mark.parametrize("key", ["epochs", "worker_num", "print_interval"])
def test_yes_is_no_number(key):
    runner = {"name": "a", "class": "train", key: True}
    assert "expected a whole number" in message(Runner.model_validate, obj=runner)


@pytest.mark.parametrize("written", ["Adam", "SGD", "AdaGrad"])
def test_an_optimizer_is_known_in_any_case(written):
    assert OptimizerKeys.model_validate({"class": written}).optimizer_class == written.lower()


@pytest.mark.parametrize("written", [0, 1, 2])
def test_gradient_scale_strategies_are_numbers(written):
    phase = {"name": "p", "model": "m", "dataset_name": "d", "gradient_scale_strategy": written}
    assert Phase.model_validate(phase).gradient_scale_strategy == written


def test_mode_may_be_one_name_or_a_list():
    rest = {"runner": [{}], "phase": [{}], "dataset": [{}]}
    assert TopLevel.model_validate({"mode": "a", **rest}).mode == ("a",)
    assert TopLevel.model_validate({"mode": ["a", "b"], **rest}).mode == ("a", "b")
