"""The name and the first values of a weight or a table."""

import dataclasses
from typing import Any

from fleetrec.core.errors import ConfigError
from fleetrec.fluid.initializer import Initial
from fleetrec.fluid.missing import check_defaults


@dataclasses.dataclass(frozen=True, kw_only=True)
class Attr:
    """A name and an initializer; None for those of the layer."""

    name: str | None = None
    initializer: Initial | None = None


class ParamAttr(Attr):
    """Describes a weight or a table."""

    def __init__(  # noqa: PLR0913 (those of Fluid)
        self,
        name: str | None = None,
        initializer: Initial | None = None,
        learning_rate: float = 1.0,
        regularizer: Any = None,
        trainable: bool = True,  # noqa: FBT001, FBT002 (as in Fluid)
        gradient_clip: Any = None,
        do_model_average: bool = False,  # noqa: FBT001, FBT002 (as in Fluid)
    ) -> None:
        check_defaults(
            "fluid.ParamAttr",
            {
                "learning_rate": (learning_rate, 1.0),
                "regularizer": (regularizer, None),
                "trainable": (trainable, True),
                "gradient_clip": (gradient_clip, None),
                "do_model_average": (do_model_average, False),
            },
        )
        super().__init__(name=name, initializer=initializer)


AttrLike = Attr | str | Initial | bool | None


def to_attr(value: AttrLike) -> Attr | None:
    """Return a description: of a name or an initializer alone too; None for False."""
    if value is False:
        return None
    if value is None or value is True:
        return Attr()
    if isinstance(value, Attr):
        return value
    if isinstance(value, str):
        return Attr(name=value)
    if hasattr(value, "spread"):
        return Attr(initializer=value)
    raise ConfigError([f"param_attr: expected fluid.ParamAttr or a name, got {value!r}"])
