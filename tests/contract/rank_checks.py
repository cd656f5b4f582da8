"""What every rank of a group does for ``test_rank_groups.py``; prints what it found as JSON.

usage: python -m contract.rank_checks FOLDER
"""

import json
import sys
import threading
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from fleetrec.config.job import ClusterOptions, OptimizerOptions, UpdateOptions
from fleetrec.core.env import read_place
from fleetrec.core.errors import CheckpointError, ConfigError
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.record import Chain, StoredTable
from fleetrec.embedding.table import Eviction, LongVector, TableConfig
from fleetrec.models.base import Model
from fleetrec.parallel.on_chief import on_chief
from fleetrec.parallel.rank_comm import RankComm
from fleetrec.parallel.rank_group import RankGroup
from fleetrec.parallel.state import SavedModel
from fleetrec.tasks.binary import BinaryTask
from making_groups import CPU, Member, make_batch, model_options, solo

ADAM = OptimizerOptions(name="adam", lr=0.1)
CLIPPED = UpdateOptions(clip_norm=0.01)
DAY = 86_400


class TwoTables(Model):
    """A sharded and a replicated table, and batch norm."""

    def __init__(self, *, has_norm=True):
        super().__init__(tasks=[BinaryTask(label="click")])
        torch.manual_seed(0)
        self.embeddings = EmbeddingCollection(
            features=[
                EmbeddedFeature(feature="a", table="grows", name="a"),
                EmbeddedFeature(feature="a", table="fixed", name="b"),
            ],
            tables=[
                TableConfig(
                    name="grows",
                    dim=2,
                    eviction=Eviction(max_unseen_days=1),
                    long_vector=LongVector(threshold=0.25),
                ),
                TableConfig(name="fixed", dim=2, num_rows=2000),
            ],
        )
        self.norm = nn.BatchNorm1d(4) if has_norm else nn.Identity()
        self.out = nn.Linear(4, 1)

    def forward(self, batch):
        return {"logit": self.out(self.norm(self.embeddings(batch).cat())).squeeze(1)}


