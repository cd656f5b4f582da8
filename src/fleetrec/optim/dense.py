"""Optimizers of the dense network."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fleetrec.config.job import OptimizerOptions
from fleetrec.optim.ftrl_power import FtrlPower
from fleetrec.optim.lazy_adam import LazyAdam, corrected_rate
from fleetrec.optim.momentum import Momentum
from fleetrec.optim.rmsprop_momentum import RmsPropMomentum
from fleetrec.optim.schedule import learning_rate

Parameters = Iterable[nn.Parameter]


class DenseOptimizer:
    """Updates the parameters of a network with one or several optimizers."""

    def __init__(self, groups: Sequence[tuple[OptimizerOptions, Sequence[nn.Parameter]]]) -> None:
        self._parameters = [one for _, parameters in groups for one in parameters]
        self._optimizers = {
            number: dense_optimizer(parameters, options)
            for number, (options, parameters) in enumerate(groups)
            if any(parameter.requires_grad for parameter in parameters)
        }

    def zero_grad(self) -> None:
        """Clear all gradients."""
        for parameter in self._parameters:
            parameter.grad = None

    def step(self, rates: Sequence[float]) -> None:
        """Update all parameters, with one learning rate per optimizer."""
        for number, optimizer in self._optimizers.items():
            for group in optimizer.param_groups:
                group["lr"] = rates[number]
            optimizer.step()

    def state_of(self, parameter: nn.Parameter) -> Mapping[str, Tensor]:
        """Return the optimizer state of a parameter; empty before the first step."""
        for optimizer in self._optimizers.values():
            if parameter in optimizer.state:
                return dict(optimizer.state[parameter])
        return {}

    def clear_state(self) -> None:
        """Clear the state of all optimizers."""
        for optimizer in self._optimizers.values():
            optimizer.state.clear()

    def load_state_of(self, parameter: nn.Parameter, key: str, value: Tensor) -> None:
        """Load one tensor that ``state_of`` returned."""
        for optimizer in self._optimizers.values():
            held = (p for group in optimizer.param_groups for p in group["params"])
            if any(p is parameter for p in held):
                optimizer.state[parameter][key] = value


def dense_optimizer(parameters: Parameters, options: OptimizerOptions) -> torch.optim.Optimizer:
    """Return the optimizer of that name; hyper-parameters that are not set have usual defaults."""
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    settings: dict[str, Any] = dict(options.settings)
    match options.name:
        case "sgd":
            return torch.optim.SGD(trained, lr=options.lr)
        case "adam":
            return torch.optim.Adam(trained, lr=options.lr, eps=1e-8, fused=True)
        case "adagrad":
            return torch.optim.Adagrad(
                trained,
                lr=options.lr,
                eps=settings.get("eps", 1e-6),
                initial_accumulator_value=settings.get("initial_accumulator", 0.0),
            )
        case "momentumw" | "lazy_adamw":
            settings.setdefault("weight_decay", 1e-6)
        case _:
            pass
    formula: Callable[..., torch.optim.Optimizer] = {
        "momentum": Momentum,
        "momentumw": Momentum,
        "lazy_adam": LazyAdam,
        "lazy_adamw": LazyAdam,
        "rmsprop_momentum": RmsPropMomentum,
        "ftrl_power": FtrlPower,
    }[options.name]
    return formula(trained, lr=options.lr, **settings)


def follows_steps(options: OptimizerOptions) -> bool:
    """Return whether an update depends on the number of earlier steps of the run."""
    return options.schedule is not None or options.name in ("lazy_adam", "lazy_adamw")


def row_rate(options: OptimizerOptions, step: int) -> float:
    """Return the learning rate of rows in one step, from 0 on.

    For optimizers that do not count the steps of each row, it includes the bias correction.
    """
    rate = learning_rate(options, step)
    if options.name not in ("lazy_adam", "lazy_adamw"):
        return rate
    beta1 = options.settings.get("beta1", 0.9)
    beta2 = options.settings.get("beta2", 0.999)
    return corrected_rate(rate, step + 1, beta1=beta1, beta2=beta2)
