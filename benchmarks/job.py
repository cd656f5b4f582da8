"""The job that the benchmarks run: rank/dnn on Criteo-like slot text."""

from collections.abc import Sequence
from pathlib import Path

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
from fleetrec.models.load import model_options
from fleetrec.parallel.cluster import Cluster
from fleetrec.train.phase import PhaseRun, build_phase

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
    cluster: Cluster | None = None,
) -> PhaseRun:
    """Build rank/dnn as a training run does, alone or as a worker of a cluster."""
    run = dnn_run(data_path, batch_size=batch_size, hidden=hidden)
    return build_phase(run.phases[0], run, cluster)


def dnn_run(
    data_path: Path,
    *,
    batch_size: int,
    hidden: Sequence[int] = HIDDEN,
    cluster: ClusterOptions | None = None,
) -> RunOptions:
    """Return a training run of rank/dnn, in one process unless a cluster is given."""
    model_path = Path(fleetrec.models.__file__).parent / "rank" / "dnn" / "model.py"
    model = model_options(model_path).model_validate(
        {
            "sparse_feature_number": NUM_IDS,
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
