"""Something that only the chief does, and whose failure ends every process of a group."""

import json
from collections.abc import Callable

from fleetrec.core.errors import ConfigError, FleetRecError
from fleetrec.parallel.group import Group


def on_chief(group: Group, act: Callable[[], str], *, key: str, pass_index: int | None) -> str:
    """Let the chief call ``act``; returns its result on every process.

    If it fails, the chief raises its error and the others raise one with the same text. Without
    this they would continue, and report a lost connection as soon as they need the chief.
    """
    answer: dict[str, str | list[str]] = {}
    failure: Exception | None = None
    if group.is_chief:
        try:
            answer["result"] = act()
        except ConfigError as error:
            failure, answer["problems"] = error, list(error.problems)
        except (FleetRecError, OSError) as error:
            failure, answer["error"] = error, str(error)
    sent = json.loads(group.broadcast(json.dumps(answer).encode(), key=key, pass_index=pass_index))
    if failure is not None:
        raise failure
    if "problems" in sent:
        raise ConfigError(sent["problems"])
    if "error" in sent:
        raise FleetRecError(sent["error"])
    return str(sent["result"])
