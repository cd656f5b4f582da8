"""A slow, obvious twin of a lookup: one list after the other, one number at a time."""

import itertools
import math

import numpy as np
import torch


class ReferenceLookup:
    """Does what ``fleetrec.embedding.lookup.Lookup`` does, over stores that are slow twins too."""

    def __init__(self, collection, stores, *, frozen=()):
        self._collection = collection
        self._stores = stores
        self._frozen = frozen

    def pull(self, batch, *, training):
        """Return what ``Batch.embedded`` will hold."""
        for feature in self._collection.features:
            create = training and feature.table not in self._frozen
            for _, ids, _ in self._lists(batch, feature):
                self._rows(feature, ids, create=create)
        vectors = {}
        for key, group in self._collection.groups.items():
            pooled = [self._pool(batch, feature, group.dim) for feature in group.pooled]
            if pooled:
                vectors[key] = torch.cat(pooled, dim=1)
            for feature in group.sequences:
                lists = [ids for _, ids, _ in self._lists(batch, feature)]
                lengths = [len(ids) for ids in lists]
                x = torch.zeros(len(lists), max([1, *lengths]), group.dim)
                for sample, ids in enumerate(lists):
                    x[sample, : len(ids)] = self._rows(feature, ids)
                vectors[f"sequence_{feature.name}"] = x
                vectors[f"lengths_{feature.name}"] = torch.tensor(lengths, dtype=torch.int64)
        return vectors

    def push(self, batch, grads, *, lr):
        """Apply gradients by the names of ``pull``; what is not there has none."""
        for table, store in self._stores.items():
            ids_of_table, grads_of_table = [], []
            for feature in self._collection.features:
                if feature.table == table and table not in self._frozen:
                    for i, grad in self._grads(batch, feature, grads):
                        ids_of_table.append(i)
                        grads_of_table.append(grad)
            if ids_of_table:
                ids_N = torch.tensor(ids_of_table, dtype=torch.int64)
                store.push(ids_N, torch.tensor(grads_of_table, dtype=torch.float64), lr=lr)

    def _pool(self, batch, feature, dim):
        pooled = []
        for _, ids, weights in self._lists(batch, feature):
            scales = _scales(feature.combiner, weights)
            total = [0.0] * dim
            for scale, row in zip(scales, self._rows(feature, ids).tolist(), strict=True):
                total = [a + scale * b for a, b in zip(total, row, strict=True)]
            pooled.append(total)
        return torch.tensor(np.array(pooled, np.float32).reshape(-1, dim))

    def _grads(self, batch, feature, grads):
        for key, group in self._collection.groups.items():
            if feature in group.pooled and key in grads:
                begin = group.pooled.index(feature) * group.dim
                for sample, ids, weights in self._lists(batch, feature):
                    grad = grads[key][sample, begin : begin + group.dim].tolist()
                    for i, scale in zip(ids, _scales(feature.combiner, weights), strict=True):
                        yield i, [scale * g for g in grad]
            if feature in group.sequences and f"sequence_{feature.name}" in grads:
                grads_BLD = grads[f"sequence_{feature.name}"]
                for sample, ids, _ in self._lists(batch, feature):
                    yield from zip(ids, grads_BLD[sample].tolist(), strict=False)

    def _rows(self, feature, ids, *, create=False):
        return self._stores[feature.table].pull(torch.tensor(ids, dtype=torch.int64), create=create)

    def _lists(self, batch, feature):
        jagged = batch.ids[feature.feature]
        values = jagged.values.tolist()
        weights = [1.0] * len(values) if jagged.weights is None else jagged.weights.tolist()
        for sample, (begin, end) in enumerate(itertools.pairwise(jagged.offsets.tolist())):
            first = max(begin, end - feature.max_length) if feature.max_length else begin
            yield sample, values[first:end], weights[first:end]


def _scales(combiner, weights):
    divisor = {
        "sum": 1.0,
        "mean": sum(weights),
        "sqrtn": math.sqrt(sum(w * w for w in weights)),
    }[combiner]
    return [weight / divisor if divisor else 0.0 for weight in weights]
