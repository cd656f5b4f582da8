"""Samples that share the value of a feature, and weights of samples by a feature."""

# Shape suffixes: B samples.

import pyarrow as pa
import torch
from torch import Tensor

from fleetrec._native import hash_text
from fleetrec.config.losses import SampleSpaceOptions
from fleetrec.core.batch import Batch
from fleetrec.core.errors import DataError
from fleetrec.features.text import text_buffers


def ids_of(batch: Batch, feature: str, *, what: str = "session") -> Tensor:
    """Return the one id that every sample has of a feature."""
    ids_B = batch.ids[feature].values
    if len(ids_B) != batch.num_samples:
        raise DataError(f"{what}: a sample has no {feature!r}")
    return ids_B


def space_weights(space: SampleSpaceOptions, batch: Batch) -> Tensor:
    """Return the weight of every sample."""
    if space.label:
        inside_B = batch.label(space.label) > 0
    else:
        text = pa.array([space.value.encode()], pa.large_binary())
        wanted = int(hash_text(*text_buffers(text))[0])
        inside_B = ids_of(batch, space.feature, what="task_space_indicator_name") == wanted
    return torch.where(inside_B, space.inside, space.outside).to(torch.float32)
