"""FBGEMM's table-batched embedding, the fastest public one, and a training loop by hand on it."""

# Shape suffixes: B samples, X input width, N ids of a batch.

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.criteo_like import DENSE, LABEL, NUM_IDS, SPARSE
from benchmarks.dense import plain_network
from benchmarks.job import EMBEDDING_DIM, HIDDEN, dataset
from fleetrec.config.job import OptimizerOptions
from fleetrec.core.batch import Batch
from fleetrec.data.loader import Loader
from fleetrec.optim.dense import dense_optimizer

INSTALL = "pip install --no-deps fbgemm-gpu-cpu==1.8.0"
LR = 0.01


def is_installed() -> bool:
    """Tell whether there is an FBGEMM to compare with."""
    return importlib.util.find_spec("fbgemm_gpu") is not None


def new_bags(*, num_ids: int, dim: int, num_features: int, lr: float) -> Any:
    """Return one table that all features share; row-wise Adagrad is fused into its backward."""
    from fbgemm_gpu.split_embedding_configs import EmbOptimType
    from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation
    from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
        ComputeDevice,
        SplitTableBatchedEmbeddingBagsCodegen,
    )

    bags: Any = SplitTableBatchedEmbeddingBagsCodegen(
        [(num_ids, dim, EmbeddingLocation.HOST, ComputeDevice.CPU)],
        feature_table_map=[0] * num_features,
        optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD,
        learning_rate=lr,
        eps=1e-8,
    )
    bags.init_embedding_weights_uniform(-0.01, 0.01)
    return bags


class FbgemmLoop:
    """What an engineer writes for speed: the bags, layers of torch, fused Adam, and no more.

    It reads with our loader, which is faster than what such a loop usually reads with, and it
    computes no metrics. Its table has a row for every id from the start.
    """

    def __init__(self, *, hidden: Sequence[int] = HIDDEN) -> None:
        self._bags = new_bags(num_ids=NUM_IDS, dim=EMBEDDING_DIM, num_features=len(SPARSE), lr=LR)
        self._network = plain_network(hidden)
        self._optimizer = dense_optimizer(
            self._network.parameters(), OptimizerOptions(name="adam", lr=0.001)
        )

    def train_part(self, part: Path, *, batch_size: int) -> int:
        """Train on one file; returns the number of rows."""
        num_rows = 0
        with Loader(dataset(part, batch_size=batch_size), seed=0).epoch(0) as batches:
            for batch in batches:
                self.step(batch)
                num_rows += batch.num_samples
        return num_rows

    def step(self, batch: Batch) -> Tensor:
        """Learn from a batch; returns the loss."""
        offsets = batch.ids.offsets[batch.num_samples :]  # behind the label, the first column
        first = int(offsets[0])
        embedded_BX = self._bags(batch.ids.values_N[first:], offsets - first)
        x_BX = torch.cat([embedded_BX, batch.dense[DENSE]], dim=1)
        logit_B = self._network(x_BX)
        loss = functional.binary_cross_entropy_with_logits(logit_B, batch.label(LABEL))
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        return loss.detach()
