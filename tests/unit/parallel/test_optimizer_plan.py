"""Rows that are updated by an optimizer of their own, and the network by another."""

import pytest
import torch
from torch import nn

from fleetrec.core.batch import Batch
from fleetrec.core.cursor import Cursor
from fleetrec.core.jagged import KeyedJagged
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.table import RowOptimizer, TableConfig, TableOptimizer
from making_groups import SGD, make_model, solo
from reference.row_optimizer import OPTIMIZERS

LR = 0.1


def member_with(own):
    return solo(model=make_model(own_optimizer=own), optimizer=SGD)


def make_batch(one_id, label):
    jagged = KeyedJagged(
        names=("a",),
        values_N=torch.tensor([one_id]),
        offsets=torch.arange(2),
        num_samples=1,
    )
    return Batch(ids=jagged, dense={"click": torch.tensor([[label]])}, cursor=Cursor())


def row_and_gradient(member, one_id, label):
    """Of a batch of this one id, by torch alone."""
    ids_N = torch.tensor([one_id]).numpy()
    rows, _ = member.state.stores["t"].table.read(ids_N, as_new=True)
    row_1D = torch.from_numpy(rows.copy()).requires_grad_()
    logit = member.model.out(row_1D)
    nn.functional.binary_cross_entropy_with_logits(logit[0], torch.tensor([label])).backward()
    member.model.zero_grad(set_to_none=True)
    return row_1D[0].tolist(), row_1D.grad[0].tolist()


@pytest.mark.parametrize("name", ["rowwise_adagrad", "adamw", "ftrl", "rmsprop", "momentum"])
def test_rows_follow_their_own_formula_at_their_own_rate(name):
    formula = OPTIMIZERS[name]()
    state = formula.new_state(2)
    with member_with(TableOptimizer(rule=RowOptimizer(name=name), lr=LR)) as member:
        for step in range(20):
            label = float(step % 3 == 0)
            row, gradient = row_and_gradient(member, 7, label)
            before = member.model.out.weight.detach().clone()
            member.train(make_batch(7, label))
            expected, state = formula.update(row, state, gradient, LR)
            found, _ = row_and_gradient(member, 7, label)
            assert found == pytest.approx(expected, abs=1e-5)
            assert not torch.equal(member.model.out.weight, before)


def test_without_one_rows_are_updated_as_the_network_is():
    alike = TableOptimizer(rule=RowOptimizer(name="sgd"), lr=SGD.lr)
    found = []
    for own in (alike, None):
        with member_with(own) as member:
            for step in range(5):
                member.train(make_batch(step % 2, float(step % 2)))
            found.append(member.state.stores["t"].snapshot()["rows"])
    assert torch.equal(*found)


def test_tables_that_are_looked_up_together_have_one_rate():
    tables = [
        TableConfig(name=name, dim=2, own_optimizer=TableOptimizer(rule=RowOptimizer(), lr=lr))
        for name, lr in (("t", 0.1), ("u", 0.2))
    ]
    features = [EmbeddedFeature(feature=table.name, table=table.name) for table in tables]
    with pytest.raises(ValueError, match="another optimizer_group"):
        EmbeddingCollection(features=features, tables=tables)
