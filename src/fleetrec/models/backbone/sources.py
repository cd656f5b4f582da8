"""Where a backbone gets the vectors of feature groups from."""

# Shape suffixes: B samples, L elements, D width.

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from fleetrec.config.groups import GroupOptions
from fleetrec.core.batch import Batch
from fleetrec.embedding.collection import Sequence
from fleetrec.models.groups import GroupEmbeddings

EXAMPLES = 2  # samples from which layers learn the widths of their inputs
STEPS = 3  # elements of their sequences


class GroupSource(ABC):
    """The vectors of groups for one run of the network."""

    @abstractmethod
    def vectors(self, group: str) -> list[Tensor]:
        """Return one x_BD per feature."""

    @abstractmethod
    def plain_vectors(self, group: str) -> list[Tensor]:
        """Return one x_BD for each feature that is not a sequence."""

    @abstractmethod
    def sequences(self, group: str) -> list[Sequence]:
        """Return the sequences, uncombined."""

    def numbers(self, group: str) -> Tensor:
        """Return x_BX, the numbers of a group that has nothing else."""
        if not self.has_only_numbers(group):
            raise ValueError(f"raw_input: group {group} must have numbers only, without tables")
        return torch.cat(self.plain_vectors(group), dim=1)

    @abstractmethod
    def has_only_numbers(self, group: str) -> bool:
        """Return whether no feature of a group has a table."""


class BatchSource(GroupSource):
    """The samples of a batch."""

    def __init__(self, inputs: GroupEmbeddings, batch: Batch) -> None:
        self._inputs, self._batch = inputs, batch

    def vectors(self, group: str) -> list[Tensor]:
        """Return one x_BD per feature."""
        x_BX = self._inputs.cat(self._batch, group)
        return list(torch.split(x_BX, list(self._inputs.dims(group)), dim=1))

    def plain_vectors(self, group: str) -> list[Tensor]:
        """Return one x_BD for each feature that is not a sequence."""
        return self._inputs.plain_vectors(self._batch, group)

    def sequences(self, group: str) -> list[Sequence]:
        """Return the sequences, uncombined."""
        return self._inputs.sequences(self._batch, group)

    def has_only_numbers(self, group: str) -> bool:
        """Return whether no feature of a group has a table."""
        return _has_only_numbers(self._inputs.options[group])


class NegativeSource(BatchSource):
    """The sampled items of a batch."""

    def vectors(self, group: str) -> list[Tensor]:
        """Return one vector per feature."""
        x_NX = self._inputs.negatives(self._batch, group)
        return list(torch.split(x_NX, list(self._inputs.dims(group)), dim=1))

    def plain_vectors(self, group: str) -> list[Tensor]:
        """Return one vector per feature."""
        return self.vectors(group)

    def sequences(self, group: str) -> list[Sequence]:
        """Refuse sequences."""
        raise ValueError(f"group {group}: sampled items cannot have sequences")


class ExampleSource(GroupSource):
    """Zeros of the right widths, from which layers are built."""

    def __init__(self, inputs: GroupEmbeddings) -> None:
        self._inputs = inputs

    def vectors(self, group: str) -> list[Tensor]:
        """Return one x_BD per feature."""
        return [torch.zeros(EXAMPLES, dim) for dim in self._inputs.dims(group)]

    def plain_vectors(self, group: str) -> list[Tensor]:
        """Return one x_BD for each feature that is not a sequence."""
        return [torch.zeros(EXAMPLES, dim) for dim in _plain_dims(self._inputs.options[group])]

    def sequences(self, group: str) -> list[Sequence]:
        """Return the sequences, uncombined."""
        lengths_B = torch.full((EXAMPLES,), STEPS)
        return [
            Sequence(x_BLD=torch.zeros(EXAMPLES, STEPS, dim), lengths_B=lengths_B)
            for dim in self._inputs.sequence_dims(group)
        ]

    def has_only_numbers(self, group: str) -> bool:
        """Return whether no feature of a group has a table."""
        return _has_only_numbers(self._inputs.options[group])


def _has_only_numbers(group: GroupOptions) -> bool:
    return not any(one.embedded or one.sequence for one in group.features)


def _plain_dims(group: GroupOptions) -> list[int]:
    plain = [one for one in group.features if one.sequence is None]
    return [one.embedded.dim if one.embedded else one.width for one in plain]
