"""When and where a training run saves."""

import dataclasses
import json
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import torch

import fleetrec
from fleetrec.checkpoint.folder import is_published, write_folder
from fleetrec.checkpoint.staging import Staging
from fleetrec.checkpoint.tables import TABLES
from fleetrec.checkpoint.tensors import encode_tensors
from fleetrec.config.job import RollingOptions, RunOptions
from fleetrec.core.storage import join, relative
from fleetrec.embedding.record import WrittenTable
from fleetrec.export.inference import InferenceModel
from fleetrec.train.events import Observer
from fleetrec.train.phase import PhaseRun, model_name, random_state
from fleetrec.train.position import Position
from fleetrec.train.resume import RANDOM, what_matters
from fleetrec.train.run_folder import RunFolder


class DeltaChain:
    """Decides which checkpoints hold whole tables, and which only what changed since the last."""

    def __init__(self, base_interval: int) -> None:
        self._base_interval = base_interval
        self._paths: list[str] = []  # from the last base on

    def parent_of(self, path: str) -> str | None:
        """Return of what ``path`` shall hold the changes; None: it is a base."""
        is_due = len(self._paths) % self._base_interval == 0
        if is_due or path in self._paths or not all(map(is_published, self._paths)):
            return None
        return self._paths[-1]

    def published(self, path: str, *, parent: str | None) -> None:
        """Note what was written."""
        self._paths = [path] if parent is None else [*self._paths, path]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Saver:
    """Publishes checkpoints and inference models by the rules of the job."""

    run: RunOptions
    run_id: str
    folder: RunFolder
    phases: Sequence[PhaseRun]
    inference: Mapping[str, InferenceModel]
    observer: Observer
    chain: DeltaChain

    def epoch_done(self, position: Position, figures: Mapping[str, Any]) -> None:
        """Save what is due after an epoch; ``position`` is the beginning of the next."""
        save, epoch = self.run.save, position.epoch - 1
        if save.checkpoint_path and self._is_due(epoch, save.checkpoint_interval):
            path = join(save.checkpoint_path, str(epoch))
            self.checkpoint(path, position, figures, epoch=epoch)
        if save.inference_path and self._is_due(epoch, save.inference_interval):
            self._inference_models(join(save.inference_path, str(epoch)), epoch)

    def is_batch_due(self, position: Position) -> bool:
        """Tell whether a step checkpoint is due; ``position`` is behind the batch."""
        save, batch = self.run.save, position.batch - 1
        return bool(save.step_path and save.step_interval and batch % save.step_interval == 0)

    def batch_done(self, position: Position) -> str:
        """Save a step checkpoint."""
        assert self.run.save.step_path is not None
        path = join(self.run.save.step_path, _batch_name(position))
        self.checkpoint(path, position, {}, epoch=position.epoch)
        return path

    def interrupted(self, position: Position) -> str:
        """Save in the middle of an epoch because the run was told to stop."""
        save = self.run.save
        if save.rolling is not None:
            return self.at_step(save.rolling, position)
        place = save.step_path or save.checkpoint_path or self.folder.checkpoints
        path = join(place, _batch_name(position))
        self.checkpoint(path, position, {}, epoch=position.epoch)
        return path

    def at_step(self, rolling: RollingOptions, position: Position) -> str:
        """Save under the number of steps; of equal ones the last counts."""
        path = join(rolling.path, f"{rolling.prefix}{position.step}")
        self.checkpoint(path, position, {}, epoch=position.epoch)
        return path

    def _is_due(self, epoch: int, interval: int) -> bool:
        is_last = self.run.num_epochs is not None and epoch == self.run.num_epochs - 1
        return is_last or (interval > 0 and (epoch + 1) % interval == 0)

    def checkpoint(
        self, path: str, position: Position, figures: Mapping[str, Any], *, epoch: int
    ) -> None:
        """Publish a checkpoint of all phases."""
        positions = [] if position.cursor is None else self._positions(position)
        tensors = {
            f"{phase.options.name}/{file}": group
            for phase in self.phases
            for file, group in phase.state().items()
        }
        tensors[RANDOM] = random_state()
        parent = self.chain.parent_of(path)
        way = None if parent is None else relative(parent, to=path)
        written: list[WrittenTable] = []

        def write_tables(staging: Staging) -> dict[str, Any]:
            records = {}
            for phase in self.phases:
                folder = f"{phase.options.name}/{TABLES}"
                tables = phase.strategy.write_tables(staging, folder, parent=way)
                written.extend(tables.values())
                records[phase.options.name] = {n: t.record.to_plain() for n, t in tables.items()}
            return {TABLES: records}

        write_folder(
            path,
            contents=encode_tensors(tensors),
            meta=self._meta(position, figures) | ({"positions": positions} if positions else {}),
            fill=write_tables,
        )
        for table in written:  # only now: a delta builds on nothing that may not be there
            table.commit()
        self.chain.published(path, parent=parent)
        self.observer.saved("checkpoint", path, epoch=epoch)

    def _positions(self, position: Position) -> list[dict[str, Any]]:
        """Return where each worker stands within an epoch, if there are others."""
        found = []
        for kept in self.phases[0].strategy.standings():
            its = Position.from_dict(json.loads(kept)) if kept else Position()
            is_here = its.epoch == position.epoch and its.cursor is not None
            found.append((its if is_here else position.begin_epoch()).to_dict())
        return found

    def _meta(self, position: Position, figures: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "kind": "checkpoint",
            "run_id": self.run_id,
            "runner": self.run.name,
            "position": position.to_dict(),
            "metrics": figures,
            "models": {phase.options.name: model_name(phase.options) for phase in self.phases},
            "names": {phase.options.name: phase.names() for phase in self.phases},
            "data": {phase.options.name: phase.data_fingerprint() for phase in self.phases},
            "job": what_matters(self.run),
            "config": self.run.to_plain(),
            "versions": {
                "fleetrec": fleetrec.__version__,
                "torch": torch.__version__,
                "python": platform.python_version(),
            },
        }

    def _inference_models(self, path: str, epoch: int) -> None:
        for phase in self.phases:
            alone = len(self.phases) == 1
            target = path if alone else join(path, phase.options.name)
            self.inference[phase.options.name].write(target, phase.strategy.frozen_rows())
            self.observer.saved("inference model", target, epoch=epoch)


def build_chain(run: RunOptions) -> DeltaChain:
    """Return the rule of the job.

    With several phases, checkpoints within an epoch replace each other, and one that is replaced
    may be no parent.
    """
    may_replace = len(run.phases) > 1 and run.save.step_path is not None
    return DeltaChain(1 if may_replace else run.save.checkpoint_base_interval)


def _batch_name(position: Position) -> str:
    return f"epoch_{position.epoch}_batch_{position.batch - 1}"
