"""Ranks make every step together: the dense network is copied, tables are copied or spread."""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor

from fleetrec.checkpoint.staging import Staging
from fleetrec.config.job import ClusterOptions, OptimizerOptions, UpdateOptions
from fleetrec.core.batch import Batch, Inputs
from fleetrec.core.cursor import Cursor
from fleetrec.core.errors import CheckpointError, FleetRecError
from fleetrec.embedding.lookup import LookedUp
from fleetrec.embedding.native_store import ALL_BUCKETS, identity_of
from fleetrec.embedding.placement import is_replicated
from fleetrec.embedding.record import StoredTable, WrittenTable
from fleetrec.embedding.remote_lookup import (
    BatchRows,
    RemoteLookedUp,
    RemoteLookup,
    Rows,
    RowUpdate,
    UniqueIds,
)
from fleetrec.embedding.table import TableConfig
from fleetrec.models.base import Model
from fleetrec.parallel.announce import Announced, Announcer
from fleetrec.parallel.blank import blank_batch, weight_of
from fleetrec.parallel.network import trained_together
from fleetrec.parallel.parts import num_shards_each, record_of_parts, sum_stats
from fleetrec.parallel.ranks import Ranks, Traffic
from fleetrec.parallel.row_exchange import RowExchange, Sent
from fleetrec.parallel.saved import table_of
from fleetrec.parallel.single import ONE_OPTIMIZER, SingleStrategy
from fleetrec.parallel.strategy import SavedPhase, State, Step
from fleetrec.server.shard import load_portion, write_portion
from fleetrec.server.spec import Portion
from fleetrec.tasks.task import Outputs

ONE_PORTION = Portion(index=0, count=1)


