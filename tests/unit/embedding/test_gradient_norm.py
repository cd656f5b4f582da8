import pytest
import torch

from fleetrec.core.batch import Batch
from fleetrec.core.cursor import Cursor
from fleetrec.core.jagged import KeyedJagged
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.gradient_norm import row_gradient_squares
from fleetrec.embedding.table import TableConfig

IDS = [[3, 5, 3], [], [5]]
WEIGHTS = torch.tensor([0.5, 2.0, 1.0, 3.0])


def keyed(weights=None):
    offsets = [0]
    for one in IDS:
        offsets.append(offsets[-1] + len(one))
    return KeyedJagged(
        names=("f",),
        values_N=torch.tensor([one for ids in IDS for one in ids]),
        offsets=torch.tensor(offsets),
        num_samples=len(IDS),
        weights_N=weights,
    )


def batch(weights=None):
    return Batch(ids=keyed(weights), dense={}, cursor=Cursor())


def collection(combiner, **options):
    return EmbeddingCollection(
        features=[EmbeddedFeature(feature="f", table="t", combiner=combiner, **options)],
        tables=[TableConfig(name="t", dim=2)],
    )


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_pooled_rows_get_what_autograd_gives_them(combiner, weights):
    rows = torch.randn(10, 2, generator=torch.Generator().manual_seed(0), requires_grad=True)
    grad = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    used, at = weights if weights is not None else torch.ones(4), 0
    total = torch.zeros(())
    for sample, ids in enumerate(IDS):
        own = used[at : at + len(ids)]
        at += len(ids)
        scale = {"sum": torch.ones(()), "mean": own.sum(), "sqrtn": own.square().sum().sqrt()}
        if ids:
            pooled = (rows[torch.tensor(ids)] * own.unsqueeze(1)).sum(0) / scale[combiner]
            total = total + (pooled * grad[sample]).sum()
    total.backward()
    vectors = torch.zeros(3, 2, requires_grad=True)
    vectors.grad = grad
    found = row_gradient_squares(collection(combiner), batch(weights), {"embedded_2": vectors})
    assert found == pytest.approx(float(rows.grad.square().sum()), rel=1e-5)


def test_of_a_sequence_the_elements_that_count_are_summed_by_id():
    chosen = collection("none", max_length=2)
    x_BLD = torch.zeros(3, 2, 2, requires_grad=True)
    x_BLD.grad = torch.arange(12.0).reshape(3, 2, 2)
    vectors = {"sequence_f": x_BLD, "lengths_f": torch.tensor([2, 0, 1])}
    # Of 3, 5, 3 the last two count: 5 has [0, 1] there and [8, 9] in the third sample.
    expected = (0 + 8) ** 2 + (1 + 9) ** 2 + 2**2 + 3**2
    assert row_gradient_squares(chosen, batch(), vectors) == pytest.approx(expected)
