"""Random changes of sequences, for contrastive learning."""

# Shape suffixes: B samples, L elements, D width.

import torch
from torch import Tensor, nn


class SequenceAugment(nn.Module):
    """Each sequence is cropped, or some elements are masked, or a part is reordered, at random.

    Xie et al., "Contrastive Learning for Sequential Recommendation", ICDE 2022. The rates are
    shares of the length: what remains of a crop, what is masked, what is reordered.
    """

    def __init__(
        self, dim: int, *, mask_rate: float, crop_rate: float, reorder_rate: float
    ) -> None:
        super().__init__()
        self.mask_D = nn.Parameter(torch.randn(dim) / dim)
        self.mask_rate, self.crop_rate, self.reorder_rate = mask_rate, crop_rate, reorder_rate

    def forward(self, x_BLD: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
        """Return changed sequences and their lengths."""
        places_BL = torch.arange(x_BLD.shape[1], device=x_BLD.device).expand(x_BLD.shape[:2])
        lengths_B1 = lengths_B.unsqueeze(1)
        method_B1 = torch.randint(3, lengths_B1.shape, device=x_BLD.device)
        cropped_BL, kept_B1 = self._crop(places_BL, lengths_B1)
        order_BL = torch.where(method_B1 == 0, cropped_BL, places_BL)
        order_BL = torch.where(method_B1 == 2, self._reorder(places_BL, lengths_B1), order_BL)
        found_BLD = torch.gather(x_BLD, 1, order_BL.unsqueeze(2).expand_as(x_BLD))
        is_masked_BL = self._masked(places_BL, lengths_B1) & (method_B1 == 1)
        found_BLD = torch.where(is_masked_BL.unsqueeze(2), self.mask_D, found_BLD)
        left_B1 = torch.where(method_B1 == 0, kept_B1, lengths_B1)
        found_BLD = found_BLD * (places_BL < left_B1).unsqueeze(2)
        return found_BLD, left_B1.squeeze(1)

    def _crop(self, places_BL: Tensor, lengths_B1: Tensor) -> tuple[Tensor, Tensor]:
        kept_B1 = (lengths_B1 * self.crop_rate).long().clamp(min=1).minimum(lengths_B1)
        begin_B1 = self._begin(lengths_B1 - kept_B1)
        return (places_BL + begin_B1).clamp(max=places_BL.shape[1] - 1), kept_B1

    def _masked(self, places_BL: Tensor, lengths_B1: Tensor) -> Tensor:
        """Choose the elements with the smallest random numbers."""
        noise_BL = torch.rand(places_BL.shape, device=places_BL.device)
        noise_BL = noise_BL.masked_fill(places_BL >= lengths_B1, 2.0)
        ranks_BL = noise_BL.argsort(dim=1).argsort(dim=1)
        return ranks_BL < (lengths_B1 * self.mask_rate).long()

    def _reorder(self, places_BL: Tensor, lengths_B1: Tensor) -> Tensor:
        """Sort a part by random numbers; all other elements keep their places."""
        count_B1 = (lengths_B1 * self.reorder_rate).long()
        begin_B1 = self._begin(lengths_B1 - count_B1)
        is_moved_BL = (places_BL >= begin_B1) & (places_BL < begin_B1 + count_B1)
        noise_BL = torch.rand(places_BL.shape, device=places_BL.device) * 0.999
        keys_BL = torch.where(is_moved_BL, begin_B1 + noise_BL, places_BL.to(noise_BL.dtype))
        after_BL = places_BL >= begin_B1 + count_B1
        return torch.where(after_BL, places_BL.to(noise_BL.dtype), keys_BL).argsort(
            dim=1, stable=True
        )

    @staticmethod
    def _begin(room_B1: Tensor) -> Tensor:
        share_B1 = torch.rand(room_B1.shape, device=room_B1.device)
        return (share_B1 * (room_B1 + 1)).long().minimum(room_B1).clamp(min=0)
