"""How good a model is on data that it does not learn from."""

import math

from fleetrec.config.job import EvaluationOptions
from fleetrec.data.loader import Loader
from fleetrec.train.events import Observer, PassDone
from fleetrec.train.pace import Clock
from fleetrec.train.phase import PhaseRun
from fleetrec.train.scoreboard import Scoreboard


class Judge:
    """Makes passes over a data set with the weights that a phase has at the time."""

    def __init__(self, options: EvaluationOptions, phase: PhaseRun, *, seed: int) -> None:
        self._phase = phase
        self._loader = Loader(options.dataset, seed=seed)
        self._scoreboard = Scoreboard(phase.model.tasks)
        self._max_batches = math.inf
        if options.num_samples is not None:
            self._max_batches = math.ceil(options.num_samples / options.dataset.batch_size)

    def figures(self) -> tuple[dict[str, float], int]:
        """Return the figures of one pass and how many samples they are about."""
        num_samples = 0
        with self._loader.epoch(0) as batches:
            for number, batch in enumerate(batches):
                if number >= self._max_batches:
                    break
                step = self._phase.strategy.evaluate(batch)
                self._scoreboard.count(step.outputs, batch, step.loss)
                num_samples += batch.num_samples
        figures = self._scoreboard.figures()
        self._scoreboard.reset()
        return figures, num_samples

    def report(self, observer: Observer, clock: Clock, *, checkpoint: str) -> dict[str, float]:
        """Make a pass and tell the observer of it."""
        begin = clock()
        figures, num_samples = self.figures()
        seconds = max(clock() - begin, 1e-9)
        observer.pass_done(
            PassDone(
                kind="infer",
                phase="eval",
                epoch=checkpoint,
                seconds=seconds,
                samples_per_s=num_samples / seconds,
                figures=figures,
                tables={},
            )
        )
        return figures


def result_of(figures: dict[str, float], *, step: int) -> dict[str, float]:
    """Return figures as eval_result.txt has them."""
    named = {"loss/loss/total_loss" if k == "LOSS" else k: v for k, v in figures.items()}
    return {**named, "global_step": step}
