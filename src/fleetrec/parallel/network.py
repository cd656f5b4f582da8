"""The dense network of a model, with gradients that ranks share."""

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from fleetrec.core.batch import Batch
from fleetrec.models.base import Model
from fleetrec.tasks.task import Outputs


class _WithLoss(nn.Module):
    """Returns the loss beside the outputs, so that what it depends on is seen to be used."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Batch) -> tuple[Tensor, Outputs]:
        outputs = self.model(batch)
        return self.model.loss(outputs, batch), outputs


def trained_together(model: Model) -> nn.Module:
    """Return the network of a model; its gradients are the mean over the ranks."""
    network = _WithLoss(model)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        return network
    return DistributedDataParallel(network, find_unused_parameters=True)
