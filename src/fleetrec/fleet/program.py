"""A model with all that it needs to learn, in a program of the user's own."""

import dataclasses
import inspect
import json
import logging
import secrets
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TextIO

from fleetrec.checkpoint.folder import open_folder
from fleetrec.config.job import ClusterOptions, OptimizerOptions, PhaseOptions, RunOptions
from fleetrec.config.options import Options
from fleetrec.core.batch import Batch
from fleetrec.core.env import read_status_path
from fleetrec.core.errors import ConfigError
from fleetrec.export.inference import plan_inference
from fleetrec.fleet.dataset import Dataset
from fleetrec.models.base import Model
from fleetrec.parallel.strategy import Step, Strategy
from fleetrec.train.events import Interval, Kind, Observer, Observers, PassDone, Place
from fleetrec.train.observers import StatusObserver
from fleetrec.train.passes import Pass, Surroundings
from fleetrec.train.phase import PhaseRun, read_phase
from fleetrec.train.position import Position
from fleetrec.train.run_folder import RunFolder
from fleetrec.train.saving import DeltaChain, Saver
from fleetrec.train.scoreboard import Scoreboard

logger = logging.getLogger(__name__)

NAME = "main"  # of the only phase


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Which figures of a pass are printed under which names, and how often."""

    fetches: Mapping[str, str] = dataclasses.field(default_factory=dict)
    print_period: int = 100
    shows_costs: bool = False


class Program:
    """One model, its optimizer, and the strategy that makes its steps."""

    def __init__(
        self,
        model: Model,
        *,
        optimizer: OptimizerOptions,
        seed: int,
        cluster: ClusterOptions | None = None,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.seed = seed
        self.cluster = cluster  # None: this process alone
        self.is_restarted = False  # servers remember an earlier process of this worker
        self._strategy: Strategy | None = None
        self._scoreboard = Scoreboard(model.tasks)
        self._phase: PhaseRun | None = None
        self._position = Position()
        self._num_trainings = 0  # asked for; fewer than were made, if this worker was restarted
        self._num_passes = 0
        self._run_id = secrets.token_hex(8)

    @property
    def strategy(self) -> Strategy:
        """Return what makes the steps."""
        if self._strategy is None:
            raise RuntimeError(
                "the program has no connection to its servers; call fleet.init_worker"
            )
        return self._strategy

    @property
    def is_behind(self) -> bool:
        """Whether servers know steps of this worker that the program has not asked for yet.

        So it is in a worker that was restarted, until the program comes to where it was.
        """
        return self._num_trainings < self._position.epoch

    @property
    def epoch(self) -> int:
        """Return the number of the next training pass."""
        return self._num_trainings

    def use(self, strategy: Strategy) -> None:
        """Set what makes the steps, and go on where it remembers that this worker was."""
        self._strategy = strategy
        kept = strategy.recall()
        if kept:
            self._position = Position.from_dict(json.loads(kept))
            self.is_restarted = True

    def train(self, dataset: Dataset, watch: Watch) -> dict[str, float]:
        """Make one pass that learns and return its figures, those of all workers together.

        Returns nothing for a pass that was made before this worker was restarted.
        """
        was_made = self.is_behind
        self._num_trainings += 1
        if was_made:
            logger.warning("pass %d was made before a restart", self._num_trainings - 1)
            return {}
        figures = self._pass("train", dataset, watch, process=self._step, after=self._note)
        self._position = self._position.next_epoch()
        return figures

    def infer(self, dataset: Dataset, watch: Watch) -> dict[str, float]:
        """Make one pass that learns nothing and return its figures; see ``train`` for none."""
        if self.is_behind:
            return {}
        return self._pass(
            "infer", dataset, watch, process=self.strategy.evaluate, after=lambda _: None
        )

    def _pass(
        self,
        kind: Kind,
        dataset: Dataset,
        watch: Watch,
        *,
        process: Callable[[Batch], Step],
        after: Callable[[Batch], None],
    ) -> dict[str, float]:
        self._phase = self._prepared(dataset)
        self._num_passes += 1
        epoch = self._position.epoch
        counted = _Counter(process, kind=kind, epoch=epoch)
        return Pass(
            kind=kind,
            run=self._run(self._phase.options, watch),
            around=self._surroundings(FetchObserver(watch.fetches)),
            phase=self._phase,
            epoch_name=str(epoch) if kind == "train" else f"{epoch}.{self._num_passes}",
            dump_path=None,
            process=counted.process,
            place_of=counted.place,
            after=after,
        ).go(epoch=epoch, start=self._position.cursor if kind == "train" else None)

    def _step(self, batch: Batch) -> Step:
        behind = self._position.after_batch(batch.cursor)
        self.strategy.keep(json.dumps(behind.to_dict()).encode())
        return self.strategy.train_step(batch)

    def _note(self, batch: Batch) -> None:
        self._position = self._position.after_batch(batch.cursor)

    def save(self, url: str) -> None:
        """Publish a checkpoint, which every other way of running can load."""
        run = self._run(self._last_phase().options, Watch())
        around = self._surroundings(FetchObserver({}))
        Saver(
            run=run,
            run_id=self._run_id,
            folder=around.folder,
            phases=[self._last_phase()],
            inference={},
            observer=around.observer,
            chain=DeltaChain(1),
        ).checkpoint(url, self._position, {}, epoch=self._position.epoch)

    def save_inference(self, url: str, *, feeds: Sequence[str], fetches: Sequence[str]) -> None:
        """Publish an inference model."""
        inputs = self._last_phase().loader.inputs
        plan = plan_inference(self.model, inputs, feeds=feeds, fetches=fetches)
        plan.write(url, self.strategy.frozen_rows())

    def load(self, url: str) -> None:
        """Take up weights and rows of a checkpoint; optimizers begin anew."""
        checkpoint = open_folder(url, kind="checkpoint")
        parts = checkpoint.parts()
        if NAME not in parts and len(parts) != 1:
            raise ConfigError([f"{url}: holds several models ({', '.join(parts)}); expected one"])
        part = NAME if NAME in parts else parts[0]
        self.strategy.load_weights(read_phase(checkpoint, part))

    def shrink(self) -> None:
        """Give up rows by the rules of their tables; counts as a pass without data."""
        was_made = self.is_behind
        self._num_trainings += 1
        if not was_made:
            self.strategy.end_pass(epoch=self._position.epoch)
            self._position = self._position.next_epoch()

    def _prepared(self, dataset: Dataset) -> PhaseRun:
        options = PhaseOptions(
            name=NAME,
            model_path=Path(inspect.getfile(type(self.model))),
            model=Options(),
            optimizer=self.optimizer,
            dataset=dataset.options(),
        )
        return PhaseRun(
            options=options,
            loader=dataset.loader(seed=self.seed),
            model=self.model,
            strategy=self.strategy,
            scoreboard=self._scoreboard,
        )

    def _last_phase(self) -> PhaseRun:
        if self._phase is None:
            raise RuntimeError("the program has seen no data set; call train_from_dataset first")
        return self._phase

    def _run(self, phase: PhaseOptions, watch: Watch) -> RunOptions:
        return RunOptions(
            name="fleet",
            kind="train",
            cluster=self.cluster or ClusterOptions(),
            phases=(phase,),
            seed=self.seed,
            print_interval=watch.print_period,
            show_costs=watch.shows_costs,
        )

    def _surroundings(self, observer: "FetchObserver") -> Surroundings:
        status = read_status_path()
        observers: list[Observer] = (
            [observer] if status is None else [observer, StatusObserver(status)]
        )
        return Surroundings(
            clock=time.monotonic,
            run_id=self._run_id,
            folder=RunFolder(path=Path("logs")),
            observer=Observers(*observers),
        )


class FetchObserver:
    """Prints the figures that the caller asked for, under the names that he gave them."""

    def __init__(self, fetches: Mapping[str, str], *, stream: TextIO | None = None) -> None:
        self._fetches = fetches
        self._stream = stream or sys.stdout

    def step(self, place: Place) -> None:
        """Say nothing."""

    def interval(self, interval: Interval) -> None:
        """Print a line, if anything was asked for."""
        unknown = sorted(set(self._fetches) - set(interval.figures))
        if unknown:
            known = ", ".join(interval.figures)
            raise ConfigError([f"fetch_list: no figure is called {unknown[0]!r}; known: {known}"])
        where = f"batch {interval.place.batch}"
        self._print(where, interval.figures, interval.samples_per_s, interval.costs)

    def pass_done(self, done: PassDone) -> None:
        """Print the figures of the pass."""
        self._print(f"pass {done.epoch} done", done.figures, done.samples_per_s)

    def saved(self, what: str, path: str, *, epoch: int) -> None:
        """Say nothing."""

    def _print(
        self,
        where: str,
        figures: Mapping[str, float],
        samples_per_s: float,
        costs: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        wanted = [
            f"{label}: {figures[name]:.6g}"
            for name, label in self._fetches.items()
            if name in figures
        ]
        wanted += [f"{name}: {seconds:.2f}s" for name, seconds in costs.items()]
        if wanted:
            line = ", ".join([where, *wanted, f"samples/s: {samples_per_s:.0f}"])
            self._stream.write(f"{line}\n")
            self._stream.flush()


class _Counter:
    """Hands batches on, and knows how many there were."""

    def __init__(self, process: Callable[[Batch], Step], *, kind: Kind, epoch: int) -> None:
        self._process = process
        self._kind: Kind = kind
        self._epoch = epoch
        self._num_batches = 0

    def process(self, batch: Batch) -> Step:
        self._num_batches += 1
        return self._process(batch)

    def place(self, batch: Batch) -> Place:
        return Place(
            kind=self._kind,
            phase=NAME,
            epoch=self._epoch,
            batch=self._num_batches - 1,
            step=self._num_batches - 1,
            samples=batch.cursor.samples,
            fraction=batch.progress,
        )
