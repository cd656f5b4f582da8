"""Every state of a model keeps the contract of ``ModelState``: save, delta, load, by any group."""

import contextlib
import threading

import numpy as np
import pytest

from fleetrec.config.job import OptimizerOptions
from fleetrec.core.progress import Progress
from fleetrec.embedding.record import Chain, StoredTable
from fleetrec.embedding.table import Admission, Eviction, LongVector
from fleetrec.parallel.state import SavedModel
from making_groups import (
    Member,
    make_batch,
    make_model,
    model_options,
    solo,
    together,
    worker,
    workers,
)
from unit.server.serving import serving

ADAM = OptimizerOptions(name="adam", lr=0.1)
KINDS = ("solo", "sync", "async", "half_async", "geo")
DAY = 86_400


def choosy():
    """A table that admits ids at their second impression, and evicts those unseen for a day.

    Its rows have more than their first weight from the third impression without a click on.
    """
    return make_model(
        admission=Admission(kind="count", threshold=2),
        eviction=Eviction(max_unseen_days=1),
        long_vector=LongVector(threshold=0.25),
    )


def forgetful():
    return make_model(eviction=Eviction(max_unseen_days=1))


@contextlib.contextmanager
def one_member(kind, directory, *, make=make_model, **options):
    """Give one process that trains: alone, or the only worker of two servers."""
    if kind == "solo":
        with solo(model=make(), optimizer=ADAM, **options) as member:
            yield member
    else:
        with workers(directory, kind, num_workers=1, make=make, optimizer=ADAM, **options) as (
            member,
        ):
            yield member


class Saved:
    """A chain of checkpoints in folders, as a run publishes them."""

    def __init__(self, directory):
        self.directory = directory
        self.folders = []
        self.tensors = {}
        self.record = None

    def save(self, member, *, delta=False, between=lambda: None, published=True):
        folder = self.directory / str(len(self.folders))
        parent = f"../{len(self.folders) - 1}" if delta else None
        cut = member.state.cut(parent=parent)
        between()
        record = cut.write(str(folder))["t"]
        assert cut.finish(published=published) == published
        self.folders = [*(self.folders if record.kind == "delta" else []), folder / "t"]
        self.tensors, self.record = cut.dense, record
        return record

    def saved_model(self):
        chain = Chain(urls=tuple(map(str, self.folders)), fingerprint=self.record.fingerprint)
        return SavedModel(
            tensors=self.tensors,
            tables={"t": StoredTable(name="t", record=self.record, chain=chain)},
        )


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_the_state_at_the_cut(kind, tmp_path):
    with one_member(kind, tmp_path / "servers") as member:
        for step in range(5):
            member.train(make_batch([step, step + 1]))
        member.end_pass()
        expected = rows_of(Saved(tmp_path / "before"), member)

        def go_on():
            for step in range(5):
                member.train(make_batch([step, step + 50]))
            member.stepper.flush()

        saved = Saved(tmp_path / "during")
        saved.save(member, between=go_on)
        np.testing.assert_array_equal(loaded_rows(saved), expected)


def rows_of(saved, member):
    saved.save(member, published=False)
    return loaded_rows(saved)


def loaded_rows(saved, **options):
    """Load a checkpoint into one process; returns ids and rows."""
    with solo(**options) as reader:
        reader.state.load(saved.saved_model(), exact=False)
        rows = reader.state.export_rows()["t"]
        return np.column_stack([rows["ids"].numpy(), rows["rows"].numpy()])


