"""Losses, features and formats that a pipeline may ask for, each as a short run."""

import csv
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fleetrec._native import fingerprint64
from fleetrec.checkpoint.table_view import open_tables
from fleetrec.cli.train_eval import TrainEvalRequest, train_and_evaluate
from fleetrec.core.errors import DataError
from making_pipelines import (
    ALL,
    COLUMNS,
    FEATURES,
    FINAL,
    MODELS,
    USER_AND_ITEM,
    make_rows,
    model_config,
    write_data,
    write_pipeline,
)

DNN = "dnn { hidden_units: [16, 8] }"
TOWER = f"multi_tower {{ towers {{ input: 'all' {DNN} }} {FINAL} }}"


@pytest.fixture(scope="session")
def paths(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"), num_train=1280, num_eval=320)


def train(path, **request):
    train_and_evaluate(TrainEvalRequest(source=str(path), **request), continue_train=False)


def result(folder):
    return json.loads((folder / "model" / "eval_result.txt").read_text())


def num_rows(checkpoint, table):
    return sum(len(block["ids"]) for block in open_tables(checkpoint)[f"model/{table}"].blocks())


def multi_tower(*, more="", features=ALL):
    return model_config("MultiTower", TOWER, groups={"all": features}, more=more)


def test_a_number_is_learnt_by_its_squared_error(tmp_path, paths):
    metrics = "metrics_set { mean_absolute_error {} } metrics_set { mean_squared_error {} }"
    train(
        write_pipeline(
            tmp_path,
            multi_tower(more="loss_type: L2_LOSS"),
            paths=paths,
            labels='"score"',
            eval_config=metrics,
        )
    )
    found = result(tmp_path)
    spread = sum(row[2] ** 2 for row in make_rows(320, seed=11)) / 320
    assert found["mean_squared_error"] < 0.5 * spread
    assert found["loss/loss/l2_loss"] == pytest.approx(found["mean_squared_error"], rel=1e-5)


@pytest.mark.parametrize("loss", ["CLASSIFICATION", "SOFTMAX_CROSS_ENTROPY"])
def test_classes_are_learnt_by_a_softmax(tmp_path, paths, loss):
    train(
        write_pipeline(
            tmp_path,
            multi_tower(more=f"loss_type: {loss} num_class: 2"),
            paths=paths,
            eval_config="metrics_set { accuracy {} } metrics_set { recall_at_topk { topk: 1 } }",
        )
    )
    assert result(tmp_path)["accuracy"] > 0.63
    assert result(tmp_path)["recall@1"] == result(tmp_path)["accuracy"]


def test_users_find_their_item_among_those_of_the_batch(tmp_path):
    """Every user looks at one item only, so that its own is there to be found."""
    rows = [row for row in make_rows(6000, seed=5) if row[4] % 8 == int(row[3][1:]) % 8]
    paths = {}
    for name, chosen in (("train", rows[100:]), ("eval", rows[:100])):
        paths[name] = tmp_path / f"{name}.csv"
        with paths[name].open("w", newline="") as stream:
            csv.writer(stream).writerows(chosen)
    towers = f"dssm {{ user_tower {{ {DNN} }} item_tower {{ {DNN} }} temperature: 0.1 }}"
    train(
        write_pipeline(
            tmp_path,
            model_config(
                "DSSM", towers, groups=USER_AND_ITEM, more="loss_type: SOFTMAX_CROSS_ENTROPY"
            ),
            paths=paths,
            eval_config="metrics_set { recall_at_topk { topk: 10 } }",
        )
    )
    assert result(tmp_path)["recall@10"] > 0.6  # of 64 items; by chance it is 0.16


def test_weights_of_samples_and_rows_that_are_bad(tmp_path, paths):
    text = paths["train"].read_text()
    bad = tmp_path / "train.csv"
    bad.write_text(text + "1,1,0.5,u1,not a number,rome,,0.5,\n")
    files = {**paths, "train": bad}
    model = multi_tower()
    plain = write_pipeline(tmp_path, model, paths=files, num_steps=21)
    with pytest.raises(DataError, match=r"train\.csv:1281: column 'item': 'not a number'"):
        train(plain)
    lenient = write_pipeline(
        tmp_path,
        model,
        paths=files,
        num_steps=21,
        model_dir=tmp_path / "lenient",
        data_config='ignore_error: true sample_weight: "price"',
    )
    train(lenient)
    assert (tmp_path / "lenient" / "model.ckpt-21").is_dir()


def test_lines_may_name_their_columns_and_be_parted_by_any_byte(tmp_path):
    paths = {}
    for name in ("train", "eval"):
        paths[name] = tmp_path / f"{name}.csv"
        lines = [COLUMNS[::-1], *(row[::-1] for row in make_rows(200, seed=3))]
        paths[name].write_text("".join("\x01".join(map(str, line)) + "\n" for line in lines))
    train(
        write_pipeline(
            tmp_path,
            multi_tower(),
            paths=paths,
            num_steps=2,
            data_config=r'with_header: true separator: "\001"',
        )
    )
    assert num_rows(tmp_path / "model" / "model.ckpt-2", "all.user") > 20


def test_lists_of_parquet_are_tags_and_sequences(tmp_path):
    paths = {}
    for name in ("train", "eval"):
        rows = [list(row) for row in make_rows(200, seed=3)]
        for row in rows:
            row[6] = [tag.partition(":")[0] for tag in row[6].split("|") if tag]
            row[8] = [int(one) for one in row[8].split("|") if one]
        paths[name] = tmp_path / f"{name}.parquet"
        columns = zip(*rows, strict=True)
        pq.write_table(pa.table(dict(zip(COLUMNS, columns, strict=True))), paths[name])
    features = FEATURES.replace('kv_separator: ":"', "")
    model = multi_tower(features='["tags", "history", "item"]')
    buckets = {fingerprint64(f"t{number}") % 50 for number in range(9)}
    train(write_pipeline(tmp_path, model, paths=paths, features=features, num_steps=4))
    assert num_rows(tmp_path / "model" / "model.ckpt-4", "all.tags") == len(buckets)


def test_tables_grow_are_shared_and_scaled_by_numbers(tmp_path, paths):
    features = """
    feature_configs { input_names: "user" embedding_dim: 4 ev_params { filter_freq: 2 } }
    feature_configs { input_names: "item" num_buckets: 100 embedding_dim: 4 embedding_name: "i" }
    feature_configs {
      input_names: "history" feature_type: TagFeature num_buckets: 100 embedding_dim: 4
      embedding_name: "i" combiner: "sqrtn"
    }
    feature_configs { input_names: "price" feature_type: RawFeature embedding_dim: 4 }
    feature_configs {
      feature_name: "price_step" input_names: "price" feature_type: RawFeature embedding_dim: 4
      min_val: 0 max_val: 1 num_buckets: 5
    }
    """
    names = '["user", "item", "history", "price", "price_step"]'
    model = multi_tower(features=names)
    train(write_pipeline(tmp_path, model, paths=paths, features=features))
    checkpoint = tmp_path / "model" / "model.ckpt-200"
    tables = open_tables(checkpoint)
    assert {name.removeprefix("model/") for name in tables} == {
        "all.user",
        "i",
        "all.price",
        "all.price_step",
    }
    assert num_rows(checkpoint, "i") == 60
    assert num_rows(checkpoint, "all.price") == 1
    assert num_rows(checkpoint, "all.price_step") == 5
    assert tables["model/all.user"].record.identity.num_rows is None
    assert result(tmp_path)["auc"] > 0.7


def test_curves_are_written_for_tensorboard(tmp_path, paths):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    edits = ["--train_config.save_summary_steps=5", "--train_config.save_checkpoints_steps=10"]
    pipeline = write_pipeline(tmp_path, MODELS["FM"], paths=paths, num_steps=20)
    train(pipeline, arguments=edits)
    found = {}
    for folder in ("model", "model/eval_val"):
        events = EventAccumulator(str(tmp_path / folder)).Reload()
        found[folder] = {
            tag: [e.step for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]
        }
    assert found["model"]["lr"] == [5, 10, 15, 20]
    assert found["model"]["LOSS"] == [5, 10, 15, 20]
    assert found["model/eval_val"]["auc"] == [10, 20]


def test_without_tensorboard_a_run_says_what_to_install(tmp_path, paths, monkeypatch, caplog):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    train(write_pipeline(tmp_path, MODELS["FM"], paths=paths, num_steps=1))
    assert "pip install 'fleetrec[tensorboard]'" in caplog.text
    assert not list((tmp_path / "model").glob("events*"))
