"""Evaluation: the metrics of a model on data that it is not trained on."""

import dataclasses
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping

from fleetrec.config.job import EvaluationOptions
from fleetrec.core import storage
from fleetrec.core.batch import Batch
from fleetrec.core.errors import DataError
from fleetrec.data.loader import Loader
from fleetrec.nn.denormals import flushed_denormals
from fleetrec.parallel.group import Group
from fleetrec.parallel.stepper import Stepper, StepResult
from fleetrec.train.context import RunContext, StopRequestedError
from fleetrec.train.events import PassDone
from fleetrec.train.metrics import PassMetrics
from fleetrec.train.phase import Phase
from fleetrec.train.shared_files import shared_files

OnBatch = Callable[[Batch, StepResult], None]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """The metrics of the whole group, and how many samples this process has evaluated.

    ``is_empty``: no process of the group had a sample.
    """

    metrics: dict[str, float]
    num_samples: int
    is_empty: bool


def ignore_batch(_batch: Batch, _result: StepResult) -> None:
    """Do nothing with a batch."""


def evaluate(  # noqa: PLR0913 (what is evaluated, and how its processes meet)
    stepper: Stepper,
    group: Group,
    batches: Iterator[Batch],
    metrics: PassMetrics,
    *,
    max_batches: int | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    key: str = "evaluate",
    pass_index: int | None = None,
    on_batch: OnBatch = ignore_batch,
) -> Evaluated:
    """Evaluate a model on the batches of all processes of ``group``, which all call this.

    ``batches`` are those of this process, as ``Group.align_steps`` returns them. ``key`` and
    ``pass_index`` are those of the all-gather that merges the metrics. Raises StopRequestedError on
    every process if one of them is to stop.
    """
    num_samples = 0
    metrics.reset()
    with flushed_denormals(), stepper.evaluating():
        for batch in itertools.islice(batches, max_batches):
            result = stepper.evaluate(batch)
            if not batch.is_blank:
                metrics.count(result.outputs, batch, result.loss)
                num_samples += batch.num_samples
            on_batch(batch, result)
            if group.any_rank(should_stop()):
                raise StopRequestedError
    merge_metrics(metrics, group, key=key, pass_index=pass_index)
    evaluated = Evaluated(
        metrics=metrics.values(), num_samples=num_samples, is_empty=not metrics.has_samples
    )
    metrics.reset()
    return evaluated


def no_samples(loader: Loader) -> DataError:
    """Return the error for a pass in which no process had a sample."""
    files = loader.files
    listed = ", ".join(file.path for file in files[:3]) + (", ..." if len(files) > 3 else "")
    return DataError(
        f"data set {loader.name}: it has no samples (files: {listed or 'none'}); check data_path, "
        "and that the files are not empty"
    )


def merge_metrics(metrics: PassMetrics, group: Group, *, key: str, pass_index: int | None) -> None:
    """Set the counters of every process to the sum of all."""
    if group.size > 1:
        counters = group.all_gather(metrics.to_bytes(), key=key, pass_index=pass_index)
        metrics.load_merged(counters)


class PhaseEvaluation:
    """Evaluates the model of a phase, with the weights that it has at the time, on one data set."""

    def __init__(
        self,
        options: EvaluationOptions,
        phase: Phase,
        group: Group,
        context: RunContext,
        *,
        seed: int,
    ) -> None:
        self._phase = phase
        self._group = group
        self._context = context
        files = shared_files(options.dataset, group, key="files/evaluate")
        self._loader = Loader(options.dataset, seed=seed, shard=group.shard, files=files)
        self._metrics = PassMetrics(phase.model.tasks)
        self._max_batches: int | None = None
        if options.num_samples is not None:
            num_together = options.dataset.batch_size * group.shard.count
            self._max_batches = math.ceil(options.num_samples / num_together)

    def metric_names(self) -> list[str]:
        """Return the names of the metrics."""
        return list(PassMetrics(self._phase.model.tasks).values())

    def run(self, *, name: str, key: str, pass_index: int | None) -> dict[str, float]:
        """Evaluate, report the metrics under ``name``, and return them."""
        return evaluate_pass(
            self._phase,
            self._group,
            self._loader,
            self._metrics,
            self._context,
            name=name,
            shown_phase="eval",
            key=key,
            pass_index=pass_index,
            max_batches=self._max_batches,
        )


def evaluate_pass(  # noqa: PLR0913 (what is evaluated, and how it is reported)
    phase: Phase,
    group: Group,
    loader: Loader,
    metrics: PassMetrics,
    context: RunContext,
    *,
    name: str,
    shown_phase: str | None = None,
    epoch: int = 0,
    key: str = "evaluate",
    pass_index: int | None = None,
    event_time: int | None = None,
    max_batches: int | None = None,
    may_be_empty: bool = False,
) -> dict[str, float]:
    """Evaluate the model of a phase on the data of a loader, report the metrics, return them.

    Raises DataError if there is no sample, unless the data ``may_be_empty``.
    """
    begin = context.clock()
    with loader.epoch(epoch, event_time=event_time) as own:
        evaluated = evaluate(
            phase.stepper,
            group,
            group.align_steps(own, loader.inputs),
            metrics,
            max_batches=max_batches,
            should_stop=context.should_stop,
            key=key,
            pass_index=pass_index,
        )
    if evaluated.is_empty and not may_be_empty:
        raise no_samples(loader)
    seconds = max(context.clock() - begin, 1e-9)
    context.observer.pass_done(
        PassDone(
            kind="infer",
            phase=shown_phase or phase.name,
            epoch=name,
            seconds=seconds,
            samples_per_s=evaluated.num_samples / seconds,
            metrics=evaluated.metrics,
            tables={},
            event_time=event_time,
            index=None if event_time is None else pass_index,
        )
    )
    return evaluated.metrics


def write_result(url: str, metrics: Mapping[str, float], *, step: int) -> dict[str, float]:
    """Write metrics as EasyRec's eval_result.txt: JSON, null where undefined; returns them."""
    named = {"loss/loss/total_loss" if k == "LOSS" else k: v for k, v in metrics.items()}
    result = {**named, "global_step": step}
    plain = {name: value if math.isfinite(value) else None for name, value in result.items()}
    text = json.dumps(plain, indent=2, sort_keys=True) + "\n"
    storage.write_bytes(url, text.encode())
    return result