class CollectiveStrategy(SingleStrategy):
    """One of several ranks that give together what one process gives with all their samples.

    The chief loads and saves. Meanwhile the others wait in ``gather`` and do what it orders.
    """

    def __init__(  # noqa: PLR0913 (what one process needs, and the ranks)
        self,
        model: Model,
        *,
        optimizer: OptimizerOptions,
        update: UpdateOptions = ONE_OPTIMIZER,
        device: torch.device,
        seed: int,
        frozen: Collection[str] = (),
        ranks: Ranks,
        options: ClusterOptions,
    ) -> None:
        if update.clip_norm:
            raise ValueError(
                "gradient_clipping_by_norm needs the gradient of all rows in one place; it is for "
                "one process"
            )
        collection = model.embedding_collection()
        self._ranks = ranks
        self._portion = Portion(index=ranks.index, count=ranks.count)
        tables = collection.tables.items()
        is_copied = {name: is_replicated(table, options.placement) for name, table in tables}
        self._spread = frozenset(name for name in is_copied if not is_copied[name])
        self._seed = seed
        super().__init__(
            model, optimizer=optimizer, update=update, device=device, seed=seed, frozen=frozen
        )
        self._remote = RemoteLookup(collection, self._stores, frozen=self._frozen)
        self._exchange = RowExchange(ranks, self._stores, spread=self._spread)
        self._announcer = Announcer(
            self._remote,
            self._exchange,
            ahead=self._exchange.on_other_line() if options.exchange_ahead else None,
        )
        self._network = trained_together(model)
        self._number = len(ranks.members)
        ranks.members.append(self)
        self._sent: Mapping[str, Sent] = {}
        self._place = b""
        self._share = 1.0  # of this rank in the loss of all, times their number

    @property
    def is_chief(self) -> bool:
        """Whether this is the rank that loads and saves for all."""
        return self._ranks.is_chief

    @property
    def traffic(self) -> Traffic:
        """What this rank has sent so far."""
        return self._ranks.traffic

    def keep(self, progress: bytes) -> None:
        """Say where the run stands; chance depends on that alone."""
        self._place = progress

    def agrees(self, wish: bool) -> bool:  # noqa: FBT001
        """Tell whether some rank wished it before the last step: all get the same answer."""
        self._ranks.wishes |= wish
        return self._ranks.is_agreed

    @property
    def looks_ahead(self) -> bool:
        """Whether the ids of the next batch travel while the current one is computed."""
        return self._announcer.is_ahead

    def expect(self, batch: Batch) -> None:
        """Be told what comes next."""
        self._announcer.expect(batch)

    def together(self, batches: Iterator[Batch], inputs: Inputs) -> Iterator[Batch]:
        """Yield own batches, and blank ones while other ranks have more."""
        self._announcer.drop()
        cursor = Cursor()
        for batch in batches:
            self._agree(weight_of(batch))
            yield batch
            cursor = batch.cursor
        while self._agree(0):
            yield blank_batch(inputs, cursor)

    def gather(self, name: str, content: bytes, *, number: int) -> list[bytes]:  # noqa: ARG002
        """Meet the other ranks; who is not the chief does until then what that one orders."""
        if self.is_chief:
            self._ranks.tell(b"null")
        else:
            while (order := json.loads(self._ranks.hear())) is not None:
                self._ranks.bring(self._ranks.members[order["model"]].obey(order))
        return self._ranks.gather(content)

    def train_step(self, batch: Batch) -> Step:
        """Learn from a batch, together with those of the other ranks."""
        place = f"{self._seed}/{self._ranks.index}/".encode() + self._place
        digest = hashlib.blake2b(place, digest_size=8).digest()
        torch.manual_seed(int.from_bytes(digest, "little"))
        self._ranks.traffic.num_steps += 1
        return super().train_step(batch)

    def table_stats(self) -> dict[str, dict[str, int]]:
        """Return the figures of every growing table; all ranks ask at the same time."""
        own = super().table_stats()
        if not own:
            return {}
        found = [json.loads(one) for one in self._ranks.gather(json.dumps(own).encode())]
        return {
            name: sum_stats([one[name] for one in found]) if name in self._spread else stats
            for name, stats in own.items()
        }

    def write_tables(
        self, staging: Staging, folder: str, *, parent: str | None
    ) -> dict[str, WrittenTable]:
        """Let all ranks write their files of spread tables, side by side; the chief the others."""
        assert parent is None, "ranks write whole tables"
        stats = self._order("figures")
        files: dict[str, tuple[int, int]] = {}
        for name in sorted(self._spread):
            num_files = num_shards_each(self._tables[name], [one["stats"][name] for one in stats])
            files[name] = (num_files, max(one["versions"][name] for one in stats))
        found = self._order("write", staging=staging.url, folder=folder, files=files)
        with staging.folder(folder) as directory:
            written = {
                name: store.write(directory / name, parent=None)
                for name, store in self._stores.items()
                if name not in self._spread
            }
        for name in files:
            identity = identity_of(self._tables[name], self._row_optimizer(name), seed=self._seed)
            record = record_of_parts(
                identity, [one[name] for one in found], [one["stats"][name] for one in stats]
            )
            written[name] = WrittenTable(record=record, commit=lambda: None)
        return {name: written[name] for name in self._tables}

    def load_tables(self, tables: Mapping[str, StoredTable]) -> None:
        """Take up tables exactly, on all ranks; after an error they are empty."""
        try:
            self._load([table_of(tables, name) for name in self._tables], exactly=True)
        except CheckpointError:
            self.clear_tables()
            raise

    def clear_tables(self) -> None:
        """Forget all rows, on all ranks."""
        self._order("clear")

    def load_state(self, state: State) -> None:
        """Take up weights and optimizer state exactly, on all ranks."""
        super().load_state(state)
        self._share_dense()

    def load_weights(self, saved: SavedPhase) -> None:
        """Take up model weights and rows on all ranks; optimizers begin anew."""
        self._load_dense(saved.tensors)
        self._share_dense()
        self._load([table_of(saved.tables, name) for name in self._tables], exactly=False)

    def load_variables(self, saved: SavedPhase, names: Collection[str]) -> list[str]:
        """Take up the named variables that the checkpoint has, on all ranks."""
        dense = [name for name in names if name not in self._tables]
        fit = super().load_variables(saved, dense)
        self._share_dense()
        tables = [name for name in names if self._fits(name, saved.tables)]
        self._load([saved.tables[name] for name in tables], exactly=False)
        return [*fit, *tables]

    def frozen_rows(self) -> dict[str, dict[str, Tensor]]:
        """Return ids and rows of every table, for an inference model."""
        frozen = {}
        for name, store in self._stores.items():
            if name not in self._spread:
                taken = store.snapshot()
            else:
                order = self._told("rows", table=name)
                parts = [load(part) for part in self._ranks.bring(self.obey(order))]
                taken = {column: torch.cat([p[column] for p in parts]) for column in parts[0]}
                order_N = np.argsort(taken["ids"].numpy().view(np.uint64), kind="stable")
                taken = {column: value[order_N] for column, value in taken.items()}
            frozen[name] = _ids_and_rows(taken)
        return frozen

    def close(self) -> None:
        """Leave the group."""
        self._ranks.close()

    def _agree(self, weight: int) -> bool:
        """Tell the others how much this rank has for the next step; False: nobody has anything."""
        total, wishes = self._ranks.sum([weight, int(self._ranks.wishes)])
        self._ranks.is_agreed = wishes > 0
        self._share = weight * self._ranks.count / max(total, 1)
        return total > 0

    def _buckets(self, table: TableConfig) -> tuple[int, int]:
        return self._portion.buckets if table.name in self._spread else ALL_BUCKETS

    def _pull(self, batch: Batch) -> LookedUp:
        announced = self._announcer.take(batch, self._clicks(batch))
        learning = announced.sent.items()
        self._sent = {name: its for name, its in learning if name not in self._frozen}
        self._exchange.see(self._sent, now=batch.event_time)
        looked_up = self._looked_up(batch, announced, training=True)
        self._announcer.begin_next(self._clicks)
        return looked_up

    def _look(self, batch: Batch) -> LookedUp:
        return self._looked_up(batch, self._announcer.announce(batch, None), training=False)

    def _looked_up(self, batch: Batch, announced: Announced, *, training: bool) -> RemoteLookedUp:
        rows = self._exchange.rows(announced.sent)
        listing = announced.listing
        if batch.is_blank:  # its ids stand for nothing
            rows = {name: self._no_rows(name, its) for name, its in listing.listed.items()}
        fetched = BatchRows(lookups=listing.lookups, listed=listing.listed, rows=rows)
        return self._remote.look_up(fetched, training=training)

    def _no_rows(self, table: str, listed: UniqueIds) -> Rows:
        size = len(listed.ids_N)
        return Rows(
            rows_ND=np.zeros((size, self._tables[table].dim), np.float32),
            is_there_N=np.zeros(size, np.uint8),
        )

    def _push(self, looked_up: LookedUp) -> None:
        assert isinstance(looked_up, RemoteLookedUp)
        steps = self._remote.sum(looked_up)
        for name, sent in self._sent.items():
            if not len(sent.listed.ids_N):  # also where the batch is blank
                none_MD = np.zeros((0, self._tables[name].dim), np.float32)
                steps[name] = RowUpdate(ids=sent.listed, grads_MD=none_MD)
        by_group = self._row_rates()
        rates = {
            feature.table: by_group[key]
            for key, group in self._collection.groups.items()
            for feature in group.features
        }
        self._exchange.push(self._sent, steps, scale=1 / self._ranks.count, rates=rates)

    def _forward_backward(self, batch: Batch) -> tuple[Outputs, Tensor]:
        """Compute gradients whose mean over the ranks is that of all their samples."""
        with self._ranks.watched("sum gradients"):
            loss, outputs = self._network(batch)
            self._optimizer.zero_grad()
            (loss * self._share).backward()
        return outputs, loss

    def _load(self, tables: list[StoredTable], *, exactly: bool) -> None:
        self._order("load", exactly=exactly, tables=[stored.to_plain() for stored in tables])

    def _share_dense(self) -> None:
        """Give all ranks the dense part of the chief, with what optimizers keep."""
        state = {
            f"{file}/{name}": tensor.contiguous().cpu()
            for file, tensors in super().state().items()
            for name, tensor in tensors.items()
        }
        self._told("dense")
        self._ranks.tell(save(state))
        self._ranks.bring(b"")

    def _order(self, what: str, **details: Any) -> list[Any]:
        """Do something on all ranks at once; returns what each says about it."""
        order = self._told(what, **details)
        answers: list[Any] = [json.loads(one) for one in self._ranks.bring(self.obey(order))]
        for answer in answers:
            if isinstance(answer, str):
                raise CheckpointError(answer)
        return answers

    def _told(self, what: str, **details: Any) -> Mapping[str, Any]:
        order = {"do": what, "model": self._number, **details}
        self._ranks.tell(json.dumps(order).encode())
        return order

    def obey(self, order: Mapping[str, Any]) -> bytes:
        """Do what the chief orders; an answer that is a text tells what went wrong."""
        match order["do"]:
            case "dense":
                return self._take_dense(load(self._ranks.hear()))
            case "rows":
                return save(_ids_and_rows(self._stores[order["table"]].snapshot()))
        try:
            return json.dumps(self._answer(order)).encode()
        except FleetRecError as error:
            return json.dumps(str(error)).encode()

    def _answer(self, order: Mapping[str, Any]) -> dict[str, Any]:
        match order["do"]:
            case "figures":
                tables = {name: self._stores[name].table for name in self._spread}
                return {
                    "stats": {name: table.stats() for name, table in tables.items()},
                    "versions": {name: table.version for name, table in tables.items()},
                }
            case "write":
                return self._write_files(Staging.open(order["staging"]), order)
            case "load":
                for stored in map(StoredTable.from_plain, order["tables"]):
                    portion = self._portion if stored.name in self._spread else ONE_PORTION
                    load_portion(
                        self._stores[stored.name], portion, stored, exactly=order["exactly"]
                    )
            case "clear":
                super().clear_tables()
        return {}

    def _write_files(self, staging: Staging, order: Mapping[str, Any]) -> dict[str, Any]:
        """Write this rank's files of tables."""
        written = {}
        for name, (num_files, version) in order["files"].items():
            with staging.folder(f"{order['folder']}/{name}") as directory:
                written[name] = write_portion(
                    self._stores[name],
                    self._portion,
                    directory,
                    shards_each=num_files,
                    version=version,
                )
        return written

    def _take_dense(self, content: Mapping[str, Tensor]) -> bytes:
        state: dict[str, dict[str, Tensor]] = {}
        for key, value in content.items():
            file, _, name = key.partition("/")
            state.setdefault(file, {})[name] = value
        super().load_state({"model": {}, **state})
        return b""


def _ids_and_rows(taken: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {column: taken[column] for column in ("ids", "rows")}
