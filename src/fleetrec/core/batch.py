"""What a model sees of the data."""

# Shape suffixes: B samples.

import dataclasses
from collections.abc import Mapping
from typing import Self

import torch
from torch import Tensor

from fleetrec.core.cursor import Cursor
from fleetrec.core.errors import DataError
from fleetrec.core.jagged import KeyedJagged


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The features a data set delivers, in the order it declares them."""

    sparse: tuple[str, ...] = ()
    dense: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Some samples: id lists and dense tensors by feature name, and where reading stands.

    ``embedded`` is filled before a model sees the batch: the vectors that its embeddings
    asked for, pooled by group and sequences by name. ``event_time`` is when the samples
    happened, in seconds. ``weights_B``, if the data has them, say how much each sample counts in
    the loss. A batch that ``is_blank`` stands for no samples, where a process has to take part in a
    step and has no data.
    """

    ids: KeyedJagged
    dense: Mapping[str, Tensor]
    cursor: Cursor
    progress: float = 0.0
    event_time: int = 0
    embedded: Mapping[str, Tensor] = dataclasses.field(default_factory=dict)
    weights_B: Tensor | None = None
    is_blank: bool = False
    _labels: dict[str, Tensor] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    @property
    def num_samples(self) -> int:
        """Return the number of samples."""
        return self.ids.num_samples

    def label(self, name: str) -> Tensor:
        """Return labels_B of a feature that has exactly one value per sample."""
        if name not in self._labels:  # loss and metrics both ask
            self._labels[name] = self._find_label(name)
        return self._labels[name]

    def _find_label(self, name: str) -> Tensor:
        if name in self.dense:
            labels = self.dense[name]
            one_each = labels[0].numel() == 1
        elif name in self.ids:
            jagged = self.ids[name]
            labels = jagged.values
            one_each = len(labels) == len(jagged) and bool((jagged.lengths() == 1).all())
        else:
            known = [*self.ids, *self.dense]
            raise DataError(f"label {name!r} is not among the features of the data: {known}")
        if not one_each:
            raise DataError(f"label {name!r} must have one value per sample")
        return labels.reshape(self.num_samples).to(torch.float32)

    def with_embedded(self, embedded: Mapping[str, Tensor]) -> Self:
        """Return the batch with looked-up vectors."""
        return dataclasses.replace(self, embedded=embedded)

    def to(self, device: torch.device) -> Self:
        """Return the same batch on ``device``."""
        return dataclasses.replace(
            self,
            ids=self.ids.to(device),
            dense={name: value.to(device) for name, value in self.dense.items()},
            weights_B=None if self.weights_B is None else self.weights_B.to(device),
            _labels={},
        )
