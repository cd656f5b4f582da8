"""Ragged id lists, the layout of every sparse feature."""

# Shape suffixes: N ids, B samples, F features.

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Self

import torch
from torch import Tensor


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Jagged:
    """One list per sample: sample ``i`` owns ``values[offsets[i]:offsets[i + 1]]``.

    Ids are 64 bits wide; int64 holds the bits, so ids from 2^63 on look negative. ``weights``, if
    given, has one number per value.
    """

    values: Tensor
    offsets: Tensor
    weights: Tensor | None = None

    def __post_init__(self) -> None:
        _check_weights(self.weights, self.values)
        ends = (int(self.offsets[0]), int(self.offsets[-1]))
        if ends != (0, len(self.values)):
            raise ValueError(f"offsets must run from 0 to {len(self.values)}, got {ends}")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def lengths(self) -> Tensor:
        """Return the number of ids of each sample."""
        return self.offsets.diff()

    def to(self, device: torch.device) -> Self:
        """Return the same lists on ``device``."""
        return dataclasses.replace(
            self,
            values=self.values.to(device),
            offsets=self.offsets.to(device),
            weights=None if self.weights is None else self.weights.to(device),
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KeyedJagged(Mapping[str, Jagged]):
    """The id lists of several features in one pair of tensors, feature by feature.

    Sample ``i`` of feature ``f`` owns ``values_N[offsets[k]:offsets[k + 1]]``, k = f * B + i.
    Whole lookups work on the two tensors at once; ``keyed["name"]`` is one feature as a view.
    ``weights_N``, if given, are the weights of the ids in pooling.
    """

    names: tuple[str, ...]
    values_N: Tensor
    offsets: Tensor
    num_samples: int
    weights_N: Tensor | None = None

    def __post_init__(self) -> None:
        _check_weights(self.weights_N, self.values_N)
        want = len(self.names) * self.num_samples + 1
        if len(self.offsets) != want:
            raise ValueError(f"expected {want} offsets, got {len(self.offsets)}")

    def __getitem__(self, name: str) -> Jagged:
        if name not in self.names:
            raise KeyError(name)
        first = self.names.index(name) * self.num_samples
        offsets = self.offsets[first : first + self.num_samples + 1]
        begin, end = int(offsets[0]), int(offsets[-1])
        return Jagged(
            values=self.values_N[begin:end],
            offsets=offsets - begin,
            weights=None if self.weights_N is None else self.weights_N[begin:end],
        )

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def to(self, device: torch.device) -> Self:
        """Return the same lists on ``device``."""
        return dataclasses.replace(
            self,
            values_N=self.values_N.to(device),
            offsets=self.offsets.to(device),
            weights_N=None if self.weights_N is None else self.weights_N.to(device),
        )


def _check_weights(weights: Tensor | None, values: Tensor) -> None:
    if weights is None:
        return
    if weights.shape != values.shape or weights.dtype != torch.float32:
        raise ValueError(
            f"expected {len(values)} weights of float32, got {list(weights.shape)} of "
            f"{weights.dtype}"
        )
