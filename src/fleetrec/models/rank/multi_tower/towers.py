"""Towers over groups of features, and what comes after them."""

# Shape suffixes: B samples, X width, K classes.

from collections.abc import Mapping, Sequence

import torch
from pydantic import Field
from torch import Tensor, nn

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.message import Message
from fleetrec.config.pipeline_dialect.model import Dnn, Tower
from fleetrec.core.batch import Batch
from fleetrec.models.group_model import GroupModel, mlp_of
from fleetrec.nn.batch_norm import BatchNorm
from fleetrec.nn.mlp import scaled_linear


class BstTower(Message):
    """Self-attention over one group of sequences."""

    input: str
    seq_len: int = Field(default=5, gt=0)
    multi_head_size: int = Field(default=4, gt=0)


class MultiTowerMessage(Message):
    """``multi_tower``."""

    towers: tuple[Tower, ...] = ()
    final_dnn: Dnn
    l2_regularization: float = Field(default=1e-4, ge=0)
    din_towers: tuple[Tower, ...] = ()
    bst_towers: tuple[BstTower, ...] = ()


class TowerModel(GroupModel):
    """Each group has batch normalisation and an MLP; a final MLP takes their outputs.

    A subclass may add parts of its own, and then calls ``finish`` with their width.
    """

    def __init__(self, config: GroupModelOptions, options: MultiTowerMessage) -> None:
        super().__init__(config, l2=options.l2_regularization)
        if not (options.towers or options.din_towers or options.bst_towers):
            raise ValueError("multi_tower needs towers")
        self._options, self._num_class = options, config.num_class
        self._names = [tower.input for tower in options.towers]
        dims = [self.inputs.dim(name) for name in self._names]
        self.norms = nn.ModuleList(BatchNorm(dim) for dim in dims)
        towers = [mlp_of(tower.dnn, dim) for tower, dim in zip(options.towers, dims, strict=True)]
        self.towers = nn.ModuleList(towers)
        self._width = sum(tower.out_dim for tower in towers)

    def finish(self, further_dim: int = 0) -> None:
        """Add the layers over all towers and further parts."""
        self.final = mlp_of(self._options.final_dnn, self._width + further_dim)
        self.out = scaled_linear(self.final.out_dim, self._num_class)

    def scopes(self) -> Mapping[str, str]:
        """Return the user-visible names of parts of the network."""
        towers = {f"towers.{number}": name for number, name in enumerate(self._names)}
        norms = {f"norms.{number}": f"{name}_fea_bn" for number, name in enumerate(self._names)}
        return {**towers, **norms, "final": "final_dnn", "out": "output"}

    def logits(self, batch: Batch, further: Sequence[Tensor]) -> Tensor:
        """Return logits_BK over the towers and further parts."""
        parts = [
            tower(norm(self.inputs.cat(batch, name)))
            for name, norm, tower in zip(self._names, self.norms, self.towers, strict=True)
        ]
        logits_BK: Tensor = self.out(self.final(torch.cat([*parts, *further], dim=1)))
        return logits_BK
