"""A model with everything that it needs to be trained, in a program of the user's own."""

import inspect
import logging
import secrets
import time
from collections.abc import Sequence
from pathlib import Path

from fleetrec.checkpoint.folder import open_folder
from fleetrec.config.job import ClusterOptions, OptimizerOptions, PhaseOptions, RunOptions
from fleetrec.config.options import Options
from fleetrec.core.batch import Batch
from fleetrec.core.env import read_status_path
from fleetrec.core.errors import ConfigError
from fleetrec.core.event_time import event_time_of
from fleetrec.core.progress import Progress
from fleetrec.data.files import fingerprint
from fleetrec.export.inference import plan_inference
from fleetrec.fleet.dataset import Dataset
from fleetrec.fleet.fetch import FetchObserver, FetchOptions
from fleetrec.models.base import Model
from fleetrec.parallel.group import BuiltModel, Group, ModelOptions
from fleetrec.parallel.state import SavedModel
from fleetrec.parallel.stepper import StepResult
from fleetrec.train.checkpoints import read_phase
from fleetrec.train.context import RunContext
from fleetrec.train.evaluate import evaluate
from fleetrec.train.events import Observer, Observers, StepInfo
from fleetrec.train.inference_export import InferenceExport
from fleetrec.train.loop import Loop
from fleetrec.train.metrics import PassMetrics
from fleetrec.train.observers import StatusObserver
from fleetrec.train.pass_plan import PassSpec, PhaseFiles
from fleetrec.train.pass_report import PassReport
from fleetrec.train.phase import Phase
from fleetrec.train.rules import NoRules
from fleetrec.train.run_folder import RunFolder
from fleetrec.train.saver import Saver, SaveRequest

logger = logging.getLogger(__name__)

NAME = "main"  # of the only phase
START = "start"
FOLDER = RunFolder(path=Path("logs"))
NO_FETCHES = FetchOptions()


