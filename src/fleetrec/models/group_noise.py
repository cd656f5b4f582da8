"""Learned dropout of the features of groups."""

# Shape suffixes: B samples, X width of a group, Y width of its features.

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from fleetrec.config.groups import VariationalDropoutOptions
from fleetrec.nn.variational_dropout import VariationalDropout


class GroupNoise(nn.Module):
    """Noise for groups, by group; without options there is none."""

    def __init__(
        self, options: VariationalDropoutOptions | None, dims: Mapping[str, Sequence[int]]
    ) -> None:
        super().__init__()
        self._widths = {group: sum(widths) for group, widths in dims.items()}
        self.groups = nn.ModuleDict()
        if options is not None:
            for group, widths in dims.items():
                self.groups[group.replace(".", "_")] = VariationalDropout(
                    widths, by_value=options.by_value, penalty=options.penalty
                )

    def forward(self, group: str, x_BX: Tensor) -> Tensor:
        """Return the group with noise on its features; what follows them stays."""
        name = group.replace(".", "_")
        if name not in self.groups:
            return x_BX
        width = self._widths[group]
        noisy_BY: Tensor = self.groups[name](x_BX[:, :width])
        return torch.cat([noisy_BY, x_BX[:, width:]], dim=1)

    def penalty(self, num_samples: int) -> Tensor | None:
        """Return the term of the loss for the rates; None without noise."""
        found = [one for one in self.groups.values() if isinstance(one, VariationalDropout)]
        return torch.stack([one.penalty(num_samples) for one in found]).sum() if found else None
