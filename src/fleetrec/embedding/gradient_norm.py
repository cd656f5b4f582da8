"""The norm of the gradient of all rows of a batch."""

# Shape suffixes: B samples, N ids, L longest list, D width of a row.

from collections.abc import Mapping

import torch
from torch import Tensor

from fleetrec.core.batch import Batch
from fleetrec.core.jagged import Jagged
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection


def row_gradient_squares(
    collection: EmbeddingCollection, batch: Batch, vectors: Mapping[str, Tensor]
) -> float:
    """Return the sum of squares over the gradients of all rows, summed per feature and id.

    ``vectors`` are the looked-up vectors, with gradients.
    """
    total = 0.0
    for key, group in collection.groups.items():
        ids = batch.side(group.side).ids
        for place, feature in enumerate(group.pooled):
            grad = vectors[key].grad
            if grad is not None:
                grad_BD = grad[:, place * group.dim : (place + 1) * group.dim]
                jagged = ids[feature.feature]
                total += _squares(jagged.values, _pooled(jagged, feature, grad_BD))
        for feature in group.sequences:
            grad = vectors[feature.sequence_input].grad
            if grad is not None:
                lengths_B = vectors[feature.lengths_input]
                total += _squares(*_sequence(ids[feature.feature], lengths_B, grad))
    return total


def _pooled(jagged: Jagged, feature: EmbeddedFeature, grad_BD: Tensor) -> Tensor:
    """Return grads_ND of the single ids."""
    lengths_B = jagged.lengths()
    samples_N = torch.repeat_interleave(torch.arange(len(lengths_B)), lengths_B)
    weights_N = jagged.weights if jagged.weights is not None else torch.ones(len(jagged.values))
    sums_B = torch.zeros(len(lengths_B))
    if feature.combiner == "mean":
        weights_N = weights_N / sums_B.index_add(0, samples_N, weights_N)[samples_N]
    elif feature.combiner == "sqrtn":
        sums_B = sums_B.index_add(0, samples_N, weights_N.square())
        weights_N = weights_N / sums_B.sqrt()[samples_N]
    return grad_BD[samples_N] * weights_N.unsqueeze(1)


def _sequence(jagged: Jagged, lengths_B: Tensor, grad_BLD: Tensor) -> tuple[Tensor, Tensor]:
    """Return the last ids of each list, up to the maximum length, and grads_ND."""
    all_B = jagged.lengths()
    from_end_N = torch.repeat_interleave(jagged.offsets[1:], all_B) - torch.arange(
        len(jagged.values)
    )
    kept_N = from_end_N <= torch.repeat_interleave(lengths_B, all_B)
    mask_BL = torch.arange(grad_BLD.shape[1]) < lengths_B.unsqueeze(1)
    return jagged.values[kept_N], grad_BLD[mask_BL]


def _squares(ids_N: Tensor, grads_ND: Tensor) -> float:
    _, places_N = torch.unique(ids_N, return_inverse=True)
    num_rows = int(places_N.max()) + 1 if len(places_N) else 0
    sums_ND = torch.zeros(num_rows, grads_ND.shape[1]).index_add(0, places_N, grads_ND)
    return float(sums_ND.square().sum())
