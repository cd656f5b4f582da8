"""How good a model is on data that it does not learn from."""

import math

from fleetrec.config.job import EvaluationOptions
from fleetrec.data.loader import Loader
from fleetrec.data.plan import DataShard
from fleetrec.train.events import Observer, PassDone
from fleetrec.train.pace import Clock
from fleetrec.train.phase import PhaseRun
from fleetrec.train.scoreboard import Scoreboard


class Judge:
    """Makes passes over a data set with the weights that a phase has at the time."""

    def __init__(
        self, options: EvaluationOptions, phase: PhaseRun, *, seed: int, shard: DataShard
    ) -> None:
        self._phase = phase
        self._is_alone = shard.count == 1
        self._loader = Loader(options.dataset, seed=seed, shard=shard)
        self._scoreboard = Scoreboard(phase.model.tasks)
        self._max_batches = math.inf
        if options.num_samples is not None:
            together = options.dataset.batch_size * shard.count
            self._max_batches = math.ceil(options.num_samples / together)
        self._num_passes = 0

    def figures(self) -> tuple[dict[str, float], int]:
        """Return the figures of one pass and how many samples this process has judged."""
        num_samples = 0
        strategy = self._phase.strategy
        with self._loader.epoch(0) as own:
            for number, batch in enumerate(strategy.together(own, self._loader.inputs)):
                if number >= self._max_batches:
                    break
                step = strategy.evaluate(batch)
                if not batch.is_blank:
                    self._scoreboard.count(step.outputs, batch, step.loss)
                    num_samples += batch.num_samples
        self._num_passes += 1
        if not self._is_alone:
            counted = self._scoreboard.to_bytes()
            brought = strategy.gather("eval/metrics", counted, number=self._num_passes)
            self._scoreboard.load_sum(brought)
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
