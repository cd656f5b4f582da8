"""Options of a job change the tables of any model."""

import pytest

from fleetrec.config.tables import (
    AdmissionOptions,
    EvictionOptions,
    LongVectorOptions,
    SparseOptimizerOptions,
    TableOverrides,
)
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.table import Admission, Eviction, Initializer, LongVector, TableConfig
from fleetrec.models import base
from fleetrec.models.table_overrides import check_table_names, override_tables
from fleetrec.tasks.binary import BinaryTask


class TwoTables(base.Model):
    """A model with two tables of one width, and a third one."""

    def __init__(self):
        super().__init__(tasks=[BinaryTask(label="click")])
        widths = {"a": 4, "b": 4, "c": 1}
        self.embeddings = EmbeddingCollection(
            features=[EmbeddedFeature(feature=name, table=name) for name in widths],
            tables=[TableConfig(name=name, dim=dim) for name, dim in widths.items()],
        )


def optimizer(lr):
    return SparseOptimizerOptions.model_validate({"class": "ctr_adagrad", "learning_rate": lr})


def overridden(**overrides):
    model = TwoTables()
    override_tables(model, overrides)
    return model.embedding_collection()


def test_a_table_has_the_options_of_its_name_and_the_others_the_default():
    collection = overridden(
        a=TableOverrides(
            admission=AdmissionOptions(kind="count", threshold=3),
            eviction=EvictionOptions(max_rows=7),
            initial_range=0.5,
            long_vector=LongVectorOptions(threshold=2),
            click_label="click",
            width=4,
        ),
        default=TableOverrides(eviction=EvictionOptions(max_unseen_days=2)),
    )
    assert collection.tables["a"] == TableConfig(
        name="a",
        dim=4,
        initializer=Initializer(kind="uniform", scale=0.5),
        admission=Admission(kind="count", threshold=3),
        eviction=Eviction(max_rows=7),
        long_vector=LongVector(threshold=2),
        click_label="click",
    )
    for name in "bc":
        assert collection.tables[name].eviction == Eviction(max_unseen_days=2)


def test_a_table_of_width_one_has_no_long_vector():
    collection = overridden(default=TableOverrides(long_vector=LongVectorOptions(threshold=2)))
    found = {name: table.long_vector is not None for name, table in collection.tables.items()}
    assert found == {"a": True, "b": True, "c": False}


def test_tables_with_different_learning_rates_are_looked_up_separately():
    together = overridden(default=TableOverrides(optimizer=optimizer(0.1)))
    assert list(together.groups) == ["embedded_4", "embedded_1"]
    apart = overridden(b=TableOverrides(optimizer=optimizer(0.1)))
    assert [group.features[0].name for group in apart.groups.values()] == ["a", "b", "c"]
    assert apart.out_dim == 9
    rates = {name: table.row_rate(0.5) for name, table in apart.tables.items()}
    assert rates == {"a": 0.5, "b": 0.1, "c": 0.5}


def test_a_width_that_is_not_that_of_the_table_is_refused():
    with pytest.raises(ValueError, match=r"embedx_dim: 8 means rows of 9 weights, but those of "):
        overridden(a=TableOverrides(width=9))


def test_a_name_that_is_no_table_is_refused_with_those_there_are():
    check_table_names(["a", "default"], ["a", "b"])
    with pytest.raises(ValueError, match=r"item: .* \(its tables: items, ads\); did you mean 'ite"):
        check_table_names(["item"], ["items", "ads"])
    with pytest.raises(ValueError, match="it has none"):
        check_table_names(["bb"], [])
