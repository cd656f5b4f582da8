"""Load the class ``Model`` from a file."""

import hashlib
import importlib.util
import sys
import traceback
from pathlib import Path

from fleetrec.config.options import Options
from fleetrec.core.errors import ModelError
from fleetrec.models.base import Model


def load_model_class(path: Path) -> type[Model]:
    """Import the file under a unique module name and return its ``Model``.

    The module name contains a digest of the path and the text, so that two files called model.py do
    not collide and an edited file is loaded again.
    """
    path = path.resolve()
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error}") from error
    digest = hashlib.sha256(f"{path}\0".encode() + text).hexdigest()[:16]
    name = f"fleetrec_user_{path.stem}_{digest}"
    module = sys.modules.get(name)
    if module is None:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None, path
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            del sys.modules[name]
            raise ModelError(_import_failure(path, error)) from error
    return _check_class(getattr(module, "Model", None), path)


def model_options(path: Path) -> type[Options]:
    """Return the ``Config`` of the model in a file."""
    return load_model_class(path).Config


def _check_class(found: object, path: Path) -> type[Model]:
    if not (isinstance(found, type) and issubclass(found, Model)):
        raise ModelError(
            f"{path}: expected a class Model(fleetrec.models.base.Model), found {found!r}"
        )
    if "Config" not in found.__dict__:
        raise ModelError(f"{path}: class Model must declare its own nested Config")
    try:
        found.Config()
    except ValueError as error:
        raise ModelError(f"{path}: every field of Model.Config needs a default: {error}") from error
    return found


def _import_failure(path: Path, error: BaseException) -> str:
    """Return an error that names the line in the user's file, without frames of the loader."""
    if isinstance(error, ModuleNotFoundError) and str(error.name).startswith("paddle"):
        return (
            f"{path}: is written for {error.name}; a model here is a PyTorch module: see "
            "docs/models.md for how to carry one over"
        )
    beside = isinstance(error, ModuleNotFoundError) and path.with_name(f"{error.name}.py").exists()
    advice = "; files next to a model are not on the module path: set PYTHONPATH" if beside else ""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == path]
    line = error.lineno if isinstance(error, SyntaxError) else frames[-1].lineno if frames else None
    where = f"{path}:{line}" if line else str(path)
    return f"{where}: cannot be imported: {type(error).__name__}: {error}{advice}"
