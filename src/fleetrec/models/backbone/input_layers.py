"""The input layer of a group."""

# Shape suffixes: B samples, F features, L elements, D width, X width of a group.

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fleetrec.config.pipeline_dialect.backbone import InputLayer
from fleetrec.models.backbone.sources import GroupSource
from fleetrec.models.backbone.values import Value, stacked
from fleetrec.models.group_sequences import joined
from fleetrec.nn.batch_norm import BatchNorm


class GroupInput(nn.Module):
    """The vectors of a group: as a matrix, a list, or sequences and a target.

    Normalisation and dropout apply to vectors, not to sequences.
    """

    def __init__(self, options: InputLayer, group: str, source: GroupSource) -> None:
        super().__init__()
        self.options, self._group = options, group
        self._is_plain = not (options.do_batch_norm or options.do_layer_norm)
        self.norm: nn.Module = nn.Identity()
        if not options.output_seq_and_normal_feature:
            dims = [part.shape[1] for part in source.vectors(group)]
            if options.do_batch_norm:
                self.norm = BatchNorm(sum(dims))
            elif options.do_layer_norm:
                self.norm = nn.LayerNorm(sum(dims), eps=1e-3)

    def forward(self, source: GroupSource, options: InputLayer | None = None) -> Value:
        """Return the value; ``options`` replace the form and the dropout of this run."""
        options = options or self.options
        if options.output_seq_and_normal_feature:
            return self._with_sequences(source, options)
        parts = self._changed(source.vectors(self._group), options)
        if options.only_output_feature_list:
            return parts
        if options.only_output_3d_tensor:
            return stacked(parts)
        x_BX = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
        return [x_BX, parts] if options.output_2d_tensor_and_feature_list else x_BX

    def _changed(self, parts: Sequence[Tensor], options: InputLayer) -> list[Tensor]:
        found = list(parts)
        if not self._is_plain:
            dims = [part.shape[1] for part in parts]
            found = list(self.norm(torch.cat(found, dim=1)).split(dims, dim=1))
        if not self.training:
            return found
        rate = options.feature_dropout_rate
        if rate:
            kept_F = (torch.rand(len(found), device=found[0].device) >= rate) / (1 - rate)
            found = [part * kept for part, kept in zip(found, kept_F, strict=True)]
        if options.dropout_rate:
            found = [nn.functional.dropout(part, options.dropout_rate) for part in found]
        return found

    def _with_sequences(self, source: GroupSource, options: InputLayer) -> Value:
        sequences = source.sequences(self._group)
        if not sequences:
            raise ValueError(f"group {self._group} has no sequences")
        plain = source.plain_vectors(self._group)
        target = [torch.cat(plain, dim=1)] if plain else []
        if options.concat_seq_feature:
            whole = joined(sequences)
            return [whole.x_BLD, whole.lengths_B, *target]
        return [[one.x_BLD for one in sequences], sequences[0].lengths_B, *target]
