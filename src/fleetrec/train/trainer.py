"""The training loop: epochs, in each epoch the phases, in each phase the batches."""

import functools
import json
import logging
from collections.abc import Callable

from fleetrec.config.job import RunOptions
from fleetrec.core.batch import Batch
from fleetrec.core.errors import CheckpointError, MismatchError
from fleetrec.core.storage import check_writable, parent_of
from fleetrec.core.topology import Topology
from fleetrec.export.inference import InferenceModel, plan_inference
from fleetrec.parallel.cluster import Cluster
from fleetrec.parallel.ranks import Ranks
from fleetrec.parallel.server import ServerStrategy
from fleetrec.parallel.strategy import Step, Strategy
from fleetrec.server.service_options import START
from fleetrec.train.continuing import continue_run, open_newest
from fleetrec.train.counted_steps import CountedSteps
from fleetrec.train.events import Place
from fleetrec.train.milestones import build_milestones
from fleetrec.train.passes import Pass, Surroundings
from fleetrec.train.phase import PhaseRun, build_phase, first_phase_only, warm_start
from fleetrec.train.position import Position
from fleetrec.train.resume import ResumePoint, open_one, resume_points, take_up
from fleetrec.train.saving import Saver, build_chain

logger = logging.getLogger(__name__)


class StoppedError(Exception):
    """The run was told to stop, and has saved itself."""

    def __init__(self, checkpoint: str) -> None:
        self.checkpoint = checkpoint
        super().__init__(f"stopped; saved in {checkpoint}")


