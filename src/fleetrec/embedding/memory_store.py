"""A store in the memory of this process: a dict from id to place, rows in growing tensors."""

# Shape suffixes: N ids, D width of a row.

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from fleetrec.core.errors import CheckpointError
from fleetrec.embedding.initialize import initial_rows
from fleetrec.embedding.row_optimizer import RowOptimizer
from fleetrec.embedding.table import TableConfig


class MemoryStore:
    """Keeps the Store contract in one process and one thread."""

    def __init__(self, table: TableConfig, optimizer: RowOptimizer, *, seed: int) -> None:
        self._table = table
        self._optimizer = optimizer
        self._seed = seed
        self._places: dict[int, int] = {}
        self._columns = self._empty(capacity=1024)

    def __len__(self) -> int:
        return len(self._places)

    def pull(self, ids_N: Tensor, *, create: bool) -> Tensor:
        """Return rows_ND of unique ids; see ``Store.pull``."""
        places_N = self._places_of(ids_N)
        if create and bool((places_N < 0).any()):
            self._create(ids_N[places_N < 0])
            places_N = self._places_of(ids_N)
        is_known_N = places_N >= 0
        rows_ND = torch.zeros(len(ids_N), self._table.dim)
        rows_ND[is_known_N] = self._columns["rows"][places_N[is_known_N]]
        return rows_ND

    def push(self, ids_N: Tensor, grads_ND: Tensor, *, lr: float) -> None:
        """Apply one summed gradient per unique id; see ``Store.push``."""
        places_N = self._places_of(ids_N)
        assert not bool((places_N < 0).any()), "pushed an id that was never pulled"
        touched = {name: column[places_N] for name, column in self._columns.items()}
        rows_ND = touched.pop("rows")
        self._optimizer.update(rows_ND, touched, grads_ND, lr=lr)
        for name, values in (("rows", rows_ND), *touched.items()):
            self._columns[name][places_N] = values

    def snapshot(self) -> dict[str, Tensor]:
        """Return ids, rows and state; see ``Store.snapshot``."""
        ids = np.fromiter(self._places, np.int64, len(self._places))
        order = torch.from_numpy(np.argsort(ids.view(np.uint64)))
        taken = {name: column[: len(self)][order] for name, column in self._columns.items()}
        return {"ids": torch.from_numpy(ids)[order], **taken}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Replace all rows; with ids and rows alone, state begins anew."""
        if tensors.keys() == {"ids", "rows"}:
            fresh = self._empty(capacity=len(tensors["ids"]))
            tensors = {**fresh, **tensors}
        if tensors.keys() != {"ids", *self._columns}:
            raise CheckpointError(
                f"table {self._table.name}: the snapshot holds {sorted(tensors)}, "
                f"this optimizer needs {sorted(('ids', *self._columns))}"
            )
        width = tensors["rows"].shape[1]
        if width != self._table.dim:
            raise CheckpointError(
                f"table {self._table.name}: rows in the snapshot are {width} wide, "
                f"the model wants {self._table.dim}"
            )
        ids = tensors["ids"].tolist()
        shapes = {name: tuple(tensors[name].shape) for name in self._columns}
        wanted = {name: (len(ids), column.shape[1]) for name, column in self._columns.items()}
        if shapes != wanted:
            raise CheckpointError(
                f"table {self._table.name}: the snapshot has shapes {shapes}, expected {wanted}"
            )
        self._places = dict(zip(ids, range(len(ids)), strict=True))
        self._columns = {name: tensors[name].clone() for name in self._columns}

    def _empty(self, *, capacity: int) -> dict[str, Tensor]:
        dims = {"rows": self._table.dim}
        dims |= {name: dim or self._table.dim for name, dim in self._optimizer.state_dims.items()}
        return {name: torch.zeros(capacity, dim) for name, dim in dims.items()}

    def _places_of(self, ids_N: Tensor) -> Tensor:
        get = self._places.get
        return torch.tensor([get(i, -1) for i in ids_N.tolist()], dtype=torch.int64)

    def _create(self, ids_N: Tensor) -> None:
        first = len(self)
        needed = first + len(ids_N)
        if needed > len(self._columns["rows"]):
            grown = self._empty(capacity=2 * needed)
            for name, column in self._columns.items():
                grown[name][:first] = column[:first]
            self._columns = grown
        self._places.update(zip(ids_N.tolist(), range(first, needed), strict=True))
        self._columns["rows"][first:needed] = initial_rows(self._table, ids_N, seed=self._seed)
