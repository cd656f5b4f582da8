"""Every way of making steps keeps the contract of ``Stepper``."""

import contextlib

import numpy as np
import pytest
import torch

from fleetrec.config.job import CommunicatorOptions, OptimizerOptions, UpdateOptions
from fleetrec.embedding.table import LongVector, RowOptimizer, TableOptimizer
from making_groups import MODES, make_batch, make_model, solo, together, workers

KINDS = ("solo", *MODES)
ADAM = OptimizerOptions(name="adam", lr=0.1)


@contextlib.contextmanager
def members(kind, directory, **options):
    """Give the processes of a group; those of a worker group share its servers."""
    if kind == "solo":
        with solo(**options) as member:
            yield [member]
    else:
        with workers(directory, kind, **options) as found:
            yield found


def train_round(group, batches):
    """Let every member make one step; in order, so that async groups are deterministic."""
    if group[0].group.size > 1 and group[0].group._options.strategy == "sync":
        return together([lambda m=m, b=b: m.train(b) for m, b in zip(group, batches, strict=True)])
    results = []
    for member, batch in zip(group, batches, strict=True):
        results.append(member.train(batch))
        member.stepper.flush()
    return results


def weights_of(group):
    """Return the dense weights and rows that the group has learnt, as a checkpoint holds them."""
    cut = group[0].state.cut(parent=None)
    cut.finish(published=False)
    rows = group[0].state.export_rows()["t"]
    dense = [value.numpy().reshape(-1) for _, value in sorted(cut.dense["model"].items())]
    return np.concatenate([*dense, rows["ids"].numpy(), rows["rows"].numpy().reshape(-1)])


def run(kind, directory, *, num_passes=3, look=lambda group: None, **options):
    with members(kind, directory, **options) as group:
        for _ in range(num_passes):
            for step in range(4):
                batches = [make_batch([n, n + 7 + step]) for n in range(len(group))]
                train_round(group, batches)
                if kind != "sync":  # there a save waits until the others are at the next step
                    look(group)
            together([member.end_pass for member in group])
            look(group)
        return weights_of(group)


