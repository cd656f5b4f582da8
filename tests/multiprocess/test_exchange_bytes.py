"""What real ranks send is what a plan says."""

from pathlib import Path

import pytest

from benchmarks import criteo_like
from benchmarks.exchange import compare, train_on_ranks
from benchmarks.job import dnn_run
from fleetrec.config.job import ClusterOptions

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "placement", [pytest.param("replicated", marks=pytest.mark.slow), "sharded"]
)
def test_ranks_send_as_many_bytes_as_planned(tmp_path, monkeypatch, placement):
    monkeypatch.chdir(ROOT)  # where the benchmarks are
    (part,) = criteo_like.cached_parts(tmp_path, num_samples=700, num_parts=1)
    cluster = ClusterOptions(num_workers=2, fleet_mode="collective", placement=placement)
    run = dnn_run(part, batch_size=64, hidden=(8,), cluster=cluster)
    counted = train_on_ranks(run)
    assert [one.num_steps for one in counted] == [5, 5]  # and a rest, which is left out
    sent, waited = compare(run, counted, name=placement)
    assert sent.ratio > 0.95
    assert waited.value > 0
