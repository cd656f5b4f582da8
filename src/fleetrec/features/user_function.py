"""A function in a file of the user, which changes the values of a column."""

import functools
import runpy
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from fleetrec.config.features import ColumnOptions
from fleetrec.core.errors import DataError

DTYPES = MappingProxyType(
    {"integer": np.int64, "number": np.float64, "boolean": np.bool_, "text": np.object_}
)


def with_function(raw: pa.Array, options: ColumnOptions) -> pa.Array:
    """Return the column after the function, which gets and returns an array of values."""
    if not options.function:
        return raw
    where = f"{options.function_path}: {options.function}"
    function = load_function(options.function_path, options.function)
    values = _typed(raw, options)
    try:
        found = np.asarray(function(values))
    except Exception as error:  # it is the user's code
        raise DataError(f"{where}: {type(error).__name__}: {error}") from error
    if found.shape[:1] != (len(raw),):
        raise DataError(f"{where}: expected {len(raw)} values, got the shape {found.shape}")
    return pa.array(found.reshape(len(raw)).tolist())


@functools.cache
def load_function(path: str, name: str) -> Callable[..., Any]:
    """Return a function of a Python file; a path that is not there is also tried without its /."""
    tried = [Path(path), Path(path.lstrip("/"))]
    found = next((one for one in tried if one.is_file()), None)
    if found is None:
        raise DataError(f"{path}: no such file, also not in {Path.cwd()}")
    try:
        function = runpy.run_path(str(found)).get(name)
    except Exception as error:  # it is the user's code
        raise DataError(f"{found}: cannot be run: {type(error).__name__}: {error}") from error
    if not callable(function):
        raise DataError(f"{found}: has no function {name!r}")
    made: Callable[..., Any] = function
    return made


def _typed(raw: pa.Array, options: ColumnOptions) -> Any:
    """Return the values as the column declares them; missing ones are the default."""
    texts = raw.cast(pa.string()) if not pa.types.is_floating(raw.type) else raw
    if options.type == "text":
        return np.array([one or options.default for one in texts.to_pylist()], np.object_)
    cells = [options.default or "0" if one in (None, "") else one for one in texts.to_pylist()]
    try:
        return np.array([float(one) for one in cells]).astype(DTYPES[options.type])
    except ValueError as error:
        raise DataError(f"column {options.name!r}: {error}") from error
