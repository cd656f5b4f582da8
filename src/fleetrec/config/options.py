"""The base of every typed configuration."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

from fleetrec.core.storage import has_credentials, to_url


def lower(value: Any) -> Any:
    """Return a text in lower case, for names that are case-insensitive."""
    return value.lower() if isinstance(value, str) else value


def to_text(path: Any) -> Any:
    """Return a path as text."""
    return str(path) if isinstance(path, Path) else path


def _check_url(url: str) -> str:
    if has_credentials(url):
        raise ValueError(
            "expected a URL without credentials, which would be written into checkpoints and "
            "logs; leave them to the environment"
        )
    return to_url(url)


# A path, or a URL that fsspec understands.
Url = Annotated[str, BeforeValidator(to_text), AfterValidator(_check_url)]


class Options(BaseModel):
    """Options of one part of a job: frozen, complete, and without unknown keys."""

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
