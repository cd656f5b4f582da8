"""The network of DeepFM, independent of the source of its vectors."""

# Shape suffixes: B samples, F features, W width of wide terms, D width, X width, K classes.

import torch
from torch import Tensor, nn

from fleetrec.nn.fm import FactorizationMachine
from fleetrec.nn.linear_terms import LinearTerms
from fleetrec.nn.mlp import Mlp, scaled_linear


class DeepFm(nn.Module):
    """First-order terms, a factorization machine and an MLP; their logits add up.

    With ``final`` they are the input of one more MLP; the machine gives its pooled vector.
    """

    def __init__(
        self,
        mlp: Mlp,
        *,
        num_class: int = 1,
        wide_dim: int = 1,
        final: Mlp | None = None,
    ) -> None:
        super().__init__()
        if final is None and wide_dim != 1:
            raise ValueError(f"wide_output_dim {wide_dim} needs a final_dnn; without, it is 1")
        self.linear = LinearTerms() if final is None else None
        self.fm = FactorizationMachine()
        self.mlp = mlp
        self.final = final
        width = mlp.out_dim if final is None else final.out_dim
        self.out = scaled_linear(width, num_class, bias=final is not None)

    @staticmethod
    def final_dim(mlp: Mlp, *, wide_dim: int, dim: int) -> int:
        """Return the input width of a final MLP."""
        return wide_dim + dim + mlp.out_dim

    def forward(self, terms_BFW: Tensor, x_BFD: Tensor, deep_BX: Tensor) -> Tensor:
        """Return logits_BK."""
        h_BX = self.mlp(deep_BX)
        if self.final is None:
            assert self.linear is not None
            first_B = self.linear(terms_BFW.squeeze(2))
            logits_BK: Tensor = (first_B + self.fm(x_BFD)).unsqueeze(1) + self.out(h_BX)
            return logits_BK
        parts = [terms_BFW.sum(dim=1), self.fm.pool(x_BFD), h_BX]
        joined_BK: Tensor = self.out(self.final(torch.cat(parts, dim=1)))
        return joined_BK
