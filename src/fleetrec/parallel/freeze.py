"""Parameters and tables that are not trained."""

from collections.abc import Collection

from torch import nn

from fleetrec.core.errors import ConfigError


def freeze(model: nn.Module, tables: Collection[str], names: Collection[str]) -> frozenset[str]:
    """Switch gradients of the named parameters off; returns the names that are tables."""
    parameters: dict[str, nn.Parameter] = dict(model.named_parameters())
    known = {*parameters, *tables}
    unknown = sorted(set(names) - known)
    if unknown:
        raise ConfigError(
            [
                f"finetuning_aspect_varnames: the model has no {', '.join(unknown)}; "
                f"known: {', '.join(sorted(known))}"
            ]
        )
    for name in set(names) & parameters.keys():
        parameters[name].requires_grad_(False)  # noqa: FBT003
    return frozenset(names) & frozenset(tables)