class Checks:
    """One rank, with as many groups as there are checks."""

    def __init__(self, comm, folder):
        self.comm = comm
        self.folder = folder

    def member(self, model=None, *, ahead=False, **options):
        options = {"optimizer": ADAM, **options}
        group = RankGroup(self.comm, ClusterOptions(exchange_ahead=ahead))
        model = model or TwoTables()
        return Member(group, model, group.build(model, model_options(**options)))

    def train(self, member, steps, *, look=lambda member: None, first=0):
        """Make steps in which every rank has three samples of six."""
        batches = [
            make_batch([step + 7 * self.comm.rank, step + 1, 5], event_time=0)
            for step in range(first, first + steps)
        ]
        for batch in member.group.align_steps(iter(batches), member_inputs()):
            member.train(batch)
            look(member)

    def digest(self, member):
        """Return all that a full checkpoint holds, as numbers."""
        cut = member.state.cut(parent=None)
        cut.finish(published=False)
        rows = member.state.export_rows()
        tensors = [
            value.double().reshape(-1).tolist()
            for file in sorted(cut.dense)
            for _, value in sorted(cut.dense[file].items())
        ]
        tables = [
            rows[name][column].double().reshape(-1).tolist()
            for name in sorted(rows)
            for column in ("ids", "rows")
            if column in rows[name]
        ]
        return [*tensors, *tables]

    # The checks: each returns what the test compares.

    def gathers(self):
        group = self.member().group
        rank = str(group.rank).encode()
        return {
            "all_gather": [one.decode() for one in group.all_gather(rank, key="k", pass_index=0)],
            "broadcast": group.broadcast(rank, key="k", pass_index=None).decode(),
            "empty": group.broadcast(b"", key="k", pass_index=None).decode(),
            "rule_group_size": group.rule_group.size,
        }

    def plain(self):
        member = self.member()
        self.train(member, 6)
        return self.digest(member)

    def evaluating(self):
        def evaluate(member):
            with member.stepper.evaluating():
                member.stepper.evaluate(make_batch([1, 2, 99]))

        member = self.member()
        self.train(member, 6, look=evaluate)
        return self.digest(member)

    def saving(self):
        def save(member):
            cut = member.state.cut(parent=None)
            target = self.folder / f"saving-{member.progress.step}"
            cut.write(str(target))
            assert cut.finish(published=True)

        member = self.member()
        self.train(member, 6, look=save)
        return self.digest(member)

    def exporting_while_saving(self):
        """Gather rows in the main thread; the thread of the chief saves before, others after."""
        member = self.member()
        self.train(member, 3)
        before = member.state.export_rows()
        cut = member.state.cut(parent=None)
        target = self.folder / "exporting"
        is_exported = threading.Event()

        def save():
            if not self.comm.is_chief:
                is_exported.wait()
            cut.write(str(target))
            cut.finish(published=True)

        thread = threading.Thread(target=save)
        thread.start()
        while self.comm.is_chief and not list(target.rglob("*.snap")):
            time.sleep(0.01)  # its files are there: it gathers next
        after = member.state.export_rows()
        is_exported.set()
        thread.join()
        return all(
            torch.equal(value, after[name][column])
            for name, table in before.items()
            for column, value in table.items()
        )

    def prefetching(self):
        member = self.member(ahead=True)
        batches = [make_batch([step + 7 * self.comm.rank, step + 1, 5]) for step in range(6)]
        aligned = member.group.align_steps(iter(batches), member_inputs())
        for index, batch in enumerate(aligned):
            if index + 1 < len(batches):
                member.stepper.prefetch(batches[index + 1])
            member.train(batch)
        return self.digest(member)

    def chief_buffers(self):
        """Evaluate with the running statistics of the chief on every rank."""
        member = self.member()
        self.train(member, 3)
        with member.stepper.evaluating():
            found = member.stepper.evaluate(make_batch([1, 2, 3])).outputs["logit"]
        return found.tolist()

    def clipped(self):
        member = self.member(TwoTables(has_norm=False), update=CLIPPED)
        self.train(member, 6)
        return self.digest(member)

    def uneven(self):
        """The last rank has fewer batches than the other, and makes blank steps at the end."""
        member = self.member()
        batches = [make_batch([step, 5, 6]) for step in range(6 - 3 * self.comm.rank)]
        num_blank = 0
        for batch in member.group.align_steps(iter(batches), member_inputs()):
            num_blank += batch.is_blank
            member.train(batch)
        return {"steps": member.progress.step, "blank": num_blank}

    def stopping(self):
        """One rank asks to stop; all of them stop after the same step."""
        member = self.member()
        batches = [make_batch([step, 5, 6]) for step in range(6)]
        for batch in member.group.align_steps(iter(batches), member_inputs()):
            member.train(batch)
            wants = self.comm.rank == 1 and member.progress.step == 2
            if member.group.any_rank(wants):
                break
        return member.progress.step

    def deltas(self):
        """Save a base and deltas with deletions; returns the live rows, and those read back."""
        member = self.member()
        kinds, folders = [], []
        for day in range(3):
            ids = [10 * day + self.comm.rank, 10 * day + 5, 1000]
            batch = make_batch(ids, event_time=day * DAY)
            for aligned in member.group.align_steps(iter([batch]), member_inputs()):
                member.train(aligned)
            member.end_pass(now=day * DAY)
            cut = member.state.cut(parent=f"../{day - 1}" if day else None)
            records = cut.write(str(self.folder / f"delta-{day}"))
            assert cut.finish(published=True)
            folders.append(self.folder / f"delta-{day}")
            kinds.append([records[name].kind for name in sorted(records)])
        live = member.state.export_rows()
        found = {}
        if self.comm.is_chief:
            tables = {
                name: StoredTable(
                    name=name,
                    record=record,
                    chain=Chain(
                        urls=tuple(str(folder / name) for folder in folders),
                        fingerprint=record.fingerprint,
                    ),
                )
                for name, record in records.items()
            }
            with solo(model=TwoTables(), optimizer=ADAM) as reader:
                reader.state.load(SavedModel(tensors=cut.dense, tables=tables), exact=True)
                read = reader.state.export_rows()
            for name, its in live.items():
                found[name] = [
                    np.array_equal(its[column].numpy(), read[name][column].numpy())
                    for column in ("ids", "rows")
                ] + [len(its["ids"])]
        return {"kinds": kinds, "found": found}

    def failed_save(self):
        """Let the chief fail after all have written; returns what every rank raises or returns."""
        member = self.member()
        self.train(member, 2)
        cut = member.state.cut(parent=None)
        cut.write(str(self.folder / "failed"))
        error = "the disk is full" if self.comm.is_chief else ""
        try:
            return cut.finish(published=False, error=error)
        except CheckpointError as raised:
            return str(raised)

    def refusal(self):
        """Let the chief refuse the run; returns what every rank raises."""

        def refuse():
            raise ConfigError(["the folder is used"])

        group = self.member().group
        try:
            on_chief(group, refuse, key="k", pass_index=None)
        except ConfigError as raised:
            return str(raised)

    def stats(self):
        member = self.member()
        self.train(member, 2)
        return {name: its["rows"] for name, its in member.state.stats().items()}


def member_inputs():
    """Return what batches of ``make_batch`` hold."""
    from fleetrec.core.batch import Inputs

    return Inputs(sparse=("a",), dense={"click": (1,)})


def main(folder):
    torch.set_num_threads(1)
    comm = RankComm(read_place(), device=CPU, timeout_s=60)
    checks = Checks(comm, Path(folder))
    names = [
        name
        for name, value in vars(Checks).items()
        if callable(value) and name not in ("__init__", "member", "train", "digest")
    ]
    found = {name: getattr(checks, name)() for name in names}
    (Path(folder) / f"rank.{comm.rank}.json").write_text(json.dumps(found))
    comm.close()


if __name__ == "__main__":
    main(sys.argv[1])
