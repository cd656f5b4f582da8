"""Negative items for every batch, which avoid the positive ones."""

import dataclasses
import logging
from collections.abc import Mapping
from typing import Self

import numpy as np
import torch

from fleetrec.config.job import DatasetOptions
from fleetrec.config.samplers import OWNER, SAMPLED, SLOT, SamplerOptions
from fleetrec.core.batch import Inputs, Side
from fleetrec.core.errors import DataError
from fleetrec.core.sides import NEGATIVES
from fleetrec.data.block import Block, select_side
from fleetrec.data.item_files import Catalogue, Edges, read_catalogue, read_edges
from fleetrec.features.values import Ids, to_offsets

logger = logging.getLogger(__name__)

MAX_ROUNDS = 16  # of drawing again what was refused


@dataclasses.dataclass(frozen=True, kw_only=True)
class ItemNegatives:
    """Adds a side of drawn items, as the options say, and of hard negatives.

    The dense features ``owner`` and ``slot`` of the side say to which sample an item belongs, and
    as its how manieth; -1 for items that all samples share.
    """

    options: SamplerOptions
    catalogue: Catalogue
    positives: Edges | None = None
    hard: Edges | None = None

    @classmethod
    def open(cls, options: SamplerOptions, dataset: DatasetOptions) -> Self:
        """Read the files."""
        catalogue = read_catalogue(options, dataset)

        def edges(path: str) -> Edges | None:
            if not path:
                return None
            return read_edges(path, catalogue, separator=options.field_separator)

        return cls(
            options=options,
            catalogue=catalogue,
            positives=edges(options.positive_path),
            hard=edges(options.hard_path),
        )

    @property
    def inputs(self) -> Mapping[str, Inputs]:
        """Return the features of the items."""
        items = self.catalogue.items
        dense = {name: tuple(tensor.shape[1:]) for name, tensor in items.dense.items()}
        dense |= {OWNER: (1,), SLOT: (1,)}
        return {NEGATIVES: Inputs(sparse=items.ids.names, dense=dense)}

    def __call__(self, block: Block, rng: np.random.Generator) -> Block:
        """Return the block with the drawn items as a side."""
        shared = self._shared(block, rng)
        owners, hard = self._hard(block, rng)
        side = select_side([self.catalogue.items], np.concatenate([shared, hard]))
        lengths = np.bincount(owners, minlength=block.num_samples)
        slots = np.arange(len(owners)) - np.repeat(to_offsets(lengths)[:-1], lengths)
        dense = {
            OWNER: _with_minus_one(len(shared), owners),
            SLOT: _with_minus_one(len(shared), slots),
        }
        negatives = Side(ids=side.ids, dense={**side.dense, **dense})
        return dataclasses.replace(block, sides={**block.sides, NEGATIVES: negatives})

    def _shared(self, block: Block, rng: np.random.Generator) -> Ids:
        """Draw the items that all samples share."""
        num_items, count = len(self.catalogue.hashes), self.options.num_samples
        places, is_known = self.catalogue.places(_hashes(block, self.options.item_column))
        own = np.unique(places[is_known])
        if self.options.kind == "not_in_batch_uniform":
            allowed = np.setdiff1d(np.arange(num_items), own, assume_unique=True)
            allowed = allowed if len(allowed) else np.arange(num_items)
            return rng.choice(allowed, count, replace=len(allowed) < count).astype(np.int64)
        if self.options.kind == "not_in_batch":
            keys, forbidden = np.zeros(count, np.int64), own
        else:
            keys, forbidden = self._positives_of(block, count)
        return self._draw(keys, forbidden, rng)

    def _positives_of(self, block: Block, count: int) -> tuple[Ids, Ids]:
        """Return the user of each draw, in turn, and forbidden pairs of user and item."""
        assert self.positives is not None
        users = _hashes(block, self.options.user_column)
        num_items = len(self.catalogue.hashes)
        keys = np.arange(count) % len(users)
        pairs = [
            row * num_items + self.positives.of(int(user))
            for row, user in enumerate(users[: min(count, len(users))])
        ]
        return keys, np.sort(np.concatenate(pairs))

    def _draw(self, keys: Ids, forbidden: Ids, rng: np.random.Generator) -> Ids:
        """Draw one item per key by weight; ``key * number of items + item`` is not forbidden."""
        num_items = len(self.catalogue.hashes)
        ends = self.catalogue.weights.cumsum()
        if ends[-1] <= 0:
            raise DataError(f"{self.options.item_path}: expected a weight above 0")
        drawn = np.full(len(keys), -1, np.int64)
        waiting = np.arange(len(keys))
        for _ in range(MAX_ROUNDS):
            places = np.searchsorted(ends, rng.random(len(waiting)) * ends[-1], side="right")
            places = np.minimum(places, num_items - 1)
            is_free = ~_is_in(keys[waiting] * num_items + places, forbidden)
            drawn[waiting[is_free]] = places[is_free]
            waiting = waiting[~is_free]
            if not len(waiting):
                return drawn
        for key in np.unique(keys[waiting]):  # almost all items are forbidden: list the others
            mine = waiting[keys[waiting] == key]
            first, last = np.searchsorted(forbidden, [key * num_items, (key + 1) * num_items])
            weights = self.catalogue.weights.copy()
            weights[forbidden[first:last] - key * num_items] = 0
            weights = weights if weights.sum() else self.catalogue.weights
            drawn[mine] = rng.choice(num_items, len(mine), p=weights / weights.sum())
        return drawn

    def _hard(self, block: Block, rng: np.random.Generator) -> tuple[Ids, Ids]:
        """Return the owners of hard negatives, in order, and the items."""
        nothing = np.empty(0, np.int64)
        if self.hard is None:
            return nothing, nothing
        owners, items = [nothing], [nothing]
        for row, user in enumerate(_hashes(block, self.options.user_column)):
            found = self.hard.of(int(user))
            if len(found) > self.options.num_hard:
                found = np.sort(rng.choice(found, self.options.num_hard, replace=False))
            owners.append(np.full(len(found), row))
            items.append(found)
        return np.concatenate(owners), np.concatenate(items)


def _hashes(block: Block, column: str) -> Ids:
    found = block.ids[f"{SAMPLED}{column}"].values.numpy()
    if len(found) != block.num_samples:
        raise DataError(f"sampler: a sample has no {column!r}")
    return found


def _is_in(values: Ids, ordered: Ids) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    if not len(ordered):
        return np.zeros(len(values), np.bool_)
    at = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    found: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] = ordered[at] == values
    return found


def _with_minus_one(count: int, numbers: Ids) -> torch.Tensor:
    whole = np.concatenate([np.full(count, -1), numbers]).astype(np.float32)
    return torch.from_numpy(whole).unsqueeze(1)