class Trainer:
    """One training run in this process, or one worker of a cluster."""

    def __init__(
        self, run: RunOptions, around: Surroundings, *, company: Cluster | Ranks | None = None
    ) -> None:
        self._has_servers = isinstance(company, Cluster)
        if self._has_servers:
            run = first_phase_only(run)
        self._run = run
        self._around = around
        self._is_alone = company is None
        # Workers of servers stand at places of their own in the data, all others at one.
        topology = company.topology if isinstance(company, Cluster) else None
        self._index = topology.index if topology else 0
        self._num_places = topology.num_workers if topology else 1
        self._phases = [build_phase(options, run, company) for options in run.phases]
        self._counted = None if topology is None else self._count_steps(topology)
        self._check_storage()
        self._position = Position()
        self._starts: tuple[Position, ...] = ()  # of all workers, if they differ
        self._saver = Saver(
            run=run,
            run_id=around.run_id,
            folder=around.folder,
            phases=self._phases,
            inference=self._plan_inference(),
            observer=around.observer,
            chain=build_chain(run),
        )
        save = None if self._has_servers else self._save
        self._milestones = build_milestones(run, save, self._saver, self._phases, around)

    def train(self, *, resume: bool = False) -> None:
        """Train to the end, or raise StoppedError."""
        if not self._recall():
            self._start(resume=resume)
        if self._has_all_steps():
            logger.info("all %d steps are done already", self._position.step)
        elif not self._has_more():
            logger.info("all %d epochs are done already", self._position.epoch)
        self._milestones.begin(self._position)
        while self._has_more():
            figures = {}
            while self._position.phase < len(self._phases):
                phase = self._phases[self._position.phase]
                figures[phase.options.name] = self._pass(phase)
                if self._has_all_steps():
                    break
                self._position = self._position.next_phase()
            else:
                self._position = self._position.next_epoch()
                if self._meeting.is_chief:
                    self._saver.epoch_done(self._position, figures)
                self._meeting.gather("saved", b"", number=self._position.epoch)
        self._milestones.end(self._position)

    def finish(self) -> None:
        """Tell servers, if there are any, that this worker needs them no more."""
        for phase in self._phases:
            phase.strategy.finish()
        if self._counted is not None:
            self._counted.clear()

    def close(self) -> None:
        """Let go of other processes."""
        for phase in self._phases:
            phase.strategy.close()
        if self._counted is not None:
            self._counted.close()

    @property
    def _meeting(self) -> Strategy:
        """The strategy by which workers meet; that of the first phase will do."""
        return self._phases[0].strategy

    def _recall(self) -> bool:
        """Go on where an earlier process of this worker was, if servers remember one."""
        kept = self._meeting.recall()
        if not kept:
            return False
        told = json.loads(kept)
        self._position = Position.from_dict(told[0] if isinstance(told, list) else told)
        if self._counted is not None:
            self._counted.take_up(self._position)
        logger.info("going on behind step %d of this worker", self._position.step)
        return True

    def _start(self, *, resume: bool) -> None:
        """Load what the run begins with; in a cluster the chief does, and tells where it is."""
        if self._counted is not None:
            self._counted.clear()
        if self._meeting.is_chief and not (resume and self._resume()):
            self._warm_start()
        own = self._starts or (self._position,)
        content = json.dumps([position.to_dict() for position in own]).encode()
        told = json.loads(self._meeting.gather(START, content, number=0)[0])
        self._position = Position.from_dict(told[self._index if len(told) > 1 else 0])

    def _has_more(self) -> bool:
        num_epochs = self._run.num_epochs
        is_last = num_epochs is not None and self._position.epoch >= num_epochs
        return not is_last and not self._has_all_steps()

    def _has_all_steps(self) -> bool:
        num_steps = self._run.num_steps
        return num_steps is not None and self._position.step >= num_steps

    def _pass(self, phase: PhaseRun) -> dict[str, float]:
        epoch = self._position.epoch
        dump_path = self._run.dump_path
        this_pass = Pass(
            kind="train",
            run=self._run,
            around=self._around,
            phase=phase,
            epoch_name=str(epoch),
            dump_path=dump_path and f"{dump_path}_epoch_{epoch}{self._suffix(phase)}",
            process=functools.partial(self._step, phase.strategy),
            place_of=self._place,
            after=self._after,
            is_over=self._has_all_steps,
        )
        return this_pass.go(epoch=epoch, start=self._position.cursor)

    def _step(self, strategy: Strategy, batch: Batch) -> Step:
        if not self._is_alone:  # nobody else could keep it
            strategy.keep(_to_bytes(self._position.after_batch(batch.cursor)))
        return strategy.train_step(batch)

    def _count_steps(self, topology: Topology) -> CountedSteps:
        """Let figures outlive this process: what a step counts is kept before servers have it."""
        phase = self._phases[0]
        assert isinstance(phase.strategy, ServerStrategy)
        folder = self._around.folder.state_of(
            num_workers=topology.num_workers, num_servers=topology.num_servers
        )
        counted = CountedSteps(folder / f"worker.{topology.index}.counted", phase.scoreboard)

        def note(batch: Batch, step: Step) -> None:
            counted.note(
                self._position.after_batch(batch.cursor),
                phase.scoreboard.tally(step.outputs, batch, step.loss),
                num_waiting=phase.strategy.num_waiting(),
            )

        phase.strategy.before_push = note
        return counted

    def _suffix(self, phase: PhaseRun) -> str:
        return f"_{phase.options.name}" if len(self._phases) > 1 else ""

    def _after(self, batch: Batch) -> None:
        self._position = self._position.after_batch(batch.cursor)
        must_stop = self._meeting.agrees(self._around.should_stop())
        if self._has_servers:
            if self._meeting.is_chief and self._saver.is_batch_due(self._position):
                self._saver.batch_done(self._position)
            self._milestones.after_step(self._position)
            if must_stop:
                raise KeyboardInterrupt  # the servers have it all
            return
        position = self._position
        if self._saver.is_batch_due(position):
            self._save(lambda: self._saver.batch_done(position))
        self._milestones.after_step(position)
        if must_stop:
            raise StoppedError(self._save(lambda: self._saver.interrupted(position)))

    def _save(self, save: Callable[[], str]) -> str:
        """Let the chief save all that was done and counted; others wait and help."""
        step = self._position.step
        for phase in self._phases:
            phase.collect_counts(step=step)
        path = save() if self._meeting.is_chief else ""
        brought = self._meeting.gather("path", path.encode(), number=step)
        return brought[0].decode()

    def _place(self, batch: Batch) -> Place:
        position = self._position
        in_epoch = (position.phase + batch.progress) / len(self._phases)
        num_epochs, num_steps = self._run.num_epochs, self._run.num_steps
        of_epochs = (position.epoch + in_epoch) / num_epochs if num_epochs else 0.0
        of_steps = (position.step + 1) / num_steps if num_steps else 0.0
        return Place(
            kind="train",
            phase=self._phases[position.phase].options.name,
            epoch=position.epoch,
            batch=position.batch,
            step=position.step,
            samples=batch.cursor.samples,
            fraction=max(of_epochs, of_steps),
        )

    def _warm_start(self) -> None:
        options = self._run.warm_start
        path = options.path or options.partial_path
        if path is None:
            return
        logger.info("going to load %s", path)
        checkpoint = open_newest(path) if options.newest else open_one(path)
        for phase in self._phases:
            loaded = warm_start(phase, checkpoint, options)
            logger.info("load from %s success: %s", path, loaded)

    def _resume(self) -> bool:
        """Load the newest sound checkpoint of this run, if there is one."""
        if self._run.save.rolling is not None:
            position = continue_run(self._run, self._run.save.rolling, self._phases)
            if position is not None and position.cursor is not None and self._has_servers:
                logger.info("workers begin their data anew: where each was, only servers knew")
                position = Position(step=position.step)
            self._position = position or self._position
            return position is not None
        for point in resume_points(self._run, self._around.folder):
            if not point.fits(self._num_places):
                logger.warning(
                    "passed over: %s: written by %d workers within an epoch, now there are %d",
                    point.folder.url,
                    len(point.positions),
                    self._num_places,
                )
            elif self._try_take_up(point):
                logger.info("resumed from %s", point.folder.url)
                self._position, self._starts = point.position, point.positions
                return True
        logger.warning("no checkpoint of an earlier run of %s: starting anew", self._run.name)
        return False

    def _try_take_up(self, point: ResumePoint) -> bool:
        try:
            take_up(point, self._run, self._phases)
        except MismatchError:  # the job has changed: older checkpoints do not fit either
            raise
        except CheckpointError as error:
            logger.warning("passed over: %s: %s", point.folder.url, error)
            return False
        return True

    def _check_storage(self) -> None:
        """Find out before the first step whether URLs can be written to."""
        save, dump = self._run.save, self._run.dump_path
        rolling = save.rolling.path if save.rolling else None
        urls = (save.checkpoint_path, save.step_path, save.inference_path, rolling)
        for url in {*urls, parent_of(dump) if dump else None} - {None}:
            check_writable(str(url))

    def _plan_inference(self) -> dict[str, InferenceModel]:
        """Check feed and fetch names before the first step, not after the last."""
        save = self._run.save
        if save.inference_path is None:
            return {}
        return {
            phase.options.name: plan_inference(
                phase.model, phase.loader.inputs, feeds=save.feeds, fetches=save.fetches
            )
            for phase in self._phases
        }


def _to_bytes(position: Position) -> bytes:
    return json.dumps(position.to_dict()).encode()
