"""Samples are shuffled, filtered, sampled, weighted; bad rows are skipped and counted."""

import logging

import numpy as np
import pytest

from fleetrec.config.features import IdRule
from fleetrec.config.job import BadRowOptions, DatasetOptions, DenseSlot, Filter, TextTableOptions
from fleetrec.core.errors import DataError
from fleetrec.data.loader import Loader

NUM_ROWS = 400


@pytest.fixture
def folder(tmp_path):
    for part in range(2):
        rows = range(part * NUM_ROWS // 2, (part + 1) * NUM_ROWS // 2)
        lines = [f"click:{row % 4 == 0:d} id:{row} d:{row / 10} w:{row % 3}\n" for row in rows]
        (tmp_path / f"part-{part}").write_text("".join(lines))
    return tmp_path


def make_loader(folder, *, seed=1, **options):
    defaults = {
        "name": "rows",
        "data_path": folder,
        "batch_size": 16,
        "sparse": ("click", "id"),
        "dense": (DenseSlot(name="d", shape=(1,)), DenseSlot(name="w", shape=(1,))),
    }
    return Loader(DatasetOptions(**(defaults | options)), seed=seed)


def read(loader, epoch=0, start=None):
    with loader.epoch(epoch, start=start) as batches:
        return list(batches)


def ids(batches):
    return [i for batch in batches for i in batch.ids["id"].values.tolist()]


def test_rows_are_shuffled_within_a_window(folder):
    found = ids(read(make_loader(folder, shuffle_rows=100)))
    assert sorted(found) == list(range(NUM_ROWS))
    assert found != sorted(found)
    assert max(abs(np.array(found) - np.arange(NUM_ROWS))) < 100 + 16


def test_seed_and_epoch_fix_the_order(folder):
    def order(seed=1, epoch=0):
        return ids(read(make_loader(folder, shuffle_rows=100, seed=seed), epoch))

    assert order() == order()
    assert order(epoch=1) != order()
    assert order(seed=2) != order()


def test_dense_values_move_with_their_sample(folder):
    for batch in read(make_loader(folder, shuffle_rows=100)):
        assert batch.dense["d"].flatten().tolist() == pytest.approx(
            [i / 10 for i in batch.ids["id"].values.tolist()]
        )


@pytest.mark.parametrize(
    ("feature", "op", "value", "want"),
    [
        ("click", "==", 1, lambda row: row % 4 == 0),
        ("click", "!=", 1, lambda row: row % 4 != 0),
        ("id", "<", 17, lambda row: row < 17),
        ("id", ">=", 17, lambda row: row >= 17),
        ("d", ">", 3.05, lambda row: row > 30),
        ("d", "<=", 3.05, lambda row: row <= 30),
    ],
)
def test_filters_choose_samples(folder, feature, op, value, want):
    filters = (Filter(feature=feature, op=op, value=value),)
    batches = read(make_loader(folder, filters=filters))
    assert ids(batches) == [row for row in range(NUM_ROWS) if want(row)]
    assert all(batch.num_samples == 16 for batch in batches[:-1]), "batches stay full"


def test_a_filter_must_name_a_feature(folder):
    with pytest.raises(
        DataError, match="filters: no feature is called 'clicked'; known: click, id"
    ):
        make_loader(folder, filters=(Filter(feature="clicked", op="==", value=1),))


def test_a_ratio_keeps_about_as_many_and_other_ones_each_epoch(folder):
    loader = make_loader(folder, sample_ratio=0.25)
    first, second = ids(read(loader, 0)), ids(read(loader, 1))
    assert 60 < len(first) < 140
    assert first != second
    assert ids(read(make_loader(folder, sample_ratio=0.25))) == first


def test_reading_goes_on_in_the_middle_of_filtered_and_shuffled_samples(folder):
    filters = (Filter(feature="click", op="!=", value=1),)

    def make():
        return make_loader(folder, shuffle_rows=60, filters=filters, sample_ratio=0.8)

    whole = read(make())
    for i, batch in enumerate(whole):
        rest = read(make(), start=batch.cursor)
        assert ids(rest) == ids(whole[i + 1 :])
        assert [b.cursor for b in rest] == [b.cursor for b in whole[i + 1 :]]


def test_weights_are_no_feature(folder):
    loader = make_loader(folder, sample_weight="w")
    assert list(loader.inputs.dense) == ["d"]
    (batch, *_) = read(loader)
    assert list(batch.dense) == ["d"]
    assert batch.weights_B.tolist() == [float(row % 3) for row in range(16)]


@pytest.fixture
def bad_folder(tmp_path):
    lines = [f"click:0 id:{row} d:1 w:1" for row in range(100)]
    for row in (0, 15, 16, 17, 50, 99):
        lines[row] = f"click:0 id:x{row} d:1 w:1"
    (tmp_path / "part").write_text("\n".join(lines))
    return tmp_path


def test_bad_rows_are_passed_over_and_told(bad_folder, caplog):
    with caplog.at_level(logging.WARNING):
        found = ids(read(make_loader(bad_folder, bad_rows=BadRowOptions(policy="skip"))))
    assert found == [row for row in range(100) if row not in (0, 15, 16, 17, 50, 99)]
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 6
    assert "part:16: column 9: 'id:x15': slot 'id' is sparse" in told[1]


def test_a_batch_of_nothing_but_bad_rows_is_no_batch(tmp_path):
    (tmp_path / "part").write_text("click:x\n" * 20 + "click:1 id:7\n")
    loader = make_loader(tmp_path, dense=(), bad_rows=BadRowOptions(policy="skip"))
    assert ids(read(loader)) == [7]


def test_too_many_bad_rows_end_the_run(bad_folder):
    loader = make_loader(bad_folder, bad_rows=BadRowOptions(policy="skip", limit=3))
    with pytest.raises(DataError, match=r"more than 3 bad rows \(max_bad_rows\); the last: .*:18:"):
        read(loader)


def test_bad_rows_end_the_run_unless_asked(bad_folder):
    with pytest.raises(DataError, match=r"part:1: column 9: 'id:x0'"):
        read(make_loader(bad_folder))


def test_rules_for_ids_hold_in_slot_text(folder):
    rules = {"id": IdRule(buckets=7), "click": IdRule(vocabulary=("1",))}
    (batch, *_) = read(make_loader(folder, id_rules=rules))
    assert batch.ids["id"].values.tolist() == [row % 7 for row in range(16)]
    assert batch.ids["click"].values.tolist() == [int(row % 4 == 0) for row in range(16)]


def test_a_rule_for_an_unknown_feature_is_refused(folder):
    with pytest.raises(DataError, match="a rule for ids of 'ids', which is no sparse feature"):
        make_loader(folder, id_rules={"ids": IdRule(buckets=7)})


@pytest.mark.parametrize("name", ["nothing", "click"])
def test_a_weight_must_be_one_number(folder, name):
    with pytest.raises(DataError, match="sample_weight: expected a dense feature of width 1"):
        make_loader(folder, sample_weight=name)


def test_separators_are_refused_where_nothing_is_separated(folder):
    with pytest.raises(DataError, match=r"are for text tables .* read as slot_text"):
        make_loader(folder, text_table=TextTableOptions(separator=";"))
