"""The job that the benchmarks run: rank/dnn on Criteo-like slot text."""

from collections.abc import Sequence
from pathlib import Path

import torch

import fleetrec.models
from benchmarks.criteo_like import DENSE, LABEL, NUM_DENSE, NUM_IDS, SPARSE
from fleetrec.config.job import (
    ClusterOptions,
    DatasetOptions,
    DenseSlot,
    OptimizerOptions,
    PhaseOptions,
    RunOptions,
)
from fleetrec.core.progress import Progress
from fleetrec.data.loader import Loader
from fleetrec.models.load import model_options
from fleetrec.nn.denormals import flushed_denormals
from fleetrec.parallel.group import Group
from fleetrec.parallel.solo import SoloGroup
from fleetrec.train.loop import with_prefetch
from fleetrec.train.phase import Phase, build_phase

EMBEDDING_DIM = 16
HIDDEN = (400, 400, 400)


def dataset(data_path: Path, *, batch_size: int) -> DatasetOptions:
    """Return how to read a part, or a folder of parts."""
    return DatasetOptions(
        name="criteo_like",
        data_path=data_path,
        batch_size=batch_size,
        sparse=(LABEL, *SPARSE),
        dense=(DenseSlot(name=DENSE, shape=(NUM_DENSE,)),),
    )


def dnn_phase(
    data_path: Path,
    *,
    batch_size: int,
    hidden: Sequence[int] = HIDDEN,
    group: Group | None = None,
    num_ids: int = NUM_IDS,
) -> Phase:
    """Build rank/dnn as a training run does, in one process or as a member of a group."""
    run = dnn_run(data_path, batch_size=batch_size, hidden=hidden, num_ids=num_ids)
    return build_phase(run.phases[0], run, group or SoloGroup(torch.device("cpu")))


def dnn_run(
    data_path: Path,
    *,
    batch_size: int,
    hidden: Sequence[int] = HIDDEN,
    cluster: ClusterOptions | None = None,
    num_ids: int = NUM_IDS,
) -> RunOptions:
    """Return a training run of rank/dnn, in one process unless a cluster is given."""
    model_path = Path(fleetrec.models.__file__).parent / "rank" / "dnn" / "model.py"
    model = model_options(model_path).model_validate(
        {
            "sparse_feature_number": num_ids,
            "sparse_feature_dim": EMBEDDING_DIM,
            "fc_sizes": tuple(hidden),
        }
    )
    options = PhaseOptions(
        name="bench",
        model_path=model_path,
        model=model,
        optimizer=OptimizerOptions(name="adam", lr=0.001),
        dataset=dataset(data_path, batch_size=batch_size),
    )
    return RunOptions(
        name="bench",
        kind="train",
        engine="single" if cluster is None else "local_cluster",
        cluster=cluster or ClusterOptions(),
        phases=(options,),
    )


def train_part(phase: Phase, part: Path) -> int:
    """Train on one file as the training loop does, threads started and stopped within."""
    loader = Loader(dataset(part, batch_size=phase.options.dataset.batch_size), seed=0)
    progress = Progress()
    num_rows = 0
    with flushed_denormals(), loader.epoch(0) as batches:
        for batch in with_prefetch(batches, phase.stepper):
            progress = progress.after_batch(batch.cursor)
            result = phase.stepper.train(batch, progress=progress)
            phase.metrics.count(result.outputs, batch, result.loss)
            num_rows += batch.num_samples
    return num_rows
