"""Functions of users that decide after an evaluation whether a run ends."""

import importlib
import json
import runpy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fleetrec.core.errors import ConfigError

Results = Mapping[int, Mapping[str, float]]  # of evaluations, by step
StopFunction = Callable[[Results, str], bool]

# The function of EasyRec's own example, which is there without EasyRec.
AT_THRESHOLD = "easy_rec.python.test.custom_early_stop_func.custom_early_stop_func"


def load_stop_function(name: str) -> StopFunction:
    """Return the function that ``package.module.function`` names.

    The module is imported, or is the file package/module.py below the current folder.
    """
    module, _, function = name.rpartition(".")
    path = Path(*module.split(".")).with_suffix(".py") if module else None
    found: Any = None
    if path is not None and path.is_file():
        found = runpy.run_path(str(path)).get(function)
    elif name == AT_THRESHOLD:
        return at_threshold
    elif module:
        try:
            found = getattr(importlib.import_module(module), function, None)
        except ImportError as error:
            raise ConfigError(
                [f"early_stop_func: {name}: {error}; no file {path} either"]
            ) from error
    if not callable(found):
        raise ConfigError([f"early_stop_func: no function is called {name!r}"])
    made: StopFunction = found
    return made


def at_threshold(results: Results, parameters: str) -> bool:
    """Return whether a metric has reached a threshold in any evaluation."""
    options = json.loads(parameters)
    name, least = options["metric_name"], options["thre"]  # codespell:ignore
    return any(metrics[name] > least for metrics in results.values())


def must_stop(function: StopFunction, results: Results, parameters: str, *, name: str) -> bool:
    """Return what the function says; raises ConfigError if it fails."""
    try:
        return bool(function(results, parameters))
    except Exception as error:  # it is the user's code
        text = f"early_stop_func {name}: {type(error).__name__}: {error}"
        raise ConfigError([text]) from error
