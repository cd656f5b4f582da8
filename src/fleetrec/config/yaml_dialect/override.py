"""``-o runner.single_cpu_train.epochs=2``: change any key of a job file from the command line."""

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any

from fleetrec.config.document import Document, Location, parse_value
from fleetrec.config.problems import hint
from fleetrec.core.errors import ConfigError


def override(document: Document, assignments: Sequence[str]) -> Document:
    """Return the document with ``key=value`` applied; elements of lists go by name or number."""
    data = copy.deepcopy(document.data)
    changed: list[Location] = []
    problems: list[str] = []
    for assignment in assignments:
        try:
            changed.append(_assign(data, assignment))
        except ConfigError as error:
            problems.extend(error.problems)
    if problems:
        raise ConfigError(problems)
    return dataclasses.replace(document, data=data, overridden=frozenset(changed))


def _assign(data: Any, assignment: str) -> Location:
    key, equals, text = assignment.partition("=")
    if not (key and equals):
        raise ConfigError([f"-o {assignment}: expected key=value"])
    steps = key.split(".")
    location: Location = ()
    for step in steps[:-1]:
        found = _step(data, step, assignment)
        location = (*location, found)
        if isinstance(data, dict) and data.get(found) is None:
            data[found] = {}
        data = data[found]
    last = _step(data, steps[-1], assignment)
    data[last] = parse_value(text)
    return (*location, last)


def _step(data: Any, step: str, assignment: str) -> Any:
    """Return the key or index that ``step`` means in ``data``."""
    if isinstance(data, dict):
        return step
    if not isinstance(data, list):
        raise ConfigError([f"-o {assignment}: nothing lies below {step!r}"])
    names = [item.get("name") for item in data if isinstance(item, dict)]
    if step in names:
        return next(i for i, x in enumerate(data) if isinstance(x, dict) and x.get("name") == step)
    if step.isdecimal() and int(step) < len(data):
        return int(step)
    known = [name for name in names if isinstance(name, str)]
    raise ConfigError([f"-o {assignment}: no element is called {step!r}{hint(step, known)}"])
