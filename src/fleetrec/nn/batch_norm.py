"""Batch normalisation that accepts a batch of one sample."""

# Shape suffixes: B samples, D width.

from torch import Tensor, nn
from torch.nn import functional


class BatchNorm(nn.BatchNorm1d):
    """Normalises by the batch in training and by running statistics in evaluation.

    A training batch of one sample has no variance; it is normalised by the running statistics and
    does not change them.
    """

    def forward(self, x_BD: Tensor) -> Tensor:
        """Return x_BD, each column scaled and shifted."""
        if self.training and x_BD.shape[0] == 1:
            return functional.batch_norm(
                x_BD, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
            )
        normalised_BD: Tensor = super().forward(x_BD)
        return normalised_BD


class WideBatchNorm(BatchNorm):
    """The same for any number of leading dimensions, which are all counted as samples."""

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape; the last dimension is normalised."""
        if x.dim() == 2:
            return super().forward(x)
        normalised: Tensor = super().forward(x.flatten(end_dim=-2))
        return normalised.reshape(x.shape)
