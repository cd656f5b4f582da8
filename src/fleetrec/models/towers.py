"""Towers: parts of a model that make vectors of users or items, for retrieval."""

# Shape suffixes: B samples, K vectors of a sample, D width of a vector.

import dataclasses
from collections.abc import Callable

from torch import Tensor

from fleetrec.core.batch import Batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tower:
    """A part of a model that can be computed from some of the inputs.

    ``Model.recall_towers`` declares towers by name. Recall finds the items whose vectors have the
    largest inner products with the vector of the user, so a model for retrieval declares the towers
    ``user`` and ``item``, and its score rises with the inner product of their vectors. A user may
    have several vectors, x_BKD: the largest inner product counts.

    Args:
        output: The name of the vector, which is an output of the whole model, too.
        embedded: The names of the looked-up vectors that it reads, pooled ones and sequences.
        dense: The dense inputs that it reads.
        compute: Returns the vectors of a batch, x_BD or x_BKD; a method of the model.
    """

    output: str
    embedded: tuple[str, ...] = ()
    dense: tuple[str, ...] = ()
    compute: Callable[[Batch], Tensor]
