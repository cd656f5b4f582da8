"""Try a run without training: build its models and evaluate them on the first samples."""

from collections.abc import Sequence

from fleetrec.config.job import DatasetOptions, RunOptions
from fleetrec.core.place import Place
from fleetrec.data.loader import Loader
from fleetrec.parallel.join import join_group
from fleetrec.train.evaluate import no_samples
from fleetrec.train.inference_export import plan_inference_of
from fleetrec.train.metrics import PassMetrics
from fleetrec.train.phase import Phase, build_phases

NUM_SAMPLES = 1000


def dry_run(run: RunOptions, *, num_samples: int = NUM_SAMPLES) -> list[str]:
    """Raise what ``run`` would raise at its start and in its first steps; returns warnings.

    The models are built in this process, whatever the processes of the run are, and evaluated with
    their initial weights. Nothing is written.
    """
    group = join_group(run, Place())
    phases = build_phases(run, group)
    plan_inference_of(run, phases)
    warnings = []
    for phase in phases:
        labels = [task.label for task in phase.model.tasks]
        found = _evaluate(phase, phase.options.dataset, run, num_samples=num_samples)
        warnings += _named(found, labels)
    if run.evaluation is not None:
        warnings += _named(
            _evaluate(phases[0], run.evaluation.dataset, run, num_samples=num_samples)
        )
    group.close(finished=True)
    return warnings


def _evaluate(
    phase: Phase, dataset: DatasetOptions, run: RunOptions, *, num_samples: int
) -> Loader:
    loader = Loader(dataset, seed=run.seed)
    metrics = PassMetrics(phase.model.tasks)
    with loader.epoch(0) as batches, phase.stepper.evaluating():
        for batch in batches:
            result = phase.stepper.evaluate(batch)
            metrics.count(result.outputs, batch, result.loss)
            if batch.cursor.samples >= num_samples:
                break
    if run.online is None and not metrics.has_samples:
        raise no_samples(loader)
    return loader


def _named(loader: Loader, labels: Sequence[str] = ()) -> list[str]:
    return [f"data set {loader.name}: {text}" for text in loader.report.take_warnings(labels)]
