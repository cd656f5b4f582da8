"""The way to the device: with buffers or without, the model learns the same."""

import pytest
import torch

from fleetrec.core.batch import Batch
from fleetrec.core.cursor import Cursor
from fleetrec.core.jagged import KeyedJagged
from fleetrec.parallel.transfer import NoTransfer, StagedTransfer, transfer_to

CPU = torch.device("cpu")


def make_batch(num_samples, *, weighted=True):
    ids = torch.arange(num_samples)
    return Batch(
        ids=KeyedJagged(
            names=("click",),
            values_N=ids,
            offsets=torch.arange(num_samples + 1),
            num_samples=num_samples,
            weights_N=torch.ones(num_samples) if weighted else None,
        ),
        dense={"age": torch.rand(num_samples, 2)},
        cursor=Cursor(),
        weights_B=torch.rand(num_samples) if weighted else None,
    )


def make_vectors(num_samples):
    return {
        "dim 3": torch.rand(num_samples, 3).requires_grad_(),
        "unused": torch.rand(num_samples, 2).requires_grad_(),
        "lengths": torch.arange(num_samples),
    }


@pytest.mark.parametrize("make", [NoTransfer, lambda: StagedTransfer(CPU)])
def test_values_arrive_and_gradients_come_back_step_after_step(make):
    transfer = make()
    for num_samples in (4, 2, 6):  # buffers serve smaller batches, and grow
        batch, vectors = make_batch(num_samples), make_vectors(num_samples)
        sent = transfer.send(batch, vectors)
        assert torch.equal(sent.ids.values_N, batch.ids.values_N)
        assert torch.equal(sent.ids.offsets, batch.ids.offsets)
        assert torch.equal(sent.ids.weights_N, batch.ids.weights_N)
        assert torch.equal(sent.dense["age"], batch.dense["age"])
        assert torch.equal(sent.weights_B, batch.weights_B)
        assert torch.equal(sent.label("click"), batch.label("click"))
        assert all(torch.equal(sent.embedded[name], x) for name, x in vectors.items())
        (sent.embedded["dim 3"].square().sum()).backward()
        transfer.copy_gradients_back(sent, vectors)
        assert torch.equal(vectors["dim 3"].grad, 2 * vectors["dim 3"].detach())
        assert vectors["unused"].grad is None


def test_what_was_sent_is_not_overwritten_by_the_next_batch():
    transfer = StagedTransfer(CPU)
    batch, vectors = make_batch(3, weighted=False), make_vectors(3)
    sent = transfer.send(batch, vectors)
    transfer.send(make_batch(3, weighted=False), make_vectors(3))
    assert torch.equal(sent.dense["age"], batch.dense["age"])
    assert torch.equal(sent.embedded["dim 3"], vectors["dim 3"])
    assert sent.weights_B is None
    assert sent.ids.weights_N is None


def test_nothing_is_copied_where_the_tables_are():
    transfer = transfer_to(CPU)
    batch, vectors = make_batch(3), make_vectors(3)
    sent = transfer.send(batch, vectors)
    assert sent.ids is batch.ids
    assert sent.embedded is vectors
