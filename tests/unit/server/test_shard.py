"""The tables and dense weights of one server."""

import dataclasses

import numpy as np
import torch

from fleetrec.config.job import OptimizerOptions
from fleetrec.embedding.sharding import WHOLE_TABLE
from fleetrec.server.shard import Shard
from unit.server.serving import MODEL, make_push, make_row_push

NONE = np.zeros(0, np.int64)


def make_shard(model=MODEL):
    return Shard(model, WHOLE_TABLE, torch.zeros(model.num_dense))


def rows_of(shard, table="t"):
    return shard.stores[table].table.snapshot()["rows"]


def test_a_missing_row_is_read_as_it_will_be_created():
    shard = make_shard()
    new, *_ = shard.read([np.array([7]), NONE], as_new=True)
    absent, is_there, *_ = shard.read([np.array([7]), NONE], as_new=False)
    assert (is_there.tolist(), absent.tolist()) == ([0], [[0.0, 0.0]])
    assert shard.stats()["t"]["rows"] == 0
    shard.apply([make_push(grad=0.0)])
    assert np.array_equal(rows_of(shard), new)


def test_a_step_is_the_mean_of_its_pushes_by_samples():
    shard = make_shard()
    (before, *_) = shard.read([np.array([7]), NONE], as_new=True)
    shard.apply([make_push(grad=1.0, num_samples=3), make_push(grad=5.0, num_samples=1)])
    assert shard.dense.weights_P.tolist() == [-2.0] * MODEL.num_dense
    np.testing.assert_allclose(rows_of(shard), before - 2.0, rtol=1e-6)


def test_every_table_uses_its_own_optimizer():
    rates = (OptimizerOptions(name="sgd", lr=1.0), OptimizerOptions(name="sgd", lr=0.25))
    model = MODEL.model_copy(
        update={"optimizers": rates, "dense_sizes": (5, 0), "table_optimizers": (0, 1)}
    )
    shard = make_shard(model)
    ids = [np.array([7]), np.array([3])]
    before_t, _, before_u, _ = shard.read(ids, as_new=True)
    tables = [make_row_push([7], [[1, 1]]), make_row_push([3], [[1, 1, 1]])]
    shard.apply([dataclasses.replace(make_push(), tables=tables)])
    after_t, _, after_u, _ = shard.read(ids, as_new=True)
    np.testing.assert_allclose(after_t, before_t - 1.0, rtol=1e-6)
    np.testing.assert_allclose(after_u, before_u - 0.25, rtol=1e-6)


def test_a_written_folder_is_read_back_exactly(tmp_path):
    model = MODEL.model_copy(update={"optimizers": (OptimizerOptions(name="adam", lr=0.1),)})
    shard = make_shard(model)
    shard.apply([make_push()])
    shard.snapshot().write(tmp_path)
    loaded = make_shard(model)
    loaded.read_folder(tmp_path)
    for one in (shard, loaded):
        one.apply([make_push(grad=-3.0)])
    assert np.array_equal(rows_of(shard), rows_of(loaded))
    assert torch.equal(shard.dense.weights_P, loaded.dense.weights_P)
    assert shard.stats() == loaded.stats()
