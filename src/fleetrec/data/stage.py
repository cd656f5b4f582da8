"""The stage between decoded samples and batches, which adds further sides to a batch."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from fleetrec.core.batch import Inputs
from fleetrec.data.block import Block
from fleetrec.data.decode import Decoded
from fleetrec.data.plan import DataShard

STREAM = 0x5746  # keeps the draws of stages apart from those that shuffle


class Stage(Protocol):
    """Adds sides to the samples of one batch, such as sampled negatives.

    The loader calls it when the samples of a batch are final, in its threads, from several at once.
    A stage is a pure function of the block and the generator, so that a resumed run makes the same
    batches as an unbroken one.
    """

    @property
    def inputs(self) -> Mapping[str, Inputs]:
        """Return the features of the sides that it adds, by side."""
        ...

    def __call__(self, block: Block, rng: np.random.Generator) -> Block:
        """Return the block with further ``sides``; all random draws must come from ``rng``."""
        ...


class NoStage:
    """The default: batches have the sample side only."""

    @property
    def inputs(self) -> Mapping[str, Inputs]:
        """Return no sides."""
        return {}

    def __call__(self, block: Block, rng: np.random.Generator) -> Block:
        """Return the block as it is."""
        del rng
        return block


def stage_rng(decoded: Decoded, *, seed: int, epoch: int, shard: DataShard) -> np.random.Generator:
    """Return the generator of one batch, which depends on its position in the data alone.

    The position is the number of samples before the batch in this worker's epoch. It is the same
    after a resume, and in whichever thread the stage runs.
    """
    return np.random.default_rng([STREAM, seed, epoch, shard.index, decoded.begin.samples])