@pytest.mark.parametrize("kind", ["solo", "sync", "async", "half_async"])
def test_a_full_checkpoint_and_deltas_rebuild_the_live_table(kind, tmp_path):
    with one_member(kind, tmp_path / "servers", make=forgetful) as member:
        saved = Saved(tmp_path / "saved")
        kinds = []
        for day in range(5):
            for step in range(4):  # an id occurs on two days, so some are deleted every day
                member.train(make_batch([10 * day + step, 1000], event_time=day * DAY))
            member.end_pass(now=day * DAY)
            kinds.append(saved.save(member, delta=day > 0).kind)
        assert kinds == ["base", "delta", "delta", "delta", "delta"]
        live = member.state.export_rows()["t"]
        expected = np.column_stack([live["ids"].numpy(), live["rows"].numpy()])
        assert len(expected) == 9  # of two days, and the one of all days
        np.testing.assert_array_equal(loaded_rows(saved), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_age_only_where_a_day_ends(kind, tmp_path):
    with one_member(kind, tmp_path / "servers", make=forgetful) as member:
        member.train(make_batch([1, 2], event_time=0))
        member.end_pass(now=9 * DAY, ends_day=False)
        assert member.state.stats()["t"]["rows"] == 2
        member.train(make_batch([2], event_time=9 * DAY))
        member.end_pass(now=9 * DAY)
        stats = member.state.stats()["t"]
        assert (stats["rows"], stats["evicted"], stats["evicted_unseen"]) == (1, 1, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_days_given_at_the_end_of_a_pass_replace_those_of_the_tables(kind, tmp_path):
    with one_member(kind, tmp_path / "servers") as member:  # its table has no rule
        member.train(make_batch([1], event_time=0))
        member.end_pass(now=0)
        member.train(make_batch([2], event_time=3 * DAY))
        member.end_pass(now=3 * DAY, max_unseen_days=2)
        assert member.state.stats()["t"]["rows"] == 1


@pytest.mark.parametrize("reader", ["solo", "sync", "geo"])
@pytest.mark.parametrize("writer", KINDS)
def test_every_group_loads_what_any_group_saved(writer, reader, tmp_path):
    saved = Saved(tmp_path / "saved")
    with one_member(writer, tmp_path / "a") as member:
        for step in range(5):
            member.train(make_batch([step, step + 1]))
        member.end_pass()
        saved.save(member)
        with member.stepper.evaluating():
            expected = member.stepper.evaluate(make_batch([1, 2, 3])).outputs["logit"]
    with one_member(reader, tmp_path / "b") as other:
        other.state.load(saved.saved_model(), exact=False)
        with other.stepper.evaluating():
            found = other.stepper.evaluate(make_batch([1, 2, 3])).outputs["logit"]
        np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-6)


@pytest.mark.parametrize("kind", ["solo", "sync", "async", "half_async"])
def test_training_goes_on_exactly_from_a_checkpoint(kind, tmp_path):
    def train(member, first, last):
        for step in range(first, last):
            member.train(make_batch([step % 7, step % 3, 5]))
            member.stepper.flush()

    saved = Saved(tmp_path / "saved")
    with one_member(kind, tmp_path / "a", make=choosy) as member:
        train(member, 0, 10)
        member.stepper.flush()
        saved.save(member)
        before = member.progress
        train(member, 10, 20)
        expected = Saved(tmp_path / "expected")
        expected.save(member)
    with one_member(kind, tmp_path / "b", make=choosy) as member:
        member.state.load(saved.saved_model(), exact=True)
        member.progress = before
        train(member, 10, 20)
        found = Saved(tmp_path / "found")
        found.save(member)
    for file, group in expected.tensors.items():
        for name, value in group.items():
            np.testing.assert_array_equal(found.tensors[file][name].numpy(), value.numpy())
    assert found.record.rows == expected.record.rows
    np.testing.assert_array_equal(loaded_rows(found), loaded_rows(expected))


@pytest.mark.parametrize("mode", ["sync", "async", "half_async"])
def test_a_restarted_worker_goes_on_from_its_last_step(mode, tmp_path):
    with serving(tmp_path, num_servers=2) as endpoints:
        with worker(endpoints, mode, optimizer=ADAM) as member:
            assert not member.group.has_started
            member.group.all_gather(b"begin", key="start", pass_index=None)
            for step in range(3):
                member.train(make_batch([step, 5]))
            member.stepper.flush()
            progress = member.progress
        with worker(endpoints, mode, optimizer=ADAM) as member:
            assert member.group.has_started
            assert member.group.load_progress() == progress.to_bytes()
            assert member.group.all_gather(b"?", key="start", pass_index=None) == [b"begin"]


def test_a_checkpoint_of_sync_workers_names_the_progress_of_each(tmp_path):
    """The chief saves within a pass, while the other worker makes steps of its own."""
    with workers(tmp_path / "servers", "sync", optimizer=ADAM) as (chief, other):
        is_saved = threading.Event()

        def train_other():
            while not is_saved.is_set():
                other.train(make_batch([3, 4]))
            other.end_pass()

        def train_chief():
            for step in range(4):
                chief.train(make_batch([step, 5]))
            saved = Saved(tmp_path / "saved")
            cut = chief.state.cut(parent=None)
            is_saved.set()
            cut.write(str(tmp_path / "saved"))
            cut.finish(published=True)
            chief.end_pass()
            return cut.worker_progress, saved

        found, _ = together([train_chief, train_other])[0]
        assert len(found) == 2
        assert found[0] != b""
        assert b'"step": 4' in found[0]
        assert b'"step": 4' in found[1]  # sync: both have made the same steps


def test_a_failed_write_fails_the_save_and_leaves_the_next_one_whole(tmp_path):
    with one_member("sync", tmp_path / "servers") as member:
        member.train(make_batch([1, 2]))
        (tmp_path / "file").write_text("in the way")
        cut = member.state.cut(parent=None)
        with pytest.raises(Exception, match="file"):
            cut.write(str(tmp_path / "file"))
        cut.finish(published=False)
        saved = Saved(tmp_path / "saved")
        saved.save(member)
        assert loaded_rows(saved)[:, 0].tolist() == [1, 2]


@pytest.mark.parametrize("mode", ["sync", "async", "half_async", "geo"])
def test_a_group_of_workers_trains_several_models(mode, tmp_path):
    """As the phases of a run do: each model has tables and steps of its own on the servers."""
    with serving(tmp_path / "servers", num_servers=2) as endpoints:
        with worker(endpoints, mode, optimizer=ADAM) as first:
            model = make_model()
            built = first.group.build(model, model_options(optimizer=ADAM))
            second = Member(first.group, model, built)
            first.group.all_gather(b"begin", key="start", pass_index=None)
            for step in range(3):
                first.train(make_batch([step, 5]))
            first.end_pass()
            second.progress = first.progress.next_phase()
            for step in range(3):
                second.train(make_batch([step + 100, 5]))
            second.end_pass()
            saved = [Saved(tmp_path / name) for name in ("first", "second")]
            saved[0].save(first)
            saved[1].save(second)
            assert loaded_rows(saved[0])[:, 0].tolist() == [0, 1, 2, 5]
            assert loaded_rows(saved[1])[:, 0].tolist() == [5, 100, 101, 102]
        with worker(endpoints, mode, optimizer=ADAM) as first:  # of a new process
            model = make_model()
            first.group.build(model, model_options(optimizer=ADAM))
            assert Progress.from_bytes(first.group.load_progress()).step == 6
            assert first.group.num_passes_done == 1
