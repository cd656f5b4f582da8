"""The dense network of a rank: gradients are averaged over the ranks, each applies them."""

import contextlib
from collections.abc import Callable, Iterator

import torch
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from fleetrec.core.batch import Batch
from fleetrec.models.base import Model
from fleetrec.parallel.dense_local import LocalDense
from fleetrec.parallel.optimizer_plan import OptimizerPlan
from fleetrec.parallel.rank_comm import RankComm
from fleetrec.tasks.task import Outputs


class _WithLoss(nn.Module):
    """Returns the loss with the outputs, so that DDP finds the parameters it depends on."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Batch) -> tuple[Tensor, Outputs]:
        outputs = self.model(batch)
        return self.model.loss(outputs, batch), outputs


def wrap_ddp(model: Model) -> nn.Module:
    """Return the network of a model; its gradients are the mean over the ranks."""
    network = _WithLoss(model)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        return network
    return DistributedDataParallel(network, find_unused_parameters=True)


class DdpDense(LocalDense):
    """Gradients of the mean loss over the samples of all ranks.

    ``loss_share`` returns the part of this rank in the loss of all, times the number of ranks.
    """

    def __init__(
        self,
        model: Model,
        plan: OptimizerPlan,
        comm: RankComm,
        *,
        loss_share: Callable[[], float],
    ) -> None:
        super().__init__(model, plan)
        self._comm = comm
        self._loss_share = loss_share
        self._network = wrap_ddp(model)

    def forward_backward(self, batch: Batch) -> tuple[dict[str, Tensor], Tensor]:
        """Compute gradients whose mean over the ranks is that of all their samples."""
        # Batch norm would count a placeholder, and refuses a batch of one sample in training.
        if batch.is_blank:
            self._model.eval()
        with self._comm.naming_lost_ranks("sum gradients"):
            loss, outputs = self._network(batch)
            self._optimizer.zero_grad()
            (loss * self._loss_share()).backward()
        return outputs, loss

    def evaluation_weights(self) -> contextlib.AbstractContextManager[None]:
        """Let all ranks evaluate with the buffers of the chief, as a checkpoint holds them.

        Batch norm counts other samples on every rank.
        """
        return self._chief_buffers()

    @contextlib.contextmanager
    def _chief_buffers(self) -> Iterator[None]:
        own = {name: buffer.clone() for name, buffer in self._model.named_buffers()}
        if not own:
            yield
            return
        content = save({name: buffer.cpu().contiguous() for name, buffer in own.items()})
        _set_buffers(self._model, load(self._comm.broadcast(content, wait=True)))
        try:
            yield
        finally:
            _set_buffers(self._model, own)


@torch.no_grad()
def _set_buffers(model: Model, values: dict[str, Tensor]) -> None:
    for name, buffer in model.named_buffers():
        buffer.copy_(values[name])
