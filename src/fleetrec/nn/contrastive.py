"""Losses that compare two views of the same samples."""

# Shape suffixes: B samples, D width.

import torch
from torch import Tensor
from torch.nn import functional


def l2_distance(left_BD: Tensor, right_BD: Tensor) -> Tensor:
    """Return the mean squared distance of normalised vectors."""
    difference_BD = functional.normalize(left_BD, dim=1) - functional.normalize(right_BD, dim=1)
    return difference_BD.square().sum(dim=1).mean()


def info_nce(query_BD: Tensor, positive_BD: Tensor, *, temperature: float) -> Tensor:
    """Return the log loss of the own view among those of all samples, by cosine similarity."""
    query_BD, positive_BD = functional.normalize(query_BD), functional.normalize(positive_BD)
    own_B = torch.arange(len(query_BD), device=query_BD.device)
    return functional.cross_entropy(query_BD @ positive_BD.T / temperature, own_B)


def nce(left_BD: Tensor, right_BD: Tensor, *, temperature: float) -> Tensor:
    """Return the log loss of the other view among both views of all other samples.

    Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations", ICML 2020.
    """
    both_XD = functional.normalize(torch.cat([left_BD, right_BD]), dim=1)
    similarity_XX = both_XD @ both_XD.T / temperature
    is_self_XX = torch.eye(len(both_XD), dtype=torch.bool, device=both_XD.device)
    similarity_XX = similarity_XX.masked_fill(is_self_XX, torch.finfo(both_XD.dtype).min)
    own_B = torch.arange(len(left_BD), device=left_BD.device)
    return functional.cross_entropy(similarity_XX, torch.cat([own_B + len(own_B), own_B]))
