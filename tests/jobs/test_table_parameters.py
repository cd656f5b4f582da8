"""``table_parameters`` change the tables of a model that knows nothing of them."""

import json
from pathlib import Path

import pytest

from fleetrec.checkpoint.folder import open_folder
from fleetrec.cli.online import online_command
from fleetrec.cli.run import RunRequest
from fleetrec.core.errors import ConfigError
from making import columns_of, make_data, make_job, run, tables_of, write_job
from making_online import make_days, write_online_job

ACCESSOR = {
    "accessor": {
        "embedx_dim": 3,
        "embedx_threshold": 8,
        "embedx_sgd_param": {
            "name": "SparseAdaGradSGDRule",
            "adagrad": {"learning_rate": 0.5, "weight_bounds": [-0.5, 0.5]},
        },
        "ctr_accessor_param": {
            "nonclk_coeff": 0.25,
            "show_click_decay_rate": 0.7,
            "delete_threshold": 2,
        },
    }
}


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def train(*overrides, epochs=2, resume=False, **table_parameters):
    data = Path("data")
    if not data.exists():
        make_data(data, num_samples=100)
    job = make_job(data, epochs=epochs) | {"table_parameters": table_parameters}
    job["hyper_parameters"]["distributed_embedding"] = 1
    run(write_job(job, Path("config.yaml")), *overrides, resume=resume)


def rows_of(checkpoint):
    ((_, _, stored),) = tables_of(Path(checkpoint))
    return columns_of(stored), stored.record


def test_the_rules_of_an_accessor_hold_for_a_model_of_the_zoo():
    train(SparseFeatFactors=ACCESSOR)
    columns, record = rows_of("ckpt/1")
    assert record.identity.admission["kind"] == "ctr"
    assert record.identity.optimizer == "ctr_adagrad"
    assert record.evicted_score > 0
    scores = 0.25 * (columns["shows"] - columns["clicks"]) + columns["clicks"]
    assert scores.min() >= 2
    is_long = (columns["rows"][:, 1:] != 0).any(axis=1)
    assert is_long[scores >= 8].all()
    assert not is_long.all()
    assert abs(columns["rows"]).max() <= 0.5


def test_a_default_is_for_tables_without_an_entry():
    train(default={"entry": "count_filter_entry:3", "eviction": {"max_rows": 10}})
    columns, record = rows_of("ckpt/1")
    assert len(columns["ids"]) == record.rows == 10
    assert record.identity.admission["kind"] == "count"


def test_a_resumed_run_has_the_same_rows():
    train(epochs=3, SparseFeatFactors=ACCESSOR)
    expected, _ = rows_of("ckpt/2")
    other = "runner.train.save_checkpoint_path=other"
    train(other, epochs=2, SparseFeatFactors=ACCESSOR)
    train(other, epochs=3, SparseFeatFactors=ACCESSOR, resume=True)
    found, _ = rows_of("other/2")
    assert found.keys() == expected.keys()
    for name, column in expected.items():
        if name != "counts":
            assert (found[name] == column).all(), name


def test_an_unknown_table_is_named_with_those_of_the_model():
    with pytest.raises(ConfigError) as caught:
        train(SparseFeatFactor=ACCESSOR)
    (problem,) = caught.value.problems
    assert "table_parameters.SparseFeatFactor: the model has no such table" in problem
    assert "(its tables: SparseFeatFactors); did you mean 'SparseFeatFactors'?" in problem


def test_keys_without_a_counterpart_are_noticed(capsys):
    train(epochs=1, default={"table_class": "MemorySparseTable", "shard_num": 10})
    printed = capsys.readouterr()
    assert "table_class, shard_num have no effect here" in printed.out + printed.err


def test_clicks_are_counted_where_an_entry_names_them():
    train(epochs=1, default={"entry": "show_click_entry:show:click"})
    columns, _ = rows_of("ckpt/0")
    assert columns["clicks"].sum() > 0
    with pytest.raises(ConfigError, match=r"by a label of the model \(click\), got like"):
        train(epochs=1, default={"entry": "show_click_entry:show:like"})


def test_metrics_have_the_figures_by_rule():
    train(SparseFeatFactors=ACCESSOR)
    (path,) = Path("logs").rglob("metrics.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    stats = [line["tables"]["SparseFeatFactors"] for line in lines if line["event"] == "pass"][-1]
    by_rule = [stats[f"evicted_{rule}"] for rule in ("unseen", "score", "capacity")]
    assert sum(by_rule) == stats["evicted"] > 0


def online(config, **table):
    online_command(
        RunRequest(
            model=str(config),
            overrides=[f"table_parameters.default.accessor={json.dumps(table)}"],
        )
    )


def test_an_online_run_ages_rows_by_days_and_serves_those_of_high_score(tmp_path):
    """Every sample has an id of its own, which is seen once, on one of two days."""
    config = write_online_job(tmp_path, make_days(tmp_path / "data"))
    rules = {"delete_threshold": 0.0, "show_click_decay_rate": 0.5, "base_threshold": 1.5}
    online(config, ctr_accessor_param={**rules, "nonclk_coeff": 1, "delete_after_unseen_days": 9})
    columns, record = rows_of("model/20261118/0")
    single = columns["ids"] >= 1_000_000
    assert record.evicted == 0
    assert set(columns["shows"][single].tolist()) == {0.25, 0.5}  # decayed once a day
    scores = columns["shows"]
    (entry,) = open_folder("model/20261118/base", kind="inference model").meta["tables"].values()
    assert entry["num_rows"] == (scores >= 1.5).sum() < len(scores)
