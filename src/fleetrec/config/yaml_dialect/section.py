"""The base of the sections of a job file, and types that they share."""

from typing import Annotated, Any

from pydantic import BeforeValidator, model_validator

from fleetrec.config.options import Options, Url


def forward_slashes(value: Any) -> Any:
    """Accept paths written on Windows."""
    return value.replace("\\", "/") if isinstance(value, str) else value


def _none_if_empty(value: Any) -> Any:
    return None if value == "" else forward_slashes(value)


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("expected a whole number")
    return value


Int = Annotated[int, BeforeValidator(_no_bool)]
PathText = Annotated[str, BeforeValidator(forward_slashes)]
MaybePath = Annotated[str | None, BeforeValidator(_none_if_empty)]
MaybeUrl = Annotated[Url | None, BeforeValidator(_none_if_empty)]


class Section(Options):
    """A part of a job file: a key without a value counts as missing."""

    @model_validator(mode="before")
    @classmethod
    def _without_nothing(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in data.items() if value is not None}
