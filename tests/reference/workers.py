"""Async and geo workers of servers, written down in numpy for ``unit.parallel.linear.Linear``.

One embedding row per sample, one linear layer, logistic loss, SGD.
"""

import copy

import numpy as np


class Weights:
    """Rows by id and the dense weights; a row that is missing is made by ``new_row``."""

    def __init__(self, dense, new_row):
        self.dense = np.array(dense, np.float32)  # bias, then two weights
        self.rows = {}
        self._new_row = new_row

    def row(self, one):
        return self.rows.setdefault(one, self._new_row(one).copy())

    def gradients(self, ids):
        """Return the gradients of the mean loss: dense, and rows by id; odd ids are clicked."""
        dense = np.zeros(3, np.float64)
        rows = {}
        for one in ids:
            row, weight = self.row(one), self.dense[1:]
            logit = float(row @ weight + self.dense[0])
            error = (1 / (1 + np.exp(-logit)) - one % 2) / len(ids)
            dense += error * np.array([1, *row])
            rows[one] = rows.get(one, 0) + error * weight
        return dense, rows

    def step(self, ids, *, lr):
        dense, rows = self.gradients(ids)
        self.apply(dense, rows, lr=lr)

    def apply(self, dense, rows, *, lr):
        self.dense = self.dense - lr * dense
        for one, grad in rows.items():
            self.rows[one] = self.row(one) - lr * grad


class AsyncWorkers:
    """Every push is applied as it arrives, to whatever the servers have by then."""

    def __init__(self, servers, *, lr):
        self.servers = servers
        self.lr = lr

    def train(self, _worker, ids):
        self.servers.step(ids, lr=self.lr)

    def end_pass(self):
        pass


class GeoWorkers:
    """Workers with weights of their own, which send differences every few steps."""

    def __init__(self, servers, *, num_workers, push_steps, lr):
        self.servers = servers
        self.own = [copy.deepcopy(servers) for _ in range(num_workers)]
        self.base = [copy.deepcopy(servers) for _ in range(num_workers)]
        self.touched = [set() for _ in range(num_workers)]
        self.is_synced = [False] * num_workers
        self.num_steps = [0] * num_workers
        self.push_steps = push_steps
        self.lr = lr

    def train(self, worker, ids):
        own, base = self.own[worker], self.base[worker]
        if not self.is_synced[worker]:
            own.dense = own.dense + (self.servers.dense - base.dense)
            base.dense = self.servers.dense
            self.is_synced[worker] = True
        for one in set(ids) - self.touched[worker]:
            own.rows[one] = own.row(one) + (self.servers.row(one) - base.row(one))
            base.rows[one] = self.servers.row(one)
        self.touched[worker] |= set(ids)
        own.step(ids, lr=self.lr)
        self.num_steps[worker] += 1
        if self.num_steps[worker] % self.push_steps == 0:
            self._push(worker, self.touched[worker], 1 / len(self.own))

    def end_pass(self):
        for worker in range(len(self.own)):
            if self.touched[worker]:
                self._push(worker, self.touched[worker], 1 / len(self.own))
            self._push(worker, set(self.own[worker].rows), 1.0)

    def _push(self, worker, ids, share):
        own, base = self.own[worker], self.base[worker]
        delta = (own.dense - base.dense) * share
        base.dense = base.dense + delta
        self.servers.dense = self.servers.dense + delta
        for one in ids:
            delta = (own.row(one) - base.row(one)) * share
            base.rows[one] = base.row(one) + delta
            self.servers.rows[one] = self.servers.row(one) + delta
        self.touched[worker] = set()
        self.is_synced[worker] = False
