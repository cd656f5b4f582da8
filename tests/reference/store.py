"""A slow, obvious twin of a store: a dict of rows, one number at a time."""

import math

import numpy as np
import torch

from fleetrec.embedding.initialize import initial_rows

EPS_ADAGRAD = 1e-6
BETA1, BETA2, EPS_ADAM = 0.9, 0.999, 1e-8
STATE = {"sgd": (), "adagrad": ("sum",), "adam": ("exp_avg", "exp_avg_sq", "step")}


class ReferenceStore:
    """Keeps the Store contract. Each row is a dict of lists of float32."""

    def __init__(self, table, optimizer, *, seed):
        self._table = table
        self._optimizer = optimizer
        self._seed = seed
        self._rows = {}

    def __len__(self):
        return len(self._rows)

    def pull(self, ids_N, *, create):
        pulled = []
        for i in ids_N.tolist():
            if i not in self._rows and create:
                self._rows[i] = self._new_row(i)
            zeros = [np.float32(0.0)] * self._table.dim
            pulled.append(self._rows[i]["rows"] if i in self._rows else zeros)
        return torch.tensor(np.array(pulled, np.float32).reshape(-1, self._table.dim))

    def push(self, ids_N, grads_ND, *, lr):
        for i, grads in zip(ids_N.tolist(), grads_ND.tolist(), strict=True):
            row = self._rows[i]
            if self._optimizer == "adam":
                row["step"][0] += np.float32(1.0)
            for d, grad in enumerate(grads):
                row["rows"][d] = np.float32(row["rows"][d] - lr * self._move(row, d, grad))

    def snapshot(self):
        ids = sorted(self._rows, key=lambda i: i % 2**64)
        columns = {
            name: np.array([self._rows[i][name] for i in ids], np.float32)
            for name in ("rows", *STATE[self._optimizer])
        }
        tensors = {
            name: torch.tensor(column.reshape(len(ids), self._width(name)))
            for name, column in columns.items()
        }
        return {"ids": torch.tensor(ids, dtype=torch.int64), **tensors}

    def restore(self, tensors):
        names = [name for name in tensors if name != "ids"]
        self._rows = {
            i: {name: [np.float32(x) for x in tensors[name][place].tolist()] for name in names}
            for place, i in enumerate(tensors["ids"].tolist())
        }

    def _new_row(self, i):
        rows = initial_rows(self._table, torch.tensor([i]), seed=self._seed)[0].tolist()
        row = {"rows": [np.float32(x) for x in rows]}
        for name in STATE[self._optimizer]:
            row[name] = [np.float32(0.0)] * self._width(name)
        return row

    def _width(self, name):
        return 1 if name == "step" else self._table.dim

    def _move(self, row, d, grad):
        """Return what one element moves by at a learning rate of 1, updating its state."""
        if self._optimizer == "sgd":
            return grad
        if self._optimizer == "adagrad":
            row["sum"][d] = np.float32(row["sum"][d] + grad * grad)
            return grad / (math.sqrt(row["sum"][d]) + EPS_ADAGRAD)
        row["exp_avg"][d] = np.float32(BETA1 * float(row["exp_avg"][d]) + (1 - BETA1) * grad)
        row["exp_avg_sq"][d] = np.float32(
            BETA2 * float(row["exp_avg_sq"][d]) + (1 - BETA2) * grad * grad
        )
        step = float(row["step"][0])
        mean = float(row["exp_avg"][d]) / (1 - BETA1**step)
        mean_sq = float(row["exp_avg_sq"][d]) / (1 - BETA2**step)
        return mean / (math.sqrt(mean_sq) + EPS_ADAM)
