"""Several interests of a user from a history."""

# Shape suffixes: B samples, L elements, D width of an element, K interests, H width of an interest.

import torch
from torch import Tensor, nn
from torch.nn import functional

from fleetrec.nn.weights import scaled_weight


class InterestCapsules(nn.Module):
    """Elements S x_l are routed to K interests, several times, by the softmax of their logits.

    Li et al., "Multi-Interest Network with Dynamic Routing for Recommendation at Tmall", CIKM 2019.
    The first logits are random in training and fixed in evaluation. A history of n elements has
    log(n) interests, at least one and at most K; with ``constant`` always K.
    """

    first_LK: Tensor

    def __init__(  # noqa: PLR0913
        self,
        dim: int,
        *,
        num_interests: int,
        length: int,
        out_dim: int,
        num_rounds: int = 3,
        scale: float = 20.0,
        spread: float = 1.0,
        power: float = 1.0,
        ratio: float = 1.0,
        constant: bool = False,
    ) -> None:
        super().__init__()
        self.num_interests, self.length, self.num_rounds = num_interests, length, num_rounds
        self.scale, self.spread, self.power, self.ratio = scale, spread, power, ratio
        self.constant = constant
        self.weight = scaled_weight(dim, out_dim, fan_in=dim)
        generator = torch.Generator().manual_seed(28)
        first_LK = torch.rand(length, num_interests, generator=generator) * spread
        self.register_buffer("first_LK", first_LK)

    def forward(self, x_BLD: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
        """Return interests_BKH and a mask of those that there are."""
        rest = x_BLD.new_zeros(x_BLD.shape[0], self.length, x_BLD.shape[2])
        x_BLD = torch.cat([x_BLD, rest], dim=1)[:, : self.length]
        lengths_B = lengths_B.clamp(max=self.length)
        mask_BLX = (torch.arange(self.length, device=x_BLD.device) < lengths_B[:, None])[..., None]
        kept_BK = self._kept(lengths_B)
        x_BLH = x_BLD @ self.weight
        fixed_BLH = x_BLH.detach()
        logits_BLK = self._first(x_BLH)
        lowest = torch.finfo(x_BLH.dtype).min
        interests_BKH = x_BLH[:, :1]
        for number in range(self.num_rounds):
            logits_BLK = logits_BLK.masked_fill(~kept_BK.unsqueeze(1), lowest)
            shares_BLK = torch.softmax(logits_BLK, dim=2) * mask_BLX
            is_last = number + 1 == self.num_rounds
            interests_BKH = shares_BLK.transpose(1, 2) @ (x_BLH if is_last else fixed_BLH)
            if not is_last:
                directions_BKH = functional.normalize(interests_BKH, dim=2)
                elements_BLH = functional.normalize(fixed_BLH, dim=2) if self.scale else fixed_BLH
                logits_BLK = elements_BLH @ directions_BKH.transpose(1, 2) * (self.scale or 1.0)
        return self._squashed(interests_BKH) * kept_BK.unsqueeze(2), kept_BK

    def _kept(self, lengths_B: Tensor) -> Tensor:
        count_B = torch.full_like(lengths_B, self.num_interests)
        if not self.constant:
            logarithm_B = lengths_B.clamp(min=1).to(torch.float32).log().to(lengths_B.dtype)
            count_B = logarithm_B.clamp(1, self.num_interests)
        return torch.arange(self.num_interests, device=lengths_B.device) < count_B.unsqueeze(1)

    def _first(self, x_BLH: Tensor) -> Tensor:
        shape = (x_BLH.shape[0], self.length, self.num_interests)
        if not self.training:
            return self.first_LK.expand(shape)
        noise_BLK = torch.randn(shape, device=x_BLH.device).clamp(-2, 2)
        return noise_BLK * self.spread

    def _squashed(self, x_BKH: Tensor) -> Tensor:
        norm_BK1 = x_BKH.square().sum(dim=2, keepdim=True).clamp(min=1e-8)
        factor_BK1 = (norm_BK1 / (1 + norm_BK1)).pow(self.power) * self.ratio / norm_BK1.sqrt()
        return factor_BK1 * x_BKH
