"""Programs that train in this process alone."""

import re

import numpy as np
import pytest

from fleetrec import fluid
from fleetrec.core.errors import ConfigError, UnavailableError
from fleetrec.export.predictor import Predictor

L = fluid.layers


def write_clicks(path, num_rows=200):
    lines = [f"1 {row % 5} 1 {row % 20} 1 {int(row % 20 % 3 == 0)}\n" for row in range(num_rows)]
    path.write_text("".join(lines))


def record(tmp_path, kind="QueueDataset", *, seed=0):
    """Record a click model; returns its data set, loss, AUCs and prediction."""
    price = L.data("price", [1])
    item = L.data("item", [1], dtype="int64", lod_level=1)
    click = L.data("click", [1], dtype="int64")
    vector = L.sequence_pool(L.embedding(item, [20, 4], param_attr="items"), "sum")
    predict = L.fc(L.concat([vector, price], axis=1), size=2, act="softmax")
    loss = L.mean(L.cross_entropy(predict, click))
    auc, batch_auc, _ = L.auc(predict, click)
    fluid.default_main_program().random_seed = seed
    write_clicks(tmp_path / "part")
    dataset = fluid.DatasetFactory().create_dataset(kind)
    dataset.set_use_var([price, item, click])
    dataset.set_filelist([str(tmp_path / "part")])
    dataset.set_batch_size(20)
    return dataset, loss, auc, batch_auc, predict


def start():
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    return exe


@pytest.mark.parametrize(
    "optimizer",
    [
        fluid.optimizer.Adam(learning_rate=0.05),
        fluid.optimizer.AdamOptimizer(0.05, beta1=0.8, lazy_mode=True),
        fluid.optimizer.SGD(learning_rate=1.0),
        fluid.optimizer.Momentum(learning_rate=0.3, momentum=0.9),
        fluid.optimizer.Adagrad(learning_rate=0.3),
    ],
    ids=lambda optimizer: f"{type(optimizer).__name__}-{optimizer.for_fleet.options.name}",
)
def test_a_program_learns(tmp_path, optimizer):
    dataset, loss, *_ = record(tmp_path)
    optimizer.minimize(loss)
    exe = start()
    for _ in range(10):
        metrics = exe.train_from_dataset(dataset=dataset)
    assert metrics["AUC"] > 0.95


def test_fetched_variables_are_printed(tmp_path, capsys):
    dataset, loss, auc, batch_auc, _ = record(tmp_path)
    fluid.optimizer.Adam(0.05).minimize(loss)
    metrics = start().train_from_dataset(
        fluid.default_main_program(),
        dataset,
        fetch_list=[auc, batch_auc, loss],
        fetch_info=["auc", "recent", "loss"],
        print_period=5,
    )
    first, *_, last = capsys.readouterr().out.splitlines()
    number = r"[\d.]+"
    assert re.fullmatch(f"batch 5, auc: {number}, recent: {number}, loss: {number}, .*", first)
    assert re.fullmatch(f"pass 0 done, auc: {number}, loss: {number}, .*", last)
    assert metrics[loss.name] == pytest.approx(metrics["LOSS"])
    assert metrics["LOGLOSS"] == pytest.approx(metrics["LOSS"], rel=1e-4)


def test_what_cannot_be_fetched_is_refused_with_what_can(tmp_path):
    dataset, loss, auc, _, predict = record(tmp_path)
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = start()
    with pytest.raises(ConfigError, match=rf"fetch_list: {predict.name}: .* {loss.name}"):
        exe.train_from_dataset(dataset=dataset, fetch_list=[predict])
    with pytest.raises(ConfigError, match="the model is built already"):
        L.mean(predict)
    with pytest.raises(ConfigError, match="is a metric, which only can be fetched"):
        L.scale(auc, 2.0)


