"""The state of a model that parameter servers hold."""

import secrets
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fleetrec.core.errors import CheckpointError
from fleetrec.core.fault_points import fault_point
from fleetrec.embedding.record import ParentRecord, ShardRecord, TableRecord
from fleetrec.embedding.sharding import merge_table_records, num_shards_each, sum_stats
from fleetrec.optim.dense import follows_steps
from fleetrec.parallel.dense_local import load_fitting_weights, load_model_weights
from fleetrec.parallel.held_state import fitting_tables, require_table
from fleetrec.parallel.state import STEP, DenseState, SavedModel, TableStats
from fleetrec.parallel.worker_payload import decode_payload
from fleetrec.parallel.worker_session import WorkerSession
from fleetrec.server.admin_client import ServersCut
from fleetrec.server.dense import NUM_STEPS, WEIGHTS
from fleetrec.server.parameter_client import ParameterClient
from fleetrec.server.wire import Array


class ServerCut:
    """What the servers held at one moment; see ``StateCut``. The chief makes it."""

    def __init__(
        self, client: ParameterClient, cut: ServersCut, *, token: str, parent: str | None
    ) -> None:
        self._client = client
        self._cut = cut
        self._token = token
        self._parents = {
            name: ParentRecord(path=parent, fingerprint=fingerprints.pop())
            for name, parts in cut.tables.items()
            if parent is not None
            and len(fingerprints := {part["fingerprint"] for part in parts}) == 1
            and None not in fingerprints
        }
        self._fingerprints: dict[str, str] = {}
        self.dense: DenseState = {}
        self.worker_progress = [decode_payload(one)[0] for one in cut.worker_progress]

    def write(self, target: str) -> dict[str, TableRecord]:
        """Let every server write its files; see ``StateCut.write``."""
        tables = {
            name: {"shards_each": self._shards_each(name), "parent": self._fingerprint(name)}
            for name in self._cut.tables
        }
        written = self._client.admin.save(self._token, target, tables)
        fault_point("save")
        records = {
            name: merge_table_records(
                self._client.stores[name].identity,
                [ShardRecord.model_validate(one[name]) for one in written],
                parent=self._parents.get(name),
            )
            for name in tables
        }
        self._fingerprints = {name: record.fingerprint for name, record in records.items()}
        return records

    def finish(self, *, published: bool, error: str = "") -> bool:  # noqa: ARG002
        """Let every server commit what was published; see ``StateCut.finish``."""
        self._client.admin.commit(self._token, published=published, fingerprints=self._fingerprints)
        return published

    def _fingerprint(self, name: str) -> str | None:
        return self._parents[name].fingerprint if name in self._parents else None

    def _shards_each(self, name: str) -> int:
        stats = [part["stats"] for part in self._cut.tables[name]]
        return num_shards_each(self._client.stores[name].config, stats)


