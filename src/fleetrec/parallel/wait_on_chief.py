"""Something that the chief waits for, possibly for hours, while its peers wait for the chief."""

import json
from collections.abc import Callable

from fleetrec.core.errors import FleetRecError
from fleetrec.parallel.group import Group

# Collectives time out, so a chief that waits sends something to its peers this often.
HEARTBEAT_S = 60.0


def wait_on_chief(  # noqa: PLR0913 (what is waited for, and how processes communicate)
    group: Group,
    poll: Callable[[], str | None],
    *,
    key: str,
    pass_index: int | None,
    pause: Callable[[], None],
    clock: Callable[[], float],
    should_stop: Callable[[], bool],
    heartbeat_s: float = HEARTBEAT_S,
) -> str | None:
    """Return on every process what ``poll`` of the chief returns, as soon as that is not None.

    Between calls of ``poll`` the chief calls ``pause``. Returns None if the chief is to stop
    meanwhile. An error of ``poll`` is raised by the chief, and by the others with the same text.
    """
    number = 0
    while True:
        answer: dict[str, str | bool | None] = {}
        failure: FleetRecError | None = None
        if group.is_chief:
            begin = clock()
            try:
                while not answer and clock() - begin < heartbeat_s:
                    answer = _ask(poll, pause, should_stop)
            except FleetRecError as error:
                failure, answer = error, {"error": str(error)}
        sent = json.loads(
            group.broadcast(
                json.dumps(answer).encode(), key=f"{key}/{number}", pass_index=pass_index
            )
        )
        if failure is not None:
            raise failure
        if "error" in sent:
            raise FleetRecError(sent["error"])
        if "result" in sent:
            return str(sent["result"])
        if "stop" in sent:
            return None
        number += 1


def _ask(
    poll: Callable[[], str | None], pause: Callable[[], None], should_stop: Callable[[], bool]
) -> dict[str, str | bool | None]:
    """Return the answer of one poll; empty if there is none yet."""
    found = poll()
    if found is not None:
        return {"result": found}
    if should_stop():
        return {"stop": True}
    pause()
    return {}
