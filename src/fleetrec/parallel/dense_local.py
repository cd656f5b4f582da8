"""The dense network of one process, updated by its own optimizer."""

import contextlib
from collections.abc import Mapping

import torch
from torch import Tensor

from fleetrec.core.batch import Batch
from fleetrec.core.errors import CheckpointError
from fleetrec.models.base import Model
from fleetrec.optim.dense import DenseOptimizer
from fleetrec.parallel.optimizer_plan import OptimizerPlan
from fleetrec.parallel.state import STEP, DenseState


class LocalDense:
    """Computes gradients and applies them here."""

    def __init__(self, model: Model, plan: OptimizerPlan) -> None:
        self._model = model
        self._plan = plan
        self._parameters = dict(model.named_parameters())
        self._optimizer = DenseOptimizer(plan.parameter_groups())
        self._step = 0

    @property
    def step(self) -> int:
        """Return how many updates were made."""
        return self._step

    def load_weights(self) -> None:
        """Do nothing: the weights are here."""

    def forward_backward(self, batch: Batch) -> tuple[dict[str, Tensor], Tensor]:
        """Compute outputs, loss and gradients."""
        outputs = self._model(batch)
        loss = self._model.loss(outputs, batch)
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        return outputs, loss

    def gradients(self) -> list[Tensor]:
        """Return the gradients of the step."""
        return [p.grad for p in self._parameters.values() if p.grad is not None]

    def apply(self) -> float:
        """Update the weights; returns the learning rate of the last optimizer."""
        rates = self._plan.rates(self._step)
        self._optimizer.step(rates)
        self._step += 1
        return rates[-1]

    def evaluation_weights(self) -> contextlib.AbstractContextManager[None]:
        """Do nothing: the weights of this process are those of the group."""
        return contextlib.nullcontext()

    def state(self) -> DenseState:
        """Return copies of weights and optimizer state."""
        state: dict[str, Mapping[str, Tensor]] = {"model": _copied(self._model.state_dict())}
        kept = {
            f"{name}/{key}": value
            for name, parameter in self._parameters.items()
            for key, value in self._optimizer.state_of(parameter).items()
        }
        if self._plan.follows_steps:
            kept[STEP] = torch.tensor(self._step)
        if self._parameters or kept:
            state["optimizer"] = _copied(kept)
        return state

    def load_state(self, state: DenseState) -> None:
        """Load weights and optimizer state."""
        load_model_weights(self._model, state)
        slots = dict(state.get("optimizer", {}))
        self.clear_optimizer()
        self._step = int(slots.pop(STEP, torch.tensor(0)))
        for name, value in slots.items():
            parameter_name, _, key = name.rpartition("/")
            parameter = self._parameters[parameter_name]
            # Optimizers of torch keep their step counters on the CPU.
            device = torch.device("cpu") if key == "step" else parameter.device
            self._optimizer.load_state_of(parameter, key, value.to(device, copy=True))

    def clear_optimizer(self) -> None:
        """Let the optimizer start from the beginning."""
        self._optimizer.clear_state()
        self._step = 0


def load_model_weights(model: Model, state: DenseState) -> None:
    """Load parameters and buffers, all of which must be there and fit."""
    if "model" not in state:
        raise CheckpointError(
            "the checkpoint has no weights of a model; name the tables to load with load_vars"
        )
    try:
        model.load_state_dict(dict(state["model"]))
    except RuntimeError as error:
        raise CheckpointError(f"the checkpoint does not fit the model: {error}") from error


def load_fitting_weights(model: Model, state: DenseState, names: list[str]) -> list[str]:
    """Load the named parameters and buffers that are there and fit; returns those."""
    own = model.state_dict()
    given = state.get("model", {})
    fit = [n for n in names if n in own and n in given and own[n].shape == given[n].shape]
    model.load_state_dict({**own, **{name: given[name] for name in fit}})
    return fit


def _copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