class ServerState:
    """Tables and dense network of servers; buffers and untrained weights of this worker.

    Only the chief changes what servers hold, and only if no process before it has.
    """

    def __init__(
        self, session: WorkerSession, *, replaces_servers: bool, buffers: Mapping[str, Tensor]
    ) -> None:
        self._session = session
        self._client = session.client
        self._model = session.model
        self._flat = session.flat
        self._replaces_servers = replaces_servers
        self._buffers = buffers  # of the process that this one replaces
        self._restore_buffers()

    def variables(self) -> list[str]:
        """Return the names of parameters, buffers and tables."""
        return [*self._model.state_dict(), *self._client.stores]

    def stats(self) -> dict[str, TableStats]:
        """Return rows, candidates, bytes, created and evicted (also by rule) of growing tables."""
        growing = [n for n, store in self._client.stores.items() if store.config.num_rows is None]
        if not growing:
            return {}
        found = self._client.admin.stats()
        return {name: sum_stats([one[name] for one in found]) for name in growing}

    def cut(self, *, parent: str | None) -> ServerCut:
        """Fix what the servers hold when they have applied all steps of this worker."""
        self._session.wait_until_applied()
        token = secrets.token_hex(8)
        found = self._client.admin.cut(token)
        cut = ServerCut(self._client, found, token=token, parent=parent)
        cut.dense = self._to_tensors(found.dense)
        return cut

    def load(self, saved: SavedModel, *, exact: bool) -> None:
        """Load a model; see ``ModelState.load``."""
        load_model_weights(self._model, saved.tensors)
        if self._replaces_servers:
            tables = [require_table(saved.tables, name) for name in self._client.stores]
            try:
                self._client.admin.load(tables, exactly=exact)
            except CheckpointError:
                self.clear()
                raise
            slots = saved.tensors.get("optimizer", {}) if exact else {}
            self._client.admin.set_dense(self._to_arrays(slots))
        self._restore_buffers()

    def load_variables(self, saved: SavedModel, names: Collection[str]) -> list[str]:
        """Load the named variables that the checkpoint has in a fitting shape; returns those."""
        fit = load_fitting_weights(self._model, saved.tensors, list(names))
        widths = {name: store.dim for name, store in self._client.stores.items()}
        tables = fitting_tables(widths, saved.tables, names)
        if self._replaces_servers:
            self._client.admin.set_dense({WEIGHTS: self._flat.values()})
            self._client.admin.load([saved.tables[name] for name in tables], exactly=False)
        self._restore_buffers()
        return [*fit, *tables]

    def clear(self) -> None:
        """Delete all rows."""
        if self._replaces_servers:
            self._client.admin.clear()

    def export_rows(self) -> dict[str, dict[str, Tensor]]:
        """Return ids and rows of every table, in the order of unsigned ids."""
        rows = {}
        for name in self._client.stores:
            ids_N, rows_ND = self._client.admin.dump(name)
            rows[name] = {"ids": torch.from_numpy(ids_N), "rows": torch.from_numpy(rows_ND)}
        return rows

    def _restore_buffers(self) -> None:
        self._model.load_state_dict(dict(self._buffers), strict=False)

    def _to_tensors(self, dense: Mapping[str, Array]) -> DenseState:
        """Return the state of servers as one process has it; the live model is not touched."""
        weights = {name: t.detach().cpu().clone() for name, t in self._model.state_dict().items()}
        weights |= self._flat.by_name(dense[WEIGHTS])
        slots: dict[str, Tensor] = {}
        if any(map(follows_steps, self._client.model.optimizers)):
            slots[STEP] = torch.tensor(int(dense[NUM_STEPS][0]))
        for key in dense.keys() - {WEIGHTS, NUM_STEPS}:
            index, _, slot = key.partition("/")
            slots |= self._named_slots(int(index), slot, dense[key])
        state: dict[str, Mapping[str, Tensor]] = {"model": weights}
        if len(self._flat) or slots:
            state["optimizer"] = dict(sorted(slots.items()))
        return state

    def _named_slots(self, optimizer: int, slot: str, values_P: Array) -> dict[str, Tensor]:
        if slot == "step":  # one number for all
            names = self._flat.names(optimizer=optimizer)
            return {f"{name}/{slot}": torch.tensor(float(values_P[0])) for name in names}
        named = self._flat.by_name(np.ascontiguousarray(values_P), optimizer=optimizer)
        return {f"{name}/{slot}": value for name, value in named.items()}

    def _to_arrays(self, slots: Mapping[str, Tensor]) -> dict[str, Any]:
        """Return the weights of the model and optimizer slots as servers keep them."""
        dense: dict[str, Any] = {WEIGHTS: self._flat.values()}
        if STEP in slots:
            dense[NUM_STEPS] = np.array([float(slots[STEP])], np.float32)
        by_slot: dict[str, dict[str, Tensor]] = {}
        for name, value in slots.items():
            parameter, _, slot = name.rpartition("/")
            if parameter:
                by_slot.setdefault(slot, {})[parameter] = value
        for index in range(len(self._flat.sizes)):
            names = self._flat.names(optimizer=index)
            for slot, values in by_slot.items():
                if not names or not all(name in values for name in names):
                    continue
                if slot == "step":
                    dense[f"{index}/{slot}"] = np.array([float(values[names[0]])], np.float32)
                else:
                    dense[f"{index}/{slot}"] = self._flat.from_names(values, optimizer=index)
        return dense