def test_the_startup_program_sets_the_first_weights_again(tmp_path):
    dataset, loss, *_ = record(tmp_path)
    fluid.optimizer.Adam(0.05).minimize(loss)
    exe = start()
    first = exe.infer_from_dataset(dataset=dataset)
    exe.train_from_dataset(dataset=dataset)
    assert exe.infer_from_dataset(dataset=dataset) != first
    exe.run(fluid.default_startup_program())
    assert exe.infer_from_dataset(dataset=dataset) == first


def test_a_saved_program_is_loaded_by_another(tmp_path):
    dataset, loss, *_ = record(tmp_path)
    fluid.optimizer.Adam(0.05).minimize(loss)
    exe = start()
    exe.train_from_dataset(dataset=dataset)
    expected = exe.infer_from_dataset(dataset=dataset)
    fluid.io.save_persistables(exe, str(tmp_path / "model"))
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        other, loss, *_ = record(tmp_path, seed=1)
        fluid.optimizer.Adam(0.05).minimize(loss)
        exe = start()
        assert exe.infer_from_dataset(dataset=other) != expected
        fluid.io.load_persistables(exe, str(tmp_path / "model"))
        assert exe.infer_from_dataset(dataset=other) == expected


@pytest.mark.slow
def test_an_inference_model_predicts(tmp_path):
    dataset, loss, _, _, predict = record(tmp_path)
    fluid.optimizer.Adam(0.05).minimize(loss)
    exe = start()
    for _ in range(10):
        exe.train_from_dataset(dataset=dataset)
    fluid.io.save_inference_model(str(tmp_path / "model"), ["price", "item"], [predict], exe)
    found = Predictor(str(tmp_path / "model")).predict(
        {"price": np.zeros((2, 1), np.float32), "item": [[3], [4]]}
    )
    clicked, other = found[predict.name][:, 1]
    assert clicked > 0.5 > other


def test_samples_in_memory_are_shuffled(tmp_path):
    dataset, loss, *_ = record(tmp_path, "InMemoryDataset")
    dataset.load_into_memory()
    dataset.local_shuffle()
    dataset.global_shuffle()
    assert dataset.get_memory_data_size() == 200
    fluid.optimizer.SGD(0.1).minimize(loss)
    assert start().train_from_dataset(dataset=dataset)["SAMPLES"] == 200


def test_mistakes_are_named(tmp_path):
    dataset, loss, _, _, predict = record(tmp_path)
    exe = fluid.Executor(fluid.CPUPlace())
    with pytest.raises(ConfigError, match=r"the program has no loss; call optimizer\.minimize"):
        exe.train_from_dataset(dataset=dataset)
    with pytest.raises(ConfigError, match=r"expected a loss of shape \[1\], got softmax_0"):
        fluid.optimizer.SGD(0.1).minimize(predict)
    with pytest.raises(ConfigError, match="expected a variable, the loss, got a float"):
        fluid.optimizer.SGD(0.1).minimize(0.5)
    fluid.optimizer.SGD(0.1).minimize(loss)
    with pytest.raises(ConfigError, match="the program is minimized already"):
        fluid.optimizer.SGD(0.1).minimize(loss)
    with pytest.raises(ConfigError, match=r"expected a dataset of fluid\.DatasetFactory"):
        exe.train_from_dataset()
    with pytest.raises(UnavailableError, match="only startup programs"):
        exe.run(feed={})
    with pytest.raises(UnavailableError, match="use_nesterov=True"):
        fluid.optimizer.Momentum(0.1, 0.9, use_nesterov=True)
    with pytest.raises(UnavailableError, match="regularization=1"):
        fluid.optimizer.SGD(0.1, regularization=1)
    dataset.set_use_var([fluid.default_main_program().variables["price"]])
    with pytest.raises(ConfigError, match="the model needs click, item too"):
        exe.train_from_dataset(dataset=dataset)


def test_optimizers_that_update_rows_alone_warn_of_dense_tables(tmp_path, caplog):
    _, loss, *_ = record(tmp_path)
    fluid.optimizer.Adam(0.1).minimize(loss)
    assert "items: is_sparse=False has no effect" in caplog.text
