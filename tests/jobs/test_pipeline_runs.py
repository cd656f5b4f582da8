import json
import subprocess
import sys

import pytest
import torch

from fleetrec.checkpoint.folder import open_folder
from fleetrec.checkpoint.table_view import open_tables
from fleetrec.checkpoint.tensors import read_tensors
from fleetrec.cli.eval import EvalRequest, evaluate_checkpoint
from fleetrec.cli.train_eval import TrainEvalRequest, train_and_evaluate
from fleetrec.core.errors import ConfigError
from fleetrec.export.done_files import read_models
from fleetrec.export.follower import Follower
from making_pipelines import ALL, MODELS, WIDE_AND_DEEP, model_config, write_data
from making_pipelines import write_pipeline as write

LINEAR = model_config(
    "WideAndDeep",
    "wide_and_deep { dnn { hidden_units: [4] use_bn: false } }",
    groups=WIDE_AND_DEEP,
)
CONSTANT = "learning_rate { constant_learning_rate { learning_rate: 0.01 } }"


@pytest.fixture(scope="session")
def paths(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"), num_train=640, num_eval=200)


def train(path, *, continue_train=False, **request):
    request = TrainEvalRequest(source=str(path), **request)
    train_and_evaluate(request, continue_train=continue_train)


def weights(checkpoint):
    return read_tensors(open_folder(checkpoint, kind="checkpoint"), "model")["model"]


def rows(checkpoint, table):
    found = {}
    for block in open_tables(checkpoint)[f"model/{table}"].blocks():
        found.update(zip(block["ids"].tolist(), block["rows"].tolist(), strict=True))
    return found


def same_weights(one, other):
    first, second = weights(one), weights(other)
    return first.keys() == second.keys() and all(torch.equal(first[n], second[n]) for n in first)


def checkpoints(folder):
    return {int(path.name.removeprefix("model.ckpt-")) for path in folder.glob("model.ckpt-*")}


def test_a_continued_run_equals_an_unbroken_one(tmp_path, paths):
    pipeline = write(tmp_path, LINEAR, paths=paths, num_steps=25)
    train(pipeline)
    train(pipeline, model_dir=str(tmp_path / "parts"), arguments=["--train_config.num_steps=12"])
    train(pipeline, model_dir=str(tmp_path / "parts"), continue_train=True)
    whole, parts = tmp_path / "model" / "model.ckpt-25", tmp_path / "parts" / "model.ckpt-25"
    assert same_weights(whole, parts)
    assert rows(whole, "deep.user") == rows(parts, "deep.user")


def test_new_data_is_continued_with_from_its_beginning(tmp_path, paths):
    pipeline = write(tmp_path, LINEAR, paths=paths, num_steps=10)
    train(pipeline)
    before = rows(tmp_path / "model" / "model.ckpt-10", "deep.user")
    train(
        pipeline,
        continue_train=True,
        train_input_path=[str(paths["eval"])],
        arguments=["--train_config.num_steps", "13"],
    )
    after = rows(tmp_path / "model" / "model.ckpt-13", "deep.user")
    assert after.keys() == before.keys()
    assert after != before


@pytest.mark.parametrize(
    "argument",
    [
        "--train_config.gradient_clipping_by_norm=0.5",
        "--train_config.optimizer_config[0].adam_optimizer.learning_rate"
        ".constant_learning_rate.learning_rate=0.5",
    ],
)
def test_another_learning_rate_or_clipping_begins_the_data_from_its_start(
    tmp_path, paths, capsys, argument
):
    pipeline = write(tmp_path, LINEAR, paths=paths, num_steps=4)
    train(pipeline)
    train(pipeline, continue_train=True, arguments=["--train_config.num_steps=6", argument])
    assert "from the beginning of the data: options or data have changed" in capsys.readouterr().out
    progress = open_folder(tmp_path / "model" / "model.ckpt-6", kind="checkpoint").meta["progress"]
    assert (progress["step"], progress["batch"]) == (6, 2)


def test_a_full_model_folder_is_not_written_over(tmp_path, paths):
    pipeline = write(tmp_path, LINEAR, paths=paths, num_steps=1)
    train(pipeline)
    with pytest.raises(ConfigError, match=r"model\.ckpt-1 of an earlier run.*--continue_train"):
        train(pipeline)


def tf_config(**cluster):
    task = {"type": next(iter(cluster)), "index": 0}
    return json.dumps({"cluster": cluster, "task": task})


def test_what_a_launcher_has_started_cannot_be_asked_for_again(tmp_path, paths, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", tf_config(worker=["127.0.0.1:1", "127.0.0.1:2"]))
    pipeline = write(tmp_path, LINEAR, paths=paths)
    with pytest.raises(ConfigError, match="TF_CONFIG has started the processes"):
        train(pipeline, num_workers=2)
    assert not (tmp_path / "model").exists()


def test_a_chief_alone_is_one_process(tmp_path, paths, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", tf_config(chief=["127.0.0.1:1"]))
    train(write(tmp_path, LINEAR, paths=paths, num_steps=3))
    assert checkpoints(tmp_path / "model") == {0, 3}


def test_servers_that_a_strategy_does_not_use_are_refused(tmp_path, paths, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", tf_config(chief=["127.0.0.1:1"], ps=["127.0.0.1:2"]))
    pipeline = write(tmp_path, LINEAR, paths=paths)
    with pytest.raises(ConfigError, match="TF_CONFIG has started 1 servers"):
        train(pipeline, arguments=["--train_config.train_distribute=HorovodStrategy"])


def test_a_strategy_with_servers_is_refused_without_any(tmp_path, paths, monkeypatch):
    monkeypatch.setenv("HOROVOD_RANK", "0")
    monkeypatch.setenv("HOROVOD_SIZE", "2")
    monkeypatch.setenv("HOROVOD_LOCAL_SIZE", "2")
    pipeline = write(tmp_path, LINEAR, paths=paths)
    with pytest.raises(ConfigError, match="Horovod has started 2 processes without any"):
        train(pipeline, arguments=["--train_config.train_distribute=PSStrategy"])


def test_epochs_end_a_run_before_its_steps(tmp_path, paths):
    pipeline = write(tmp_path, LINEAR, paths=paths, num_steps=100, data_config="num_epochs: 2")
    train(pipeline)
    assert checkpoints(tmp_path / "model") == {0, 20}


def test_only_the_newest_checkpoints_are_kept(tmp_path, paths):
    edits = '{"train_config.save_checkpoints_steps": 3, "train_config.keep_checkpoint_max": 2}'
    pipeline = write(tmp_path, LINEAR, paths=paths, num_steps=10)
    train(pipeline, edit_config_json=edits)
    assert checkpoints(tmp_path / "model") == {9, 10}


def test_checkpoints_by_seconds_leave_the_first_and_the_last(tmp_path, paths):
    text = write(tmp_path, LINEAR, paths=paths, num_steps=5).read_text()
    pipeline = tmp_path / "timed.config"
    pipeline.write_text(text.replace("save_checkpoints_steps: 100", "save_checkpoints_secs: 9999"))
    train(pipeline)
    assert checkpoints(tmp_path / "model") == {0, 5}


def test_the_model_folder_holds_the_pipeline_as_it_was_run(tmp_path, paths):
    pipeline = write(tmp_path, LINEAR, paths=paths, num_steps=1)
    train(pipeline, arguments=["--data_config.batch_size=32"])
    kept = tmp_path / "model" / "pipeline.config"
    assert "batch_size: 32" in kept.read_text()
    train(kept, model_dir=str(tmp_path / "again"))
    assert same_weights(tmp_path / "model" / "model.ckpt-1", tmp_path / "again" / "model.ckpt-1")


def test_fine_tuning_begins_with_the_newest_weights_of_a_folder(tmp_path, paths):
    pipeline = write(tmp_path, LINEAR, paths=paths, num_steps=8)
    train(pipeline)
    train(pipeline, model_dir=str(tmp_path / "tuned"), fine_tune_checkpoint=str(tmp_path / "model"))
    old, new = tmp_path / "model" / "model.ckpt-8", tmp_path / "tuned" / "model.ckpt-0"
    assert same_weights(old, new)
    assert rows(old, "deep.user") == rows(new, "deep.user")


def test_a_map_of_names_carries_a_table_over(tmp_path, paths):
    pipeline = write(tmp_path, LINEAR, paths=paths, num_steps=8)
    train(pipeline)
    renames = tmp_path / "names.txt"
    renames.write_text(
        "input_layer_1/visitor_embedding/embedding_weights\t"
        "input_layer_1/user_embedding/embedding_weights\n"
    )
    text = pipeline.read_text().replace('input_names: "user"', 'feature_name: "visitor" \\0')
    text = text.replace("\\0", 'input_names: "user"').replace('["user",', '["visitor",')
    other = tmp_path / "other.config"
    other.write_text(text)
    train(
        other,
        model_dir=str(tmp_path / "tuned"),
        arguments=[
            f"--train_config.fine_tune_checkpoint={tmp_path}/model/model.ckpt-8",
            f"--train_config.fine_tune_ckpt_var_map={renames}",
        ],
    )
    new = rows(tmp_path / "tuned" / "model.ckpt-0", "deep.visitor")
    assert new == rows(tmp_path / "model" / "model.ckpt-8", "deep.user")


def test_a_map_of_names_that_the_model_lacks_is_refused(tmp_path, paths):
    pipeline = write(tmp_path, LINEAR, paths=paths, num_steps=2)
    train(pipeline)
    renames = tmp_path / "names.txt"
    table = "input_layer_1/user_embedding/embedding_weights"
    renames.write_text(f"{table.replace('user', 'usr')} {table}\n")
    with pytest.raises(ConfigError, match=rf"the model has no .*; did you mean '{table}'"):
        train(
            pipeline,
            model_dir=str(tmp_path / "tuned"),
            fine_tune_checkpoint=str(tmp_path / "model"),
            arguments=[f"--train_config.fine_tune_ckpt_var_map={renames}"],
        )


def test_frozen_variables_do_not_move(tmp_path, paths):
    pipeline = write(tmp_path, LINEAR, paths=paths, num_steps=8)
    frozen = '--train_config.freeze_gradient=["input_layer/user_embedding", "deep_feature"]'
    train(pipeline)
    train(
        pipeline,
        model_dir=str(tmp_path / "tuned"),
        fine_tune_checkpoint=str(tmp_path / "model"),
        arguments=[frozen],
    )
    before, after = tmp_path / "tuned" / "model.ckpt-0", tmp_path / "tuned" / "model.ckpt-8"
    assert rows(before, "wide.user") == rows(after, "wide.user")
    assert rows(before, "deep.user") != rows(after, "deep.user")
    first, second = weights(before), weights(after)
    assert torch.equal(first["mlp.0.0.weight"], second["mlp.0.0.weight"])
    assert not torch.equal(first["out.weight"], second["out.weight"])


def test_a_pattern_that_matches_nothing_is_an_error(tmp_path, paths):
    pipeline = write(tmp_path, LINEAR, paths=paths, num_steps=8)
    with pytest.raises(ConfigError, match=r"no variable matches 'none'; known: .*deep_feature"):
        train(pipeline, arguments=['--train_config.freeze_gradient=["none"]'])


def optimizers(*rates):
    still = "learning_rate { constant_learning_rate { learning_rate: 0 } }"
    return "".join(
        f"optimizer_config {{ adagrad_optimizer {{ {CONSTANT if moves else still} }} }}\n"
        for moves in rates
    )


@pytest.mark.parametrize(
    ("model", "moves", "moved"),
    [
        ("FM", (True, False), {"wide.user", "deep.user"}),
        ("FM", (False, True), {"linear.bias"}),
        ("WideAndDeep", (True, False), {"wide.user"}),
        ("WideAndDeep", (False, True), {"deep.user", "out.weight"}),
        ("WideAndDeep", (False, True, False), {"deep.user"}),
        ("WideAndDeep", (False, False, True), {"out.weight"}),
    ],
)
def test_several_optimizers_move_their_own_variables(tmp_path, paths, model, moves, moved):
    pipeline = write(
        tmp_path, MODELS[model], paths=paths, num_steps=4, train_config=optimizers(*moves)
    )
    # A second run from the weights of the first sees every row from its first checkpoint on.
    train(pipeline)
    tuned = tmp_path / "tuned"
    train(pipeline, model_dir=str(tuned), fine_tune_checkpoint=str(tmp_path / "model"))
    before, after = tuned / "model.ckpt-0", tuned / "model.ckpt-4"
    found = {
        table for table in ("wide.user", "deep.user") if rows(before, table) != rows(after, table)
    }
    first, second = weights(before), weights(after)
    kept = [name for name in ("linear.bias", "out.weight") if name in first]
    found |= {name for name in kept if not torch.equal(first[name], second[name])}
    assert found == moved


def test_three_optimizers_are_for_wide_and_deep(tmp_path, paths):
    pipeline = write(tmp_path, MODELS["FM"], paths=paths, train_config=optimizers(1, 1, 1))
    with pytest.raises(ConfigError, match=r"optimizer_config: FM takes at most 2, got 3"):
        train(pipeline)


def test_eval_evaluates_a_checkpoint_of_a_model_folder(tmp_path, paths):
    train(write(tmp_path, LINEAR, paths=paths, num_steps=8))
    model = tmp_path / "model"
    last = json.loads((model / "eval_result.txt").read_text())
    evaluate_checkpoint(EvalRequest(source=None, model_dir=str(model), result_name="last.txt"))
    assert json.loads((model / "last.txt").read_text()) == last
    request = EvalRequest(
        source=None,
        model_dir=str(model),
        checkpoint=str(model / "model.ckpt-0"),
        result_name="first.txt",
    )
    evaluate_checkpoint(request)
    first = json.loads((model / "first.txt").read_text())
    assert first["global_step"] == 0
    assert first["auc"] < last["auc"]


def test_clipping_bounds_how_far_weights_move(tmp_path, paths):
    descent = (
        "optimizer_config { momentum_optimizer { momentum_optimizer_value: 0 "
        "learning_rate { constant_learning_rate { learning_rate: 1 } } } } "
        "gradient_clipping_by_norm: 0.01"
    )
    train(write(tmp_path, LINEAR, paths=paths, num_steps=1, train_config=descent))
    tuned = tmp_path / "tuned"
    train(
        tmp_path / "pipeline.config",
        model_dir=str(tuned),
        fine_tune_checkpoint=str(tmp_path / "model"),
    )
    before, after = tuned / "model.ckpt-0", tuned / "model.ckpt-1"
    first, second = weights(before), weights(after)
    squares = sum(float((second[name] - first[name]).square().sum()) for name in first)
    for table in (f"{group}.{name}" for group in WIDE_AND_DEEP for name in json.loads(ALL)):
        old, new = rows(before, table), rows(after, table)
        squares += sum((a - b) ** 2 for one in old for a, b in zip(old[one], new[one], strict=True))
    assert squares**0.5 == pytest.approx(0.01, rel=1e-3)


def test_the_commands_run_and_print_variables(tmp_path, paths):
    pipeline = write(tmp_path, LINEAR, paths=paths, num_steps=2)

    def run(*command):
        done = subprocess.run(
            [sys.executable, "-m", *command], capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    out = run(
        "fleetrec.train_eval",
        "--pipeline_config_path",
        pipeline,
        "--train_config.log_step_count_steps",
        "1",
    )
    assert "global step 2: lr = 0.01, " in out
    assert "auc = " in run("fleetrec.eval", "--pipeline_config_path", pipeline)
    names = run("fleetrec", "checkpoint", "vars", tmp_path / "model")
    assert "deep_feature/dnn_0/kernel\t[4, 48]\n" in names
    assert "input_layer/user_embedding/embedding_weights\t[" in names
    assert "input_layer_1/user_embedding/embedding_weights\t[" in names
    events = list((tmp_path / "model").glob("events.out.tfevents.*"))
    assert events


INCREMENTS = "incr_save_config { sparse_save_steps: 4 dense_save_steps: 10 fs {} }"


def served(folder):
    """Return the ids of the bases and of the deltas that a run has published."""
    incr = str(folder / "incr_save")
    return tuple([one.id for one in read_models(incr, kind)] for kind in ("base", "delta"))


def test_increments_are_published_and_continued(tmp_path, paths):
    pipeline = write(tmp_path, LINEAR, paths=paths, num_steps=f"15 {INCREMENTS}")
    train(pipeline)
    assert served(tmp_path / "model") == ([4], [8, 10, 12])
    train(pipeline, continue_train=True, arguments=["--train_config.num_steps=22"])
    assert served(tmp_path / "model") == ([4], [8, 10, 12, 16, 20])
    follower = Follower(tmp_path / "model" / "incr_save")
    assert (follower.version.id, follower.lag_s) == (20, 0)
    found = follower._predictor.num_rows
    tables = open_tables(tmp_path / "model" / "model.ckpt-20").values()
    assert found == sum(table.record.rows for table in tables)


def test_increments_with_full_checkpoints_in_between_lose_no_rows(tmp_path, paths):
    pipeline = write(tmp_path, LINEAR, paths=paths, num_steps=f"12 {INCREMENTS}")
    train(pipeline, arguments=["--train_config.save_checkpoints_steps=3"])
    follower = Follower(tmp_path / "model" / "incr_save")
    checkpoint = tmp_path / "model" / "model.ckpt-12"
    for name, table in open_tables(checkpoint).items():
        own = follower._predictor._tables._tables[name.removeprefix("model/")]
        snapshot = own.snapshot()
        expected = rows(checkpoint, name.removeprefix("model/"))
        assert snapshot["ids"].view("uint64").tolist() == sorted(expected)
        assert table.record.rows == len(expected)
        for one, row in zip(snapshot["ids"].tolist(), snapshot["rows"].tolist(), strict=True):
            assert row == expected[one]
