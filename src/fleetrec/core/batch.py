"""Batches: the input of a model."""

# Shape suffixes: B samples.

import dataclasses
from collections.abc import Callable, Mapping
from typing import Self

import torch
from torch import Tensor

from fleetrec.core.cursor import Cursor
from fleetrec.core.errors import DataError
from fleetrec.core.jagged import KeyedJagged
from fleetrec.core.sides import SAMPLE as SAMPLE

MapTensor = Callable[[str, Tensor], Tensor]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The features a data set delivers, in the order it declares them.

    ``sides`` are those of further sides of a batch.
    """

    sparse: tuple[str, ...] = ()
    dense: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    sides: Mapping[str, "Inputs"] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Rows of one kind: id lists and dense tensors by feature name."""

    ids: KeyedJagged
    dense: Mapping[str, Tensor] = dataclasses.field(default_factory=dict)

    @property
    def num_rows(self) -> int:
        """Return the number of rows."""
        return self.ids.num_samples

    @classmethod
    def blank(cls, inputs: Inputs) -> Self:
        """Return one row of zeros."""
        size = len(inputs.sparse)
        return cls(
            ids=KeyedJagged(
                names=inputs.sparse,
                values_N=torch.zeros(size, dtype=torch.int64),
                offsets=torch.arange(size + 1),
                num_samples=1,
            ),
            dense={name: torch.zeros(1, *shape) for name, shape in inputs.dense.items()},
        )

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors by name: ids, offsets, weights (if any), dense/<feature>."""
        tensors = {"ids": self.ids.values_N, "offsets": self.ids.offsets}
        if self.ids.weights_N is not None:
            tensors["weights"] = self.ids.weights_N
        return tensors | {f"dense/{name}": tensor for name, tensor in self.dense.items()}

    def map_tensors(self, fn: MapTensor) -> Self:
        """Return the same rows with ``fn(name, tensor)`` in the place of every tensor."""
        mapped = {name: fn(name, tensor) for name, tensor in self.tensors().items()}
        return dataclasses.replace(
            self,
            ids=dataclasses.replace(
                self.ids,
                values_N=mapped["ids"],
                offsets=mapped["offsets"],
                weights_N=mapped.get("weights"),
            ),
            dense={name: mapped[f"dense/{name}"] for name in self.dense},
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Some samples: id lists and dense tensors by feature name, and the position in the data.

    ``ids`` and ``dense`` are the sample side. ``other_sides`` have any number of rows of their own,
    such as sampled negatives or the items of a request. ``embedded`` is filled before the model
    runs: the looked-up vectors, pooled ones by group and sequences by name. ``event_time`` is when
        the samples happened, in seconds. ``weights_B`` are the weights of the
    samples in the loss, if the data has any. A batch that ``is_blank`` holds no real samples: its
    process joins a step for which it has no data.
    """

    ids: KeyedJagged
    dense: Mapping[str, Tensor]
    cursor: Cursor
    progress: float = 0.0
    event_time: int = 0
    other_sides: Mapping[str, Side] = dataclasses.field(default_factory=dict)
    embedded: Mapping[str, Tensor] = dataclasses.field(default_factory=dict)
    weights_B: Tensor | None = None
    is_blank: bool = False
    _labels: dict[str, Tensor] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if SAMPLE in self.other_sides:
            raise ValueError(f"a further side cannot be called {SAMPLE!r}")

    @property
    def num_samples(self) -> int:
        """Return the number of samples."""
        return self.ids.num_samples

    @property
    def sides(self) -> dict[str, Side]:
        """Return all sides by name, the samples first."""
        return {SAMPLE: Side(ids=self.ids, dense=self.dense), **self.other_sides}

    def side(self, name: str) -> Side:
        """Return one side."""
        if name != SAMPLE and name not in self.other_sides:
            raise DataError(f"the batch has no side {name!r}; it has {', '.join(self.sides)}")
        return self.sides[name]

    def label(self, name: str) -> Tensor:
        """Return labels_B of a feature that has exactly one value per sample."""
        if name not in self._labels:  # used by both loss and metrics
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

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors by name: <side>/<tensor of the side>, embedded/<name>, weights."""
        tensors = {
            f"{side}/{name}": tensor
            for side, rows in self.sides.items()
            for name, tensor in rows.tensors().items()
        }
        tensors |= {f"embedded/{name}": tensor for name, tensor in self.embedded.items()}
        return tensors if self.weights_B is None else tensors | {"weights": self.weights_B}

    def map_tensors(self, fn: MapTensor) -> Self:
        """Return the same batch with ``fn(name, tensor)`` in the place of every tensor."""
        sides = {side: rows.map_tensors(_below(side, fn)) for side, rows in self.sides.items()}
        sample = sides.pop(SAMPLE)
        return dataclasses.replace(
            self,
            ids=sample.ids,
            dense=sample.dense,
            other_sides=sides,
            embedded={name: fn(f"embedded/{name}", x) for name, x in self.embedded.items()},
            weights_B=None if self.weights_B is None else fn("weights", self.weights_B),
            _labels={},
        )

    def to(self, device: torch.device) -> Self:
        """Return the same batch on ``device``."""
        return self.map_tensors(lambda _, tensor: tensor.to(device))


def _below(side: str, fn: MapTensor) -> MapTensor:
    """Return ``fn`` for tensors of a side, whose names begin with its own."""
    return lambda name, tensor: fn(f"{side}/{name}", tensor)
