"""Rows that move by an optimizer of their own, while the network moves by another."""

import pytest
import torch
from fleetrec.parallel.single import SingleStrategy
from torch import nn

from fleetrec.config.job import OptimizerOptions
from fleetrec.core.batch import Batch
from fleetrec.core.cursor import Cursor
from fleetrec.core.jagged import KeyedJagged
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.table import RowOptimizer, TableConfig, TableOptimizer
from reference.row_optimizer import OPTIMIZERS
from unit.parallel.linear import Linear

LR = 0.1


def make_strategy(own):
    torch.manual_seed(0)
    return SingleStrategy(
        Linear(own_optimizer=own),
        optimizer=OptimizerOptions(name="sgd", lr=0.5),
        device=torch.device("cpu"),
        seed=0,
    )


def make_batch(one_id, label):
    jagged = KeyedJagged(
        names=("a",),
        values_N=torch.tensor([one_id]),
        offsets=torch.arange(2),
        num_samples=1,
    )
    return Batch(ids=jagged, dense={"click": torch.tensor([[label]])}, cursor=Cursor())


def row_and_gradient(strategy, one_id, label):
    """Of a batch of this one id, by torch alone."""
    rows, _ = strategy.stores["t"].table.read(torch.tensor([one_id]).numpy(), as_new=True)
    row_1D = torch.from_numpy(rows.copy()).requires_grad_()
    out = strategy.state()["model"]
    logit = row_1D @ out["out.weight"].T + out["out.bias"]
    nn.functional.binary_cross_entropy_with_logits(logit[0], torch.tensor([label])).backward()
    return row_1D[0].tolist(), row_1D.grad[0].tolist()


@pytest.mark.parametrize("name", ["rowwise_adagrad", "adamw", "ftrl", "rmsprop", "momentum"])
def test_rows_follow_their_own_formula_at_their_own_rate(name):
    strategy = make_strategy(TableOptimizer(rule=RowOptimizer(name=name), lr=LR))
    formula = OPTIMIZERS[name]()
    state = formula.new_state(2)
    for step in range(20):
        label = float(step % 3 == 0)
        row, gradient = row_and_gradient(strategy, 7, label)
        before = strategy.state()["model"]["out.weight"].clone()
        strategy.train_step(make_batch(7, label))
        expected, state = formula.update(row, state, gradient, LR)
        found, _ = row_and_gradient(strategy, 7, label)
        assert found == pytest.approx(expected, abs=1e-5)
        assert not torch.equal(strategy.state()["model"]["out.weight"], before)


def test_without_one_rows_move_as_the_network_does():
    alike = make_strategy(TableOptimizer(rule=RowOptimizer(name="sgd"), lr=0.5))
    plain = make_strategy(None)
    for step in range(5):
        for strategy in (alike, plain):
            strategy.train_step(make_batch(step % 2, float(step % 2)))
    mine, theirs = (strategy.stores["t"].snapshot()["rows"] for strategy in (alike, plain))
    assert torch.equal(mine, theirs)


def test_tables_that_are_looked_up_together_have_one_rate():
    tables = [
        TableConfig(name=name, dim=2, own_optimizer=TableOptimizer(rule=RowOptimizer(), lr=lr))
        for name, lr in (("t", 0.1), ("u", 0.2))
    ]
    features = [EmbeddedFeature(feature=table.name, table=table.name) for table in tables]
    with pytest.raises(ValueError, match="another optimizer_group"):
        EmbeddingCollection(features=features, tables=tables)
