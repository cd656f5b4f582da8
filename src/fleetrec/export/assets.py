"""Further files of an inference model, which the model itself does not read."""

from collections.abc import Iterable

from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError, ConfigError

ASSET_FILES = "export_config.asset_files"


def read_assets(given: Iterable[str], *, option: str) -> dict[str, bytes]:
    """Return files by name; ``name:path`` gives another name than that of the file.

    ``option`` is what names them, for messages.
    """
    found: dict[str, bytes] = {}
    problems: list[str] = []
    for one in given:
        name, colon, path = one.partition(":")
        if not colon or path.startswith("//"):  # a URL
            name, path = storage.name_of(one), one
        if not name or name.startswith("/") or ".." in name.split("/"):
            problems.append(f"{option}: {name!r} lies outside the folder of assets")
        elif name in found:
            problems.append(f"{option}: two files are called {name!r}; name:path renames one")
        else:
            try:
                found[name] = storage.read_bytes(path)
            except CheckpointError as error:
                problems.append(f"{option}: {error}")
    if problems:
        raise ConfigError(problems)
    return found
