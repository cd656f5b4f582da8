"""The processes of a job, live: a table on a terminal, plain lines elsewhere."""

import logging
import time
from collections.abc import Sequence
from typing import Literal, Self

from rich.live import Live
from rich.table import Table

from fleetrec.cli.logs import shared_console
from fleetrec.core.status import Status, read_status
from fleetrec.launch.child import Child

logger = logging.getLogger(__name__)

REFRESH_S = 0.5
LINES_S = 10.0


class ClusterView:
    """Shows all processes at most every REFRESH_S seconds (LINES_S without a terminal).

    ``form`` is a table on a terminal, unless only lines are asked for.
    """

    def __init__(self, *, form: Literal["auto", "lines"] = "auto") -> None:
        console = shared_console()
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._is_live = console.is_terminal and form == "auto"
        self._next = 0.0
        self._logged: dict[str, Status] = {}

    def __enter__(self) -> Self:
        if self._is_live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def __call__(self, children: Sequence[Child]) -> None:
        """Show the status of every process, if it is time."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + (REFRESH_S if self._is_live else LINES_S)
        if self._is_live:
            self._live.update(process_table(children), refresh=True)
            return
        for child, status, lag in _with_status(children):
            if status not in (Status(), self._logged.get(child.name)):
                self._logged[child.name] = status
                words = ", ".join(_words(child, status, lag))
                logger.info("%s %s: %s", child.name, child.state, words)


def process_table(children: Sequence[Child]) -> Table:
    """Return one row per process."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("process")
    table.add_column("state")
    table.add_column("progress")
    for name in ("restarts", "per s", "loss", "AUC", "queue", "lag"):
        table.add_column(name, justify="right")
    for child, status, lag in _with_status(children):
        table.add_row(
            child.name,
            child.state,
            _progress(status),
            str(child.num_restarts or ""),
            _number(status.per_s, ",.0f"),
            _number(status.loss, ".4f"),
            _number(status.auc, ".4f"),
            _number(status.queue, "d"),
            _number(lag, "d"),
        )
    return table


def _with_status(children: Sequence[Child]) -> list[tuple[Child, Status, int | None]]:
    """Return every status, and how many batches the process is behind others of its epoch."""
    found = [(child, read_status(child.status)) for child in children]
    furthest: dict[int, int] = {}
    for _, status in found:
        if status.epoch is not None and status.batch is not None:
            furthest[status.epoch] = max(status.batch, furthest.get(status.epoch, 0))
    return [
        (
            child,
            status,
            None
            if status.epoch is None or status.batch is None
            else furthest[status.epoch] - status.batch,
        )
        for child, status in found
    ]


def _progress(status: Status) -> str:
    return "" if status.epoch is None else f"epoch {status.epoch} batch {status.batch}"


def _words(child: Child, status: Status, lag: int | None) -> list[str]:
    named = {
        "calls/s" if child.role == "server" else "samples/s": _number(status.per_s, ".0f"),
        "LOSS": _number(status.loss, ".4f"),
        "AUC": _number(status.auc, ".4f"),
        "queue": _number(status.queue, "d"),
        "lag": _number(lag, "d"),
    }
    words = [f"{name} {value}" for name, value in named.items() if value]
    return [_progress(status), *words] if _progress(status) else words


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
