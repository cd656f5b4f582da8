"""Ragged id lists, the shape every sparse feature arrives in."""

# Shape suffixes: N ids, B samples, F features.

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Self

import torch
from torch import Tensor


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Jagged:
    """One list per sample: sample ``i`` owns ``values[offsets[i]:offsets[i + 1]]``.

    Ids are 64 bits wide; int64 holds the bits, so ids from 2^63 on look negative.
    """

    values: Tensor
    offsets: Tensor

    def __post_init__(self) -> None:
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
            self, values=self.values.to(device), offsets=self.offsets.to(device)
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KeyedJagged(Mapping[str, Jagged]):
    """The id lists of several features in one pair of tensors, feature by feature.

    Sample ``i`` of feature ``f`` owns ``values_N[offsets[k]:offsets[k + 1]]``, k = f * B + i.
    Whole lookups work on the two tensors at once; ``keyed["name"]`` is one feature as a view.
    """

    names: tuple[str, ...]
    values_N: Tensor
    offsets: Tensor
    num_samples: int
    weights_N: Tensor | None = None

    def __post_init__(self) -> None:
        want = len(self.names) * self.num_samples + 1
        if len(self.offsets) != want:
            raise ValueError(f"expected {want} offsets, got {len(self.offsets)}")

    def __getitem__(self, name: str) -> Jagged:
        if name not in self.names:
            raise KeyError(name)
        first = self.names.index(name) * self.num_samples
        offsets = self.offsets[first : first + self.num_samples + 1]
        begin, end = int(offsets[0]), int(offsets[-1])
        return Jagged(values=self.values_N[begin:end], offsets=offsets - begin)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def to(self, device: torch.device) -> Self:
        """Return the same lists on ``device``."""
        return dataclasses.replace(
            self, values_N=self.values_N.to(device), offsets=self.offsets.to(device)
        )
