"""The base of every typed configuration."""

from typing import Any

from pydantic import BaseModel, ConfigDict


def lower(value: Any) -> Any:
    """Return a text in small letters, for names that may be written in any."""
    return value.lower() if isinstance(value, str) else value


class Options(BaseModel):
    """Options of one part of a job: frozen, complete, and closed to unknown keys."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        protected_namespaces=(),
        coerce_numbers_to_str=True,  # a slot may be called 1
    )

    def to_plain(self) -> dict[str, Any]:
        """Return the options as plain data that JSON can hold."""
        return self.model_dump(mode="json", by_alias=True)


class PlainOptions(Options):
    """Options whose class is not loaded: plain values by name."""

    model_config = ConfigDict(extra="allow")