def assert_same(kind, found, expected):
    """Compare bit for bit; servers add what geo workers send at the same time in any order."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 if kind == "geo" else 0)


@pytest.mark.parametrize("kind", KINDS)
def test_evaluating_changes_nothing(kind, tmp_path):
    def evaluate(group):
        with group[0].stepper.evaluating():
            group[0].stepper.evaluate(make_batch([1, 2, 99]))

    plain = run(kind, tmp_path / "plain", optimizer=ADAM)
    assert_same(kind, run(kind, tmp_path / "looked", optimizer=ADAM, look=evaluate), plain)


@pytest.mark.parametrize("kind", KINDS)
def test_saving_changes_nothing(kind, tmp_path):
    def save(group):
        cut = group[0].state.cut(parent=None)
        target = tmp_path / "saved" / str(len(list((tmp_path).glob("saved/*"))))
        cut.write(str(target))
        assert cut.finish(published=True)

    plain = run(kind, tmp_path / "plain", optimizer=ADAM)
    assert_same(kind, run(kind, tmp_path / "looked", optimizer=ADAM, look=save), plain)


@pytest.mark.parametrize("kind", KINDS)
def test_a_prefetched_batch_that_never_arrives_has_no_effect(kind, tmp_path):
    communicator = {} if kind == "solo" else {"communicator": CommunicatorOptions(pull_ahead=True)}

    def prefetch(group):
        if group[0].stepper.prefetches:
            group[0].stepper.prefetch(make_batch([1234]))

    plain = run(kind, tmp_path / "plain", **communicator)
    found = run(kind, tmp_path / "looked", look=prefetch, **communicator)
    assert 1234 not in found.tolist()
    if kind != "async":  # there a prefetched batch may be older by one step
        assert_same(kind, found, plain)


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_whose_result_is_refused_is_not_made(kind, tmp_path):
    def refuse(_):
        raise ZeroDivisionError

    def make(directory, *, with_refused):
        with members(kind, directory, **({} if kind == "solo" else {"num_workers": 1})) as (one,):
            one.train(make_batch([1, 2]))
            one.stepper.flush()
            if with_refused:
                before = one.progress
                with pytest.raises(ZeroDivisionError):
                    one.train(make_batch([1, 2]), on_result=refuse)
                one.progress = before
            one.train(make_batch([3]))
            one.end_pass()
            return weights_of([one])

    refused = make(tmp_path / "a", with_refused=True)
    np.testing.assert_array_equal(refused, make(tmp_path / "b", with_refused=False))


@pytest.mark.parametrize("kind", KINDS)
def test_results_come_before_the_update_with_the_rate_of_the_step(kind, tmp_path):
    options = {} if kind == "solo" else {"num_workers": 1}
    with members(kind, tmp_path, optimizer=ADAM, **options) as (one,):
        seen = []
        first = one.train(make_batch([1, 2]), on_result=seen.append)
        assert seen[0].lr is None
        assert torch.equal(seen[0].loss, first.loss)
        assert first.lr == pytest.approx(0.1)


@pytest.mark.parametrize("num_workers", [1, 2, 3])
def test_sync_workers_give_what_one_process_gives_with_all_samples(num_workers, tmp_path):
    with (
        solo(optimizer=ADAM) as one,
        workers(tmp_path, "sync", num_workers=num_workers, optimizer=ADAM) as many,
    ):
        for step in range(10):
            ids = [[n + 3 * step, n + 1, 5] for n in range(num_workers)]
            one.train(make_batch([i for its in ids for i in its]))
            train_round(many, [make_batch(its) for its in ids])
        one.end_pass()
        together([member.end_pass for member in many])
        np.testing.assert_allclose(weights_of(many), weights_of([one]), atol=1e-5)


@pytest.mark.parametrize("mode", ["sync", "async", "half_async"])
@pytest.mark.parametrize(
    "update",
    [
        UpdateOptions(clip_norm=0.01),
        UpdateOptions(embedding_gradient_scale=3.0),
        UpdateOptions(
            optimizers=(
                OptimizerOptions(name="adagrad", lr=0.3),
                OptimizerOptions(name="adam", lr=0.01),
            )
        ),
    ],
)
def test_one_worker_updates_as_one_process_does(mode, update, tmp_path):
    with (
        solo(optimizer=ADAM, update=update) as one,
        workers(tmp_path, mode, num_workers=1, optimizer=ADAM, update=update) as many,
    ):
        for step in range(10):
            batch = make_batch([step, step + 1, 5])
            assert one.train(batch).lr == pytest.approx(train_round(many, [batch])[0].lr)
        np.testing.assert_allclose(weights_of(many), weights_of([one]), atol=1e-6)


def test_clipping_by_norm_with_several_sync_workers_is_refused_with_the_reason(tmp_path):
    update = UpdateOptions(clip_norm=1.0)
    with (
        pytest.raises(ValueError, match="norm of the mean gradient"),
        workers(tmp_path, "sync", num_workers=2, update=update),
    ):
        pass


@pytest.mark.parametrize("kind", ["solo", "sync", "async", "half_async"])
def test_rows_of_low_score_learn_their_first_weight_only(kind, tmp_path):
    make = lambda: make_model(long_vector=LongVector(threshold=1.0, show_weight=0.5))  # noqa: E731
    given = {"model": make()} if kind == "solo" else {"make": make, "num_workers": 1}
    with members(kind, tmp_path, **given) as (one,):
        for step in range(4):  # 2 and 4 are shown once and four times, 1 and 3 are clicked
            one.train(make_batch([4, 3] if step else [4, 2, 1]))
        one.end_pass()
        found = one.state.export_rows()["t"]
    is_long = dict(zip(found["ids"].tolist(), (found["rows"][:, 1:] != 0).any(1), strict=True))
    assert is_long == {1: True, 2: False, 3: True, 4: True}
    assert (found["rows"][:, 0] != 0).all()


def test_geo_refuses_rows_without_long_vectors(tmp_path):
    make = lambda: make_model(long_vector=LongVector(threshold=1.0))  # noqa: E731
    with (
        pytest.raises(ValueError, match="geo trains copies of whole rows, but t has an embedx"),
        workers(tmp_path, "geo", num_workers=1, make=make),
    ):
        pass


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_may_have_an_optimizer_of_its_own(kind, tmp_path):
    own = TableOptimizer(rule=RowOptimizer(name="adagrad"), lr=0.1)

    def found(optimizer, directory):
        options = {} if kind == "solo" else {"num_workers": 1}
        make = lambda: make_model(own_optimizer=optimizer)  # noqa: E731
        given = {"model": make()} if kind == "solo" else {"make": make}
        with members(kind, directory, **options, **given) as (one,):
            for step in range(3):
                one.train(make_batch([step, 5]))
            one.end_pass()
            return one.state.export_rows()["t"]["rows"].numpy()

    assert not np.array_equal(found(own, tmp_path / "own"), found(None, tmp_path / "none"))
