"""From what follows ``-m``, and from ``workspace``, to files."""

import dataclasses
import difflib
from pathlib import Path

from fleetrec.core.errors import ConfigError

PACKAGE = Path(__file__).parents[2]
ZOO = PACKAGE / "models"
JOB_FILES = ("config.yaml", "pipeline.config")  # of a workspace, of a model folder
MAX_NAME = 255  # what a file system takes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Located:
    """A file or folder, and notices for the user about how it was found."""

    path: Path
    notices: tuple[str, ...] = ()


def zoo_names() -> tuple[str, ...]:
    """Return ``category/model`` of every built-in model."""
    configs = ZOO.glob("*/*/config.yaml")
    return tuple(sorted(f"{c.parent.parent.name}/{c.parent.name}" for c in configs))


def locate_job(text: str) -> Located:
    """Find the job file of ``-m``: a file, a folder that holds one, or a zoo name."""
    if not text:
        raise ConfigError(["-m: expected a job file, a folder or a model such as rank/dnn"])
    path = Path(text)
    if len(path.name) > MAX_NAME:
        raise ConfigError([f"-m {text[:MAX_NAME]}...: no such file, folder or model"])
    if path.is_file():
        return Located(path=path)
    if path.is_dir():
        for name in JOB_FILES:
            if (path / name).is_file():
                return Located(path=path / name)
        raise ConfigError([f"-m {text}: the folder holds no {' and no '.join(JOB_FILES)}"])
    found = _in_zoo(text.removesuffix("/config.yaml"))
    if found is None:
        raise ConfigError([f"-m {text}: no such file, folder or model{_zoo_hint(text)}"])
    return dataclasses.replace(found, path=found.path / "config.yaml")


def locate_workspace(text: str | None, *, job_file: Path) -> Located:
    """Find the folder of ``{workspace}``; without the key it is the folder of the yaml."""
    if text is None:
        return Located(path=job_file.parent.absolute())
    path = Path(text)
    if path.is_dir():
        return Located(path=path.absolute())
    found = _in_zoo(text)
    if found is None:
        raise ConfigError([f"no such folder: {path.absolute()}{_zoo_hint(text)}"])
    return found


def locate_data(text: str) -> str:
    """Resolve ``data_path``; ``paddlerec::dir`` and ``fleetrec::dir`` lie in the package."""
    for prefix in ("paddlerec::", "fleetrec::"):
        if text.startswith(prefix):
            return str(PACKAGE / text.removeprefix(prefix))
    return text


def _in_zoo(text: str) -> Located | None:
    """Read ``fleetrec.models.rank.dnn``, its old spelling, ``models/rank/dnn``, ``rank/dnn``."""
    notices: list[str] = []
    name = text.strip("/")
    if name.startswith(("fleetrec.models.", "paddlerec.models.")):
        package, _, dotted = name.partition(".models.")
        name = dotted.replace(".", "/")
        if package == "paddlerec":
            notices.append(f"{text} is read as fleetrec.models.{dotted}")
    elif name.startswith("models/"):
        name = name.removeprefix("models/")
        notices.append(f"no folder {text} here; the built-in model {name} is used")
    if name not in zoo_names():
        return None
    return Located(path=ZOO / name, notices=tuple(notices))


def _zoo_hint(text: str) -> str:
    """Suggest a built-in model, in the spelling of ``text``.

    Models are compared by their own names: the category, and the words around it, would make any
    two names look alike.
    """
    if text.endswith((".yaml", ".yml")):
        return ""
    is_dotted = "models." in text
    own = text.strip("/").replace(".", "/").rpartition("/")[2]
    by_name = {name.rpartition("/")[2]: name for name in zoo_names()}
    close = difflib.get_close_matches(own, by_name, n=1)
    if not close:
        return "; fleetrec models list prints the built-in models"
    found = by_name[close[0]]
    spelled = f"fleetrec.models.{found.replace('/', '.')}" if is_dotted else found
    return f"; did you mean {spelled!r}?"
