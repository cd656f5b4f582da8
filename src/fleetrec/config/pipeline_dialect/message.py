"""The base class of pipeline messages: typed fields, all of them optional."""

from typing import Any, ClassVar, Literal, cast

from pydantic import Field, model_validator
from pydantic.fields import FieldInfo

from fleetrec.config.options import Options

Support = Literal["later", "idle"]
_SUPPORT = "support"


class Message(Options):
    """A message. Of the fields in one tuple of ``oneofs`` at most one may be given."""

    oneofs: ClassVar[tuple[tuple[str, ...], ...]] = ()

    @model_validator(mode="after")
    def _check_oneofs(self) -> "Message":
        for names in self.oneofs:
            given = [name for name in names if name in self.model_fields_set]
            if len(given) > 1:
                raise ValueError(f"expected one of {', '.join(names)}, got {' and '.join(given)}")
        return self


class Opaque(Message):
    """A message whose fields are not read."""

    model_config = {**Options.model_config, "extra": "allow"}


def later(default: Any = None) -> Any:
    """Declare a field that is known and not supported yet; only its default may be given."""
    return Field(default=default, json_schema_extra={_SUPPORT: "later"})


def idle(default: Any = None) -> Any:
    """Declare a field that has no effect here; setting it gives a notice."""
    return Field(default=default, json_schema_extra={_SUPPORT: "idle"})


def support_of(field: FieldInfo) -> Support | None:
    """Return whether a field was declared by ``later`` or ``idle``."""
    extra = field.json_schema_extra
    return cast(Support | None, extra.get(_SUPPORT)) if isinstance(extra, dict) else None
