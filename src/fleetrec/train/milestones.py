"""What happens at certain steps of a run: checkpoints of which some stay, and judgements."""

import json
import math
from collections.abc import Callable, Sequence

from fleetrec.checkpoint.staging import delete_folder
from fleetrec.config.job import RollingOptions, RunOptions
from fleetrec.core.storage import join, write_bytes
from fleetrec.data.loader import ONE_WORKER
from fleetrec.train.continuing import rolling_checkpoints
from fleetrec.train.judge import Judge, result_of
from fleetrec.train.passes import Surroundings
from fleetrec.train.phase import PhaseRun
from fleetrec.train.position import Position
from fleetrec.train.saving import Saver

RESULT = "eval_result.txt"

SaveTogether = Callable[[Callable[[], str]], str]  # the chief saves, all take part


class Milestones:
    """Nothing happens at any step, unless a subclass knows better."""

    def begin(self, position: Position) -> None:
        """Be told that a run begins here."""

    def after_step(self, position: Position) -> None:
        """Be told that a step is done."""

    def end(self, position: Position) -> None:
        """Be told that a run is over."""


class RollingMilestones(Milestones):
    """A checkpoint every so many steps or seconds; each but the very first is judged."""

    def __init__(
        self,
        options: RollingOptions,
        *,
        save: SaveTogether | None,
        saver: Saver,
        judge: Judge | None,
        phase: PhaseRun,
        around: Surroundings,
    ) -> None:
        self._options = options
        self._is_alone = save is None
        self._save_together = save or (lambda write: write())
        self._saver = saver
        self._judge = judge
        self._strategy = phase.strategy
        self._around = around
        self._saved_step: int | None = None
        self._saved_at = around.clock()

    def begin(self, position: Position) -> None:
        """Save the weights that a run begins with, unless they come from its last checkpoint."""
        if position.step == 0:
            self._save(position)
        else:
            self._saved_step = position.step

    def after_step(self, position: Position) -> None:
        """Save and judge if it is time."""
        if self._is_due(position.step):
            self._save(position)
            self._evaluate(position)

    def end(self, position: Position) -> None:
        """Save and judge the last step, if it is not yet."""
        if position.step != self._saved_step:
            self._save(position)
            self._evaluate(position)

    def _is_due(self, step: int) -> bool:
        if self._options.every_seconds is not None:
            is_due = self._around.clock() - self._saved_at >= self._options.every_seconds
            return self._agrees(is_due, step)
        assert self._options.every_steps is not None
        return step % self._options.every_steps == 0

    def _agrees(self, is_due: bool, step: int) -> bool:  # noqa: FBT001
        """Let the chief's clock count, where all take part."""
        if self._is_alone:
            return is_due
        return bool(self._strategy.gather("due", b"1" if is_due else b"", number=step)[0])

    def _save(self, position: Position) -> None:
        self._save_together(lambda: self._saver.at_step(self._options, position))
        self._saved_step = position.step
        self._saved_at = self._around.clock()
        if self._options.keep and self._strategy.is_chief:
            found = rolling_checkpoints(self._options.path, prefix=self._options.prefix)
            for old in found[self._options.keep :]:
                delete_folder(old)

    def _evaluate(self, position: Position) -> None:
        if self._judge is None:
            return
        around, name = self._around, f"{self._options.prefix}{position.step}"
        figures = self._judge.report(around.observer, around.clock, checkpoint=name)
        if self._strategy.is_chief:
            write_result(join(self._options.path, RESULT), result_of(figures, step=position.step))


def build_milestones(
    run: RunOptions,
    save: SaveTogether | None,
    saver: Saver,
    phases: Sequence[PhaseRun],
    around: Surroundings,
) -> Milestones:
    """Return what the run asks for.

    ``save`` lets all workers take part. Without it the chief does everything alone, at its own
    steps, and the others nothing.
    """
    is_alone = save is None
    if run.save.rolling is None or (is_alone and not phases[0].strategy.is_chief):
        return Milestones()
    (phase,) = phases
    judge = None
    if run.evaluation is not None:
        shard = ONE_WORKER if is_alone else phase.shard
        judge = Judge(run.evaluation, phase, seed=run.seed, shard=shard)
    return RollingMilestones(
        run.save.rolling,
        save=save,
        saver=saver,
        judge=judge,
        phase=phase,
        around=around,
    )


def write_result(url: str, result: dict[str, float]) -> None:
    """Write figures as JSON, at once or not at all; what is undefined is null."""
    plain = {name: value if math.isfinite(value) else None for name, value in result.items()}
    write_bytes(url, (json.dumps(plain, indent=2, sort_keys=True) + "\n").encode())
