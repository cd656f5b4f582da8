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
    steps = key.split(".")
    if not (all(steps) and equals):
        raise ConfigError([f"-o {assignment}: expected key=value"])
    location: Location = ()
    for step in steps[:-1]:
        found = _step(data, step, assignment)
        location = (*location, found)
        if isinstance(data, dict) and data.get(found) is None:
            data[found] = {}
        data = data[found]
    last = _step(data, steps[-1], assignment)
    data[last] = _value(text, assignment)
    return (*location, last)


def _value(text: str, assignment: str) -> Any:
    if text.startswith("{workspace}"):  # a path, though YAML sees the start of a mapping
        return text
    try:
        return parse_value(text)
    except ConfigError as error:
        problems = [problem.partition(": ")[2] for problem in error.problems]
        raise ConfigError([f"-o {assignment}: {problem}" for problem in problems]) from error


def _step(data: Any, step: str, assignment: str) -> Any:
    """Return the key or index that ``step`` means in ``data``."""
    if isinstance(data, dict):
        return step
    if not isinstance(data, list):
        raise ConfigError([f"-o {assignment}: {step!r} would lie below the value {data!r}"])
    places = {
        str(item["name"]): place
        for place, item in enumerate(data)
        if isinstance(item, dict) and "name" in item
    }
    if step in places:
        return places[step]
    if step.isdecimal() and int(step) < len(data):
        return int(step)
    raise ConfigError([f"-o {assignment}: no element is called {step!r}{hint(step, places)}"])
