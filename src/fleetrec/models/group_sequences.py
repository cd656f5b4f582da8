"""Sequences of feature groups, and attention over them."""

# Shape suffixes: B samples, L longest list, S steps, K values of a step, D width, X any width.

import dataclasses
from collections.abc import Sequence as Items

import torch
from torch import Tensor, nn
from torch.nn import functional

from fleetrec.config.groups import AttentionOptions, GroupFeature, SequenceOptions
from fleetrec.core.batch import Batch
from fleetrec.embedding.collection import Embedded, Sequence
from fleetrec.nn.history_attention import HistoryAttention
from fleetrec.nn.mlp import Mlp, scaled_linear
from fleetrec.nn.sequence_attention import SequenceAttention
from fleetrec.nn.text_cnn import TextCnn
from fleetrec.nn.weights import scaled_weight


class GroupSequence(nn.Module):
    """One sequence feature: a vector for every step, and one for the whole if it has a combiner.

    ``name`` is the name of its looked-up vectors.
    """

    def __init__(self, feature: GroupFeature, *, name: str) -> None:
        super().__init__()
        assert feature.sequence is not None
        self._feature = feature
        self._options: SequenceOptions = feature.sequence
        self._name = name
        self.step_dim = feature.embedded.dim if feature.embedded else self._number_dim()
        if feature.embedded is None and self._options.dim:
            width = self._options.step_width
            self.weight = scaled_weight(width, self._options.dim, fan_in=self._options.dim)
        self.combiner = self._combiner()

    @property
    def out_dim(self) -> int:
        """Return the width of the combined vector."""
        if self.combiner is None:
            raise ValueError(
                f"feature {self._feature.name} is a sequence; where a group is one vector it needs "
                "a sequence_combiner, as in attention {}"
            )
        return self.combiner.out_dim if isinstance(self.combiner, TextCnn) else self.step_dim

    def forward(self, batch: Batch, embedded: Embedded) -> Sequence:
        """Return the vectors of all steps."""
        if self._feature.embedded is None:
            return self._numbers(batch)
        sequence = embedded.sequence(self._name)
        if not self._options.counts:
            return sequence
        counts_BS = batch.dense[self._options.counts].flatten(1)
        return _by_step(sequence, counts_BS, self._feature.embedded.combiner)

    def combined(self, sequence: Sequence) -> Tensor:
        """Return one vector for the whole."""
        assert self.combiner is not None
        combined_BD: Tensor = self.combiner(sequence.x_BLD, sequence.mask_BL)
        return combined_BD

    def _number_dim(self) -> int:
        return self._options.dim or self._options.step_width

    def _combiner(self) -> nn.Module | None:
        match self._options.combiner:
            case "attention":
                return SequenceAttention(self.step_dim)
            case "text_cnn":
                return TextCnn(
                    self.step_dim,
                    filter_sizes=self._options.filter_sizes,
                    num_filters=self._options.num_filters,
                )
        return None

    def _numbers(self, batch: Batch) -> Sequence:
        numbers_BX = batch.dense[self._feature.name].flatten(1)
        lengths_B = numbers_BX[:, 0].to(torch.int64)
        steps = (self._options.max_steps, self._options.step_width)
        x_BSK = torch.unflatten(numbers_BX[:, 1:], 1, steps)
        if not torch.compiler.is_exporting():
            x_BSK = x_BSK[:, : max(1, int(lengths_B.max()))]
        return Sequence(
            x_BLD=x_BSK @ self.weight if self._options.dim else x_BSK, lengths_B=lengths_B
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class AttentionInputs:
    """What an attention compares: a key with a history, and further sequences of its steps."""

    key_BX: Tensor
    history_BLD: Tensor
    mask_BL: Tensor
    aux: tuple[Tensor, ...] = ()


class GroupAttention(nn.Module):
    """The attention of one group of sequences; its output is concatenated to a feature group."""

    def __init__(self, options: AttentionOptions, *, key_dim: int, history_dim: int) -> None:
        super().__init__()
        self._options = options
        self.attention = HistoryAttention(history_dim, options.layers)
        self.transform: nn.Module | None = None
        if key_dim != history_dim or options.transforms_deeply:
            if not options.transforms_key:
                raise ValueError(
                    f"sequence_features {options.name}: the keys have width {key_dim}, the history "
                    f"{history_dim}; set allow_key_transform: true, or choose others"
                )
            self.transform = (
                Mlp(key_dim, [history_dim], batch_norm=True)
                if options.transforms_deeply
                else scaled_linear(key_dim, history_dim)
            )
        self.history_dim = history_dim

    def out_dim(self, aux_dim: int) -> int:
        """Return the width of the output; ``aux_dim`` is that of all further sequences."""
        return self.history_dim * (1 + self._options.needs_key) + aux_dim

    def forward(self, inputs: AttentionInputs) -> Tensor:
        """Return the weighted history and the key."""
        key_BD = inputs.key_BX if self.transform is None else self.transform(inputs.key_BX)
        found_BX: Tensor = self.attention(key_BD, inputs.history_BLD, inputs.mask_BL, inputs.aux)
        return torch.cat([found_BX, key_BD], dim=1) if self._options.needs_key else found_BX


def align(sequences: Items[Sequence]) -> list[Tensor]:
    """Return sequences padded to one length, so that their steps can be concatenated."""
    if len(sequences) == 1:
        return [sequences[0].x_BLD]
    lengths = [sequence.x_BLD.shape[1] for sequence in sequences]
    # While exporting, a sum: the graph cannot prove that two maxima are equal.
    longest = sum(lengths) if torch.compiler.is_exporting() else max(lengths)
    return [
        functional.pad(sequence.x_BLD, (0, 0, 0, longest - length))
        for sequence, length in zip(sequences, lengths, strict=True)
    ]


def joined(sequences: Items[Sequence]) -> Sequence:
    """Return sequences concatenated step by step, with the lengths of the longest in each row."""
    lengths_B = sequences[0].lengths_B
    for sequence in sequences[1:]:
        lengths_B = torch.maximum(lengths_B, sequence.lengths_B)
    return Sequence(x_BLD=torch.cat(align(sequences), dim=2), lengths_B=lengths_B)


def _by_step(sequence: Sequence, counts_BS: Tensor, combiner: str) -> Sequence:
    """Sum up or average the vectors of every step, of which each has ``counts_BS``."""
    lengths_B = (counts_BS > 0).sum(dim=1)
    if not torch.compiler.is_exporting():
        counts_BS = counts_BS[:, : max(1, int(lengths_B.max()))]
    sums_BLD = functional.pad(sequence.x_BLD.cumsum(dim=1), (0, 0, 1, 0))
    ends_BS = counts_BS.cumsum(dim=1).to(torch.int64)
    begins_BS = ends_BS - counts_BS.to(torch.int64)
    x_BSD = _rows(sums_BLD, ends_BS) - _rows(sums_BLD, begins_BS)
    if combiner != "sum":
        divisor_BS = counts_BS if combiner == "mean" else counts_BS.sqrt()
        x_BSD = x_BSD / divisor_BS.clamp(min=1).unsqueeze(2)
    return Sequence(x_BLD=x_BSD, lengths_B=lengths_B)


def _rows(x_BLD: Tensor, places_BS: Tensor) -> Tensor:
    return x_BLD.gather(1, places_BS.unsqueeze(2).expand(-1, -1, x_BLD.shape[2]))
