"""A slow, obvious twin of a store: a dict of rows, one number at a time."""

import dataclasses

import numpy as np
import torch

from reference.fold_id import fold_id
from reference.initialize import initial_rows
from reference.row_optimizer import OPTIMIZERS


@dataclasses.dataclass
class _Row:
    weights: list[float]
    state: list[float]
    show: float = 0.0


class ReferenceStore:
    """Keeps the Store contract; numbers are rounded to float32 where the fast store keeps them."""

    def __init__(self, table, optimizer, *, seed):
        self._table = table
        self._optimizer = OPTIMIZERS[optimizer]()
        self._seed = seed
        self._rows = {}

    def __len__(self):
        return len(self._rows)

    def pull(self, ids_N, *, create):
        ids = self._row_ids(ids_N)
        for i in ids:
            if create:
                self._rows.setdefault(i, self._new_row(i)).show += 1.0
        zeros = [0.0] * self._table.dim
        pulled = [self._rows[i].weights if i in self._rows else zeros for i in ids]
        return torch.tensor(np.array(pulled, np.float32).reshape(-1, self._table.dim))

    def push(self, ids_N, grads_ND, *, lr):
        summed = {}
        for i, grad in zip(self._row_ids(ids_N), grads_ND.tolist(), strict=True):
            summed[i] = [a + b for a, b in zip(summed.get(i, [0.0] * len(grad)), grad, strict=True)]
        for i, grad in summed.items():
            row = self._rows.get(i)
            if row is not None:
                weights, state = self._optimizer.update(row.weights, row.state, grad, lr)
                row.weights, row.state = _rounded(weights), _rounded(state)

    def evict(self, ids_N):
        for i in ids_N.tolist():
            self._rows.pop(i, None)

    def snapshot(self):
        ids = sorted(self._rows, key=lambda i: i % 2**64)
        rows = [self._rows[i] for i in ids]
        size, dim = len(ids), self._table.dim
        state = np.array([row.state for row in rows], np.float32)
        return {
            "ids": torch.tensor(ids, dtype=torch.int64),
            "rows": torch.tensor(
                np.array([r.weights for r in rows], np.float32).reshape(size, dim)
            ),
            "state": torch.tensor(state.reshape(size, len(self._optimizer.new_state(dim)))),
            "shows": torch.tensor([row.show for row in rows], dtype=torch.float32),
            "clicks": torch.zeros(size),
            "last_seen": torch.zeros(size, dtype=torch.uint32),
            "candidate_ids": torch.zeros(0, dtype=torch.int64),
            "candidate_last_seen": torch.zeros(0, dtype=torch.uint32),
            "candidate_counts": torch.zeros(0, dtype=torch.uint32),
        }

    def restore(self, tensors):
        self._rows = {}
        for place, i in enumerate(tensors["ids"].tolist()):
            row = self._new_row(i)
            row.weights = tensors["rows"][place].tolist()
            if "state" in tensors:
                row.state = tensors["state"][place].tolist()
                row.show = float(tensors["shows"][place])
            self._rows[i] = row

    def _row_ids(self, ids_N):
        if self._table.out_of_range == "error":
            return ids_N.tolist()
        return [fold_id(i, self._table.num_rows) for i in ids_N.tolist()]

    def _new_row(self, i):
        weights = initial_rows(self._table, torch.tensor([i]), seed=self._seed)[0].tolist()
        return _Row(weights=weights, state=self._optimizer.new_state(self._table.dim))


def _rounded(values):
    return [float(np.float32(value)) for value in values]