class Program:
    """One model, its optimizer, and the group of processes that trains it."""

    def __init__(
        self,
        model: Model,
        *,
        optimizer: OptimizerOptions,
        seed: int,
        cluster: ClusterOptions | None = None,
    ) -> None:
        if not isinstance(model, Model):
            raise ConfigError(
                [
                    "minimize: expected a model, an object of a subclass of "
                    "fleetrec.models.base.Model whose tasks give the loss, "
                    f"got a {type(model).__name__}"
                ]
            )
        self.model = model
        self.is_restarted = False  # this process replaces one that had trained
        self._optimizer = optimizer
        self._seed = seed
        self._cluster = cluster or ClusterOptions()
        self._group: Group | None = None
        self._built: BuiltModel | None = None
        self._journal: Path | None = None
        self._metrics = PassMetrics(model.tasks)
        self._phase: Phase | None = None
        self._loop: Loop | None = None
        self._progress = Progress()
        self._num_trainings = 0  # called; fewer than were made, if this process was restarted
        self._num_evaluations = 0
        self._num_loads = 0
        self._run_id = secrets.token_hex(8)

    @property
    def group(self) -> Group:
        """Return the processes that train the model."""
        if self._group is None:
            raise RuntimeError(
                "the program has no connection to its servers; call fleet.init_worker"
            )
        return self._group

    @property
    def is_replaying(self) -> bool:
        """Whether the group has finished passes that the program has not called for yet.

        This is so in a restarted process, until the program comes to where it was.
        """
        return self._num_trainings < self._progress.pass_index

    @property
    def pass_index(self) -> int:
        """Return the index of the next training pass."""
        return self._num_trainings

    def run_options(self, *phases: PhaseOptions, fetch: FetchOptions = NO_FETCHES) -> RunOptions:
        """Return the program as a run."""
        return RunOptions(
            name="fleet",
            kind="train",
            cluster=self._cluster,
            phases=phases,
            seed=self._seed,
            print_interval=fetch.print_period,
            show_costs=fetch.shows_costs,
        )

    def attach(self, group: Group, *, journal: Path | None = None) -> None:
        """Train with ``group`` from now on, and continue after the last step that it has stored.

        Returns when every process has attached. ``journal`` keeps metrics over a restart.
        """
        options = ModelOptions(optimizer=self._optimizer, seed=self._seed)
        self._built = group.build(self.model, options)
        self._group, self._journal = group, journal
        stored = group.load_progress()
        if stored:
            self._progress = Progress.from_bytes(stored)
            self.is_restarted = True
        group.all_gather(Progress().to_bytes(), key=START, pass_index=None)

    def detach(self, *, finished: bool) -> None:
        """Leave the group; ``finished``: this process needs neither servers nor journal again."""
        if self._loop is not None:
            self._loop.close(finished=finished)
        self.group.close(finished=finished)
        self._group = self._built = self._loop = None

    def train(self, dataset: Dataset, fetch: FetchOptions) -> dict[str, float]:
        """Make one training pass and return the metrics of all workers.

        Returns nothing for a pass that was made before this process was restarted.
        """
        was_made = self.is_replaying
        self._num_trainings += 1
        if was_made:
            logger.warning("pass %d was made before a restart", self._num_trainings - 1)
            return {}
        phase = self._phase_of(dataset)
        spec = self._spec_of(phase)
        is_first = self._loop is None
        if self._loop is not None:
            self._loop.close(finished=False)
        self._loop = Loop(
            [phase],
            self.group,
            _OnePass(spec),
            NoRules(),
            self._context(fetch),
            run=self.run_options(phase.options, fetch=fetch),
        )
        self._loop.begin(self._progress, is_restarted=self.is_restarted and is_first)
        metrics = self._loop.run_pass(spec)
        self._progress = self._loop.progress
        return metrics[NAME]

    def infer(self, dataset: Dataset, fetch: FetchOptions) -> dict[str, float]:
        """Make one pass without training and return its metrics; see ``train`` for none."""
        self._num_evaluations += 1
        if self.is_replaying:
            return {}
        phase, pass_index = self._phase_of(dataset), self._progress.pass_index
        name = f"{pass_index}.{self._num_evaluations}"
        run, context = self.run_options(phase.options, fetch=fetch), self._context(fetch)
        report = PassReport("infer", phase, phase.loader, run, context)
        num_batches = 0

        def on_batch(batch: Batch, _result: StepResult) -> None:
            nonlocal num_batches
            report.step(_info(batch, pass_index, num_batches), batch, lr=None)
            num_batches += 1

        with phase.loader.epoch(pass_index) as batches:
            aligned = self.group.align_steps(report.timed(batches), phase.loader.inputs)
            evaluated = evaluate(
                phase.stepper,
                self.group,
                aligned,
                phase.metrics,
                key=f"infer/{name}/metrics",
                pass_index=pass_index,
                on_batch=on_batch,
            )
        report.warn_of_slots()
        report.done(name, evaluated.metrics)
        return evaluated.metrics

    def save(self, url: str) -> None:
        """Publish a checkpoint, which runs of every kind can load; every process calls it."""
        group = self.group.rule_group
        if group is None or self.is_replaying:
            return
        phase = self._last_phase()
        run = self.run_options(phase.options)
        plan = _OnePass(self._spec_of(phase))
        saver = Saver(run, [phase], group, plan, self._context(NO_FETCHES))
        saver.save(SaveRequest(url=url, progress=self._progress))
        saver.wait()

    def save_inference(self, url: str, *, feeds: Sequence[str], fetches: Sequence[str]) -> None:
        """Publish an inference model; every process calls it."""
        group = self.group.rule_group
        if group is None or self.is_replaying:
            return
        phase = self._last_phase()
        plan = plan_inference(self.model, phase.loader.inputs, feeds=feeds, fetches=fetches)
        export = InferenceExport({NAME: plan}, [phase], group, self._context(NO_FETCHES))
        export.write(url, self._progress)

    def load(self, url: str) -> None:
        """Load weights and rows of a checkpoint, without optimizer state; every process calls it.

        The processes that hold them for all load first.
        """
        self._num_loads += 1
        if self.is_replaying:
            return
        saved = _read_model(url)
        state, is_in_rule_group = self._model.state, self.group.rule_group is not None
        if is_in_rule_group:
            state.load(saved, exact=False)
        key = f"load/{self._num_loads}"
        self.group.all_gather(b"", key=key, pass_index=self.pass_index)
        if not is_in_rule_group:
            state.load(saved, exact=False)

    def shrink(self, *, max_unseen_days: int | None = None) -> None:
        """Evict rows by the rules of their tables; counts as a pass without data.

        ``max_unseen_days`` replaces that of the tables.
        """
        was_made = self.is_replaying
        self._num_trainings += 1
        if not was_made:
            index = self._progress.pass_index
            self._model.stepper.end_pass(
                index, now=event_time_of(index), ends_day=True, max_unseen_days=max_unseen_days
            )
            self._progress = self._progress.next_pass()

    @property
    def _model(self) -> BuiltModel:
        self.group  # noqa: B018 (raises if there is none)
        assert self._built is not None
        return self._built

    def _phase_of(self, dataset: Dataset) -> Phase:
        loader = dataset.loader(seed=self._seed)
        self._phase = Phase(
            options=PhaseOptions(
                name=NAME,
                model_path=Path(inspect.getfile(type(self.model))),
                model=Options(),
                optimizer=self._optimizer,
                dataset=dataset.options(),
            ),
            loader=loader,
            open_files=lambda _: loader,
            model=self.model,
            stepper=self._model.stepper,
            state=self._model.state,
            metrics=self._metrics,
        )
        return self._phase

    def _last_phase(self) -> Phase:
        if self._phase is None:
            raise RuntimeError("the program has seen no data set; call train_from_dataset first")
        return self._phase

    def _spec_of(self, phase: Phase) -> PassSpec:
        index = self._progress.pass_index
        return PassSpec(
            name=str(index),
            index=index,
            event_time=event_time_of(index),
            files={NAME: phase.loader.files},
            fingerprint={NAME: fingerprint(phase.loader.files)},
        )

    def _context(self, fetch: FetchOptions) -> RunContext:
        status = read_status_path()
        observers: list[Observer] = [FetchObserver(fetch.fetches)]
        observers += [] if status is None else [StatusObserver(status)]
        return RunContext(
            clock=time.monotonic,
            run_id=self._run_id,
            folder=FOLDER,
            observer=Observers(*observers),
            journal=self._journal,
        )


class _OnePass:
    """The plan of a program: the caller decides whether there is another pass."""

    def __init__(self, spec: PassSpec) -> None:
        self._spec = spec

    def next(self, after: Progress) -> PassSpec | None:  # noqa: ARG002
        """Return the pass."""
        return self._spec

    def known(self, index: int) -> PassSpec | None:  # noqa: ARG002
        """Return the pass."""
        return self._spec

    def peek(self, index: int) -> PhaseFiles | None:  # noqa: ARG002
        """Return None: the program decides what comes next."""
        return None


def _info(batch: Batch, pass_index: int, num_batches: int) -> StepInfo:
    return StepInfo(
        kind="infer",
        phase=NAME,
        epoch=pass_index,
        batch=num_batches,
        step=num_batches,
        samples=batch.cursor.samples,
        fraction=batch.progress,
    )


def _read_model(url: str) -> SavedModel:
    checkpoint = open_folder(url, kind="checkpoint")
    phases = checkpoint.parts()
    if NAME not in phases and len(phases) != 1:
        raise ConfigError([f"{url}: holds several models ({', '.join(phases)}); expected one"])
    return read_phase(checkpoint, NAME if NAME in phases else phases[0])
