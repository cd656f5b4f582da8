"""Inference: the metrics of one or all checkpoints on a data set."""

import logging

from fleetrec.checkpoint.folder import open_folder
from fleetrec.config.job import RunOptions
from fleetrec.core.batch import Batch
from fleetrec.core.errors import ConfigError
from fleetrec.core.storage import name_of
from fleetrec.parallel.cluster import Cluster
from fleetrec.parallel.ranks import Ranks
from fleetrec.parallel.strategy import Step
from fleetrec.train.events import Place
from fleetrec.train.passes import Pass, Surroundings
from fleetrec.train.phase import PhaseRun, build_phase, first_phase_only, part_for, read_phase
from fleetrec.train.resume import checkpoint_folders

logger = logging.getLogger(__name__)


class Evaluator:
    """One inference run in this process, or one worker of a cluster that shares the data out.

    It learns nothing and creates no rows.
    """

    def __init__(
        self, run: RunOptions, around: Surroundings, *, company: Cluster | Ranks | None = None
    ) -> None:
        if run.warm_start.path is None:
            raise ConfigError([f"runner {run.name}: init_model_path is required for inference"])
        self._checkpoints = checkpoint_folders(run.warm_start.path)
        self._has_servers = isinstance(company, Cluster)
        if self._has_servers:
            run = first_phase_only(run)
        self._run = run
        self._around = around
        self._has_ranks = isinstance(company, Ranks)
        self._phases = [build_phase(options, run, company) for options in run.phases]

    def infer(self) -> None:
        """Evaluate every phase on every checkpoint, epochs in order."""
        run_ids = set()
        for index, path in enumerate(self._checkpoints):
            checkpoint = open_folder(path, kind="checkpoint")
            run_ids.add(checkpoint.meta.get("run_id"))
            if index < self._phases[0].strategy.num_passes_before:
                continue  # it was judged before this worker was restarted
            logger.info("load persistables from %s", path)
            for phase in self._phases:
                if phase.strategy.is_chief or not self._has_ranks:
                    saved = read_phase(checkpoint, part_for(checkpoint, phase))
                    phase.strategy.load_weights(saved)
                phase.strategy.gather("loaded", b"", number=index + 1)
                self._pass(phase, index, path)
                if self._has_servers:  # others may still need the rows
                    phase.strategy.end_pass(epoch=index)
        if len(run_ids) > 1:
            logger.warning(
                "%s holds checkpoints of %d different training runs",
                self._run.warm_start.path,
                len(run_ids),
            )

    def finish(self) -> None:
        """Tell servers, if there are any, that this worker needs them no more."""
        for phase in self._phases:
            phase.strategy.finish()

    def close(self) -> None:
        """Let go of other processes."""
        for phase in self._phases:
            phase.strategy.close()

    def _pass(self, phase: PhaseRun, index: int, checkpoint: str) -> None:
        counted = _Counter(phase, self._phases.index(phase), index)
        Pass(
            kind="infer",
            run=self._run,
            around=self._around,
            phase=phase,
            epoch_name=name_of(checkpoint),
            dump_path=self._dump_path(checkpoint),
            process=counted.process,
            place_of=lambda batch: counted.place(
                batch, num_checkpoints=len(self._checkpoints), num_phases=len(self._phases)
            ),
            after=lambda _: self._check_stop(),
            num_before=index,
        ).go(epoch=0, start=None)

    def _check_stop(self) -> None:
        if self._phases[0].strategy.agrees(self._around.should_stop()):
            raise KeyboardInterrupt

    def _dump_path(self, checkpoint: str) -> str | None:
        path = self._run.dump_path
        if path is None or len(self._checkpoints) == 1:
            return path
        return f"{path}_{name_of(checkpoint)}"


class _Counter:
    """Predicts batch by batch, and knows how many there were."""

    def __init__(self, phase: PhaseRun, phase_index: int, checkpoint_index: int) -> None:
        self._phase = phase
        self._phase_index = phase_index
        self._checkpoint_index = checkpoint_index
        self._num_batches = 0

    def process(self, batch: Batch) -> Step:
        self._num_batches += 1
        return self._phase.strategy.evaluate(batch)

    def place(self, batch: Batch, *, num_checkpoints: int, num_phases: int) -> Place:
        done = self._checkpoint_index + (self._phase_index + batch.progress) / num_phases
        return Place(
            kind="infer",
            phase=self._phase.options.name,
            epoch=self._checkpoint_index,
            batch=self._num_batches - 1,
            step=self._num_batches - 1,
            samples=batch.cursor.samples,
            fraction=done / num_checkpoints,
        )
