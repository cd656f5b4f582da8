"""From the ids of a batch to pooled vectors, and from their gradient back to the rows."""

# Shape suffixes: B samples, F features of a group, N ids, U unique ids, D width of a row.

import dataclasses
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from fleetrec.core.batch import Batch
from fleetrec.core.errors import DataError
from fleetrec.core.jagged import Jagged
from fleetrec.embedding.collection import Combiner, EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.store import Store
from fleetrec.embedding.table import TableConfig


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Pooling:
    """How the rows of one table went into the vectors of one group."""

    table: str
    group: str
    unique_U: Tensor
    inverse_N: Tensor
    bags_N: Tensor
    weights_N: Tensor | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LookedUp:
    """The vectors of one batch and what is needed to give their gradient back."""

    vectors: Mapping[str, Tensor]
    poolings: Sequence[_Pooling]


class Lookup:
    """Binds the embeddings of a model to the stores that hold the rows."""

    def __init__(self, collection: EmbeddingCollection, stores: Mapping[str, Store]) -> None:
        self._collection = collection
        self._stores = stores

    def pull(self, batch: Batch, *, training: bool) -> LookedUp:
        """Look up and pool; in training new rows are created and gradients are recorded."""
        vectors: dict[str, Tensor] = {}
        poolings: list[_Pooling] = []
        for group, features in self._collection.groups.items():
            dim = self._collection.group_dim(group)
            pooled_RD = torch.zeros(batch.num_samples * len(features), dim)
            for table in dict.fromkeys(feature.table for feature in features):
                pooling = self._pooling(batch, group, table)
                rows_UD = self._stores[table].pull(pooling.unique_U, create=training)
                rows_ND = rows_UD[pooling.inverse_N]
                if pooling.weights_N is not None:
                    rows_ND = rows_ND * pooling.weights_N[:, None]
                pooled_RD.index_add_(0, pooling.bags_N, rows_ND)
                poolings.append(pooling)
            vectors[group] = pooled_RD.view(batch.num_samples, -1).requires_grad_(training)
        return LookedUp(vectors=vectors, poolings=poolings)

    def push(self, looked_up: LookedUp, *, lr: float, frozen: frozenset[str] = frozenset()) -> None:
        """Sum the gradient of the vectors per id and apply it, except in ``frozen`` tables."""
        for pooling in looked_up.poolings:
            grad_BE = looked_up.vectors[pooling.group].grad
            if grad_BE is None or pooling.table in frozen:
                continue
            dim = self._collection.group_dim(pooling.group)
            grads_ND = grad_BE.reshape(-1, dim)[pooling.bags_N]
            if pooling.weights_N is not None:
                grads_ND = grads_ND * pooling.weights_N[:, None]
            grads_UD = torch.zeros(len(pooling.unique_U), dim)
            grads_UD.index_add_(0, pooling.inverse_N, grads_ND)
            self._stores[pooling.table].push(pooling.unique_U, grads_UD, lr=lr)

    def _pooling(self, batch: Batch, group: str, table: str) -> _Pooling:
        features = self._collection.groups[group]
        ids, bags, weights = [], [], []
        for place, feature in enumerate(features):
            if feature.table != table:
                continue
            jagged = _ids_of(batch, feature)
            _check_range(jagged, feature, self._collection.tables[table])
            samples_B = torch.arange(batch.num_samples)
            lengths_B = jagged.lengths()
            ids.append(jagged.values)
            bags.append((samples_B * len(features) + place).repeat_interleave(lengths_B))
            weights.append(_weights(feature.combiner, lengths_B))
        unique_U, inverse_N = torch.unique(torch.cat(ids), return_inverse=True)
        plain = all(w is None for w in weights)
        filled = [torch.ones(len(i)) if w is None else w for i, w in zip(ids, weights, strict=True)]
        return _Pooling(
            table=table,
            group=group,
            unique_U=unique_U,
            inverse_N=inverse_N,
            bags_N=torch.cat(bags),
            weights_N=None if plain else torch.cat(filled),
        )


def _ids_of(batch: Batch, feature: EmbeddedFeature) -> Jagged:
    if feature.feature not in batch.ids:
        raise DataError(f"the model looks up {feature.feature!r}; the data has {list(batch.ids)}")
    return batch.ids[feature.feature]


def _check_range(jagged: Jagged, feature: EmbeddedFeature, table: TableConfig) -> None:
    if table.num_rows is None:
        return
    ids = jagged.values
    bad = ids[(ids < 0) | (ids >= table.num_rows)]
    if len(bad):
        raise DataError(
            f"slot {feature.feature!r}: id {int(bad[0]) % 2**64} is outside [0, {table.num_rows}); "
            f"raise sparse_feature_number, or let table {table.name!r} grow with "
            "distributed_embedding: 1"
        )


def _weights(combiner: Combiner, lengths_B: Tensor) -> Tensor | None:
    """Return what each id of a list counts, or None if all count 1."""
    if combiner == "sum":
        return None
    counts_N = lengths_B.repeat_interleave(lengths_B).to(torch.float32)
    return 1.0 / (counts_N.sqrt() if combiner == "sqrtn" else counts_N)
