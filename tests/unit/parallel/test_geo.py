"""Workers that exchange differences: as their numpy twin, nothing is lost, nothing is left."""

import numpy as np
import pytest

from fleetrec.config.job import OptimizerOptions
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.table import Admission, RowOptimizer
from making_groups import make_batch, make_model, together, workers
from reference.workers import AsyncWorkers, GeoWorkers, Weights

LR = 0.5
SGD = OptimizerOptions(name="sgd", lr=LR)


def first_weights():
    """Return the weights that a run starts from."""
    model = make_model()
    table = model.embedding_collection().tables["t"]
    store = NativeStore(table, RowOptimizer(name="sgd"), seed=0)
    dense = [model.out.bias.item(), *model.out.weight.detach().reshape(-1).tolist()]
    return Weights(dense, lambda one: store.table.read(np.array([one]), as_new=True)[0][0])


def assert_as_twin(member, twin):
    rows = member.state.export_rows()["t"]
    found = dict(zip(rows["ids"].tolist(), rows["rows"].numpy(), strict=True))
    assert found.keys() == twin.rows.keys()
    for one, row in twin.rows.items():
        np.testing.assert_allclose(found[one], row, atol=1e-5)
    cut = member.state.cut(parent=None)
    cut.finish(published=False)
    dense = cut.dense["model"]
    numbers = [dense["out.bias"].item(), *dense["out.weight"].reshape(-1).tolist()]
    np.testing.assert_allclose(numbers, twin.dense, atol=1e-5)


def train(members, twin, *, num_passes):
    for _ in range(num_passes):
        for step in range(7):
            for index, member in enumerate(members):
                ids = [index, 7 * index + step % 3, 5]
                member.train(make_batch(ids))
                member.stepper.flush()
                twin.train(index, ids)
        together([member.end_pass for member in members])
        twin.end_pass()


@pytest.mark.parametrize("push_steps", [1, 2, 3])
@pytest.mark.parametrize("num_workers", [1, 2, 3])
def test_geo_workers_do_what_their_twin_does(tmp_path, num_workers, push_steps):
    twin = GeoWorkers(first_weights(), num_workers=num_workers, push_steps=push_steps, lr=LR)
    with workers(
        tmp_path, "geo", num_workers=num_workers, push_steps=push_steps, optimizer=SGD
    ) as members:
        train(members, twin, num_passes=3)
        assert_as_twin(members[0], twin.servers)


@pytest.mark.parametrize("mode", ["async", "half_async"])
def test_async_workers_do_what_their_twin_does(tmp_path, mode):
    twin = AsyncWorkers(first_weights(), lr=LR)
    with workers(tmp_path, mode, num_workers=2, optimizer=SGD) as members:
        train(members, twin, num_passes=2)
        assert_as_twin(members[0], twin.servers)


def test_at_the_end_of_a_pass_workers_and_servers_have_the_same_rows(tmp_path):
    with workers(tmp_path, "geo", num_workers=2, push_steps=3) as members:
        for step in range(7):
            for index, member in enumerate(members):  # no id is met by both
                member.train(make_batch([10 * index + step % 3, 10 * index + 5]))
        together([member.end_pass for member in members])
        rows = members[0].state.export_rows()["t"]
        assert len(rows["ids"]) == 8
        for member in members:
            assert member.stepper.num_pending_pushes() == 0


def test_admission_is_refused_with_the_reason(tmp_path):
    def choosy():
        return make_model(admission=Admission(kind="count", threshold=2))

    with (
        pytest.raises(ValueError, match="geo gives every id a row"),
        workers(tmp_path, "geo", num_workers=1, make=choosy),
    ):
        pass
