import json
from pathlib import Path

import pytest

from fleetrec.cli.plan import PlanRequest, show_plan
from fleetrec.core.errors import ConfigError, UnavailableError
from making import make_data, make_job, write_job
from making_pipelines import MODELS, write_data, write_pipeline


@pytest.fixture
def job(tmp_path):
    return write_job(make_job(make_data(tmp_path / "data", num_samples=400)), tmp_path / "job.yaml")


def request(config: Path, *, num_ranks: int = 4, **changes) -> PlanRequest:
    given = {
        "memory": None,
        "bandwidth": "25Gb",
        "latency": "50us",
        "placement": None,
        "max_samples": 200,
        "overrides": (),
    }
    return PlanRequest(config=str(config), num_ranks=num_ranks, **{**given, **changes})


def planned(capsys, config, **changes):
    show_plan(request(config, **changes), as_json=True)
    return json.loads(capsys.readouterr().out)


def test_a_plan_knows_the_job(capsys, job):
    plan = planned(capsys, job)
    (table,) = plan["workload"]["tables"]
    assert (table["dim"], table["num_rows"], table["is_estimated"]) == (4, 1000001, False)
    assert table["is_replicated"]  # 16 MB
    assert table["num_state"] == 2 * 4 + 1  # of Adam
    assert 0 < table["different_ids_per_batch"] < table["ids_per_batch"]
    assert plan["workload"]["batch_size"] == 32
    parameters = plan["workload"]["num_parameters"]
    assert plan["sent_bytes"]["all_reduce"] == 2 * 3 / 4 * 4 * parameters
    weights_gradients_moments = 4 * 4 * parameters
    assert 0 <= plan["workload"]["dense_bytes"] - weights_gradients_moments < 100
    assert plan["num_samples_of_all"] == pytest.approx(400, rel=0.1)


def test_a_table_that_grows_is_estimated_and_sharded(capsys, job):
    overrides = ("hyper_parameters.distributed_embedding=1",)
    plan = planned(capsys, job, overrides=overrides, max_samples=10**6)
    (table,) = plan["workload"]["tables"]
    assert (table["is_estimated"], table["is_replicated"]) == (True, False)
    (again,) = planned(capsys, job, overrides=overrides)["workload"]["tables"]
    assert again["num_rows"] == pytest.approx(table["num_rows"], rel=0.3)


def test_ranks_are_looked_ahead_to(capsys, job):
    scales = planned(capsys, job, num_ranks=3)["scaling"]
    assert [one["num_ranks"] for one in scales] == [1, 2, 3, 4, 8, 16, 32, 64, 128, 256]
    assert scales[0]["efficiency"] == 1
    assert all(0 < one["efficiency"] < 1 for one in scales[1:])
    assert all(one["step"]["compute"] > 0 for one in scales)


def test_a_placement_that_is_asked_for_beats_that_of_the_job(capsys, job):
    (table,) = planned(capsys, job, placement="sharded")["workload"]["tables"]
    assert not table["is_replicated"]


def test_what_does_not_fit_is_an_error_that_says_what_to_do(capsys, job):
    with pytest.raises(UnavailableError) as caught:
        show_plan(request(job, memory="600MB"), as_json=False)
    assert str(caught.value).startswith("--memory 600MB: a rank of 4 needs 6")
    assert "placement sharded needs" in str(caught.value)
    assert "memory of a rank: 6" in capsys.readouterr().out  # the plan is printed all the same
    show_plan(request(job, memory="64GB"), as_json=False)


def test_the_plan_is_printed_for_people(capsys, job):
    show_plan(request(job), as_json=False)
    printed = capsys.readouterr().out
    for words in ("SparseFeatFactors", "replicated", "all-reduce of", "bottleneck", "efficiency"):
        assert words in printed


def test_a_pipeline_is_planned_as_its_strategy_places_tables(capsys, tmp_path):
    paths = write_data(tmp_path, num_train=400, num_eval=10)
    path = write_pipeline(tmp_path, MODELS["DeepFM"], paths=paths)
    for strategy, is_replicated in (
        ("HorovodStrategy", True),
        ("EmbeddingParallelStrategy", False),
    ):
        overrides = (f"train_config.train_distribute={strategy}",)
        tables = planned(capsys, path, overrides=overrides)["workload"]["tables"]
        assert {table["is_replicated"] for table in tables} == {is_replicated}
    assert not (tmp_path / "model").exists()


def test_options_and_jobs_that_make_no_sense_are_told(job):
    with pytest.raises(ConfigError, match="--latency: expected a number above 0"):
        show_plan(request(job, latency="soon"), as_json=True)
    with pytest.raises(ConfigError, match="expected a runner of class train in mode"):
        show_plan(request(job, overrides=("mode=infer",)), as_json=True)
