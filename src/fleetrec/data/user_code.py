"""Load a user's reader, and report where in it an error occurred."""

import contextlib
import functools
import hashlib
import importlib.util
import inspect
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from fleetrec.config.job import ReaderOptions
from fleetrec.core.errors import DataError
from fleetrec.reader import ReaderBase, find_setting

_LOCK = threading.RLock()  # imports are global to all threads


def load_reader(options: ReaderOptions) -> Any:
    """Return the reader that the options name, prepared for use: an object, or a function.

    While its file is loaded and the reader is prepared, its folder is on the import path, and the
    names ``paddlerec.core.reader`` and ``paddlerec.core.utils.envs`` exist, so that readers that
    were written for PaddleRec need no change. Afterwards neither is left.
    """
    path = Path(options.path).resolve()
    with _LOCK, _old_names(options.settings), _files_beside(path.parent):
        try:
            module = import_file(path)
            found = _find(module, options.class_name, path)
            return _prepare(found, options.settings)
        except DataError:
            raise
        except (Exception, SystemExit) as error:
            raise DataError(f"{explain(error, path)} (while the reader was loaded)") from error


def explain(error: BaseException, path: Path) -> str:
    """Return the place in the user's file, and the error, in one line."""
    path = path.resolve()
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == path]
    line = error.lineno if isinstance(error, SyntaxError) else frames[-1].lineno if frames else None
    where = f"{path}:{line}" if line else str(path)
    message = " ".join(str(error).split())
    return f"{where}: {type(error).__name__}" + (f": {message}" if message else "")


def has_own(reader: Any, method: str) -> bool:
    """Return whether a reader overrides a method of the base class."""
    found = getattr(type(reader), method, None)
    return found is not None and found is not getattr(ReaderBase, method, None)


def import_file(path: Path) -> ModuleType:
    """Import a file of the user under a name of its own."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
    digest = hashlib.sha256(f"{path}\0".encode() + text).hexdigest()[:16]
    spec = importlib.util.spec_from_file_location(f"fleetrec_reader_{path.stem}_{digest}", path)
    if spec is None or spec.loader is None:
        raise DataError(f"{path}: expected a Python file (.py)")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # dataclasses and the like look there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[module.__name__]
        raise
    return module


def _find(module: ModuleType, name: str, path: Path) -> Any:
    found = getattr(module, name, None)
    if found is None and name == ReaderOptions.model_fields["class_name"].default:
        found = getattr(module, "read", None)  # a file with one function
    if found is not None and callable(found):
        return found
    classes = [
        key
        for key, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__
    ]
    known = ", ".join(classes) or "none"
    raise DataError(
        f"{path}: no class or function is called {name!r} (reader_class_name); classes: {known}"
    )


def _prepare(found: Any, settings: Mapping[str, Any]) -> Any:
    if not isinstance(found, type):
        return found
    reader = found(settings) if _takes_settings(found) else found()
    if hasattr(reader, "init"):
        reader.init()
    return reader


def _takes_settings(found: type) -> bool:
    try:
        inspect.signature(found).bind(None)
    except TypeError:
        return False
    return True


@contextlib.contextmanager
def _old_names(settings: Mapping[str, Any]) -> Iterator[None]:
    def get_global_env(env_name: str, default_value: Any = None, namespace: Any = None) -> Any:
        name = env_name if namespace is None else f"{namespace}.{env_name}"
        return find_setting(settings, name, default_value)

    reader = _module("paddlerec.core.reader", ReaderBase=ReaderBase)
    envs = _module("paddlerec.core.utils.envs", get_global_env=get_global_env)
    utils = _module("paddlerec.core.utils", envs=envs)
    core = _module("paddlerec.core", reader=reader, utils=utils)
    top = _module("paddlerec", core=core)
    with _replaced({module.__name__: module for module in (top, core, utils, envs, reader)}):
        yield


def _module(name: str, **contents: Callable[..., Any] | ModuleType) -> ModuleType:
    module = ModuleType(name)
    module.__path__ = []  # a package: its parts can be imported
    for key, value in contents.items():
        setattr(module, key, value)
    return module


@contextlib.contextmanager
def _replaced(modules: Mapping[str, ModuleType]) -> Iterator[None]:
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module


@contextlib.contextmanager
def _files_beside(folder: Path) -> Iterator[None]:
    """Make the files of a folder importable, and unload them afterwards."""
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if name.startswith("fleetrec_reader_"):
                continue
            file = getattr(sys.modules[name], "__file__", None)
            if file is not None and Path(file).is_relative_to(folder):
                del sys.modules[name]


@functools.lru_cache(maxsize=8)
def cached_reader(text: str, modified_ns: int) -> Any:
    """Return a reader that was loaded before by the same options (as JSON) from the same file."""
    del modified_ns
    return load_reader(ReaderOptions.model_validate_json(text))
