"""What watches an online run in its chief: alarms with their command, and the metrics page."""

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from fleetrec.config.job import RunOptions
from fleetrec.core.errors import ConfigError
from fleetrec.server.prometheus import ByLabel, LabelledMetrics, MetricsPage
from fleetrec.train.alarm_command import AlarmCommand
from fleetrec.train.alarms import Alarm, AlarmObserver, log_alarm
from fleetrec.train.events import Observer
from fleetrec.train.trainer_metrics import TrainerMetrics

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Watch:
    """The observers of a run that is watched, and the page, which is served from ``serving``."""

    observers: tuple[Observer, ...] = ()
    page: MetricsPage | None = None
    host: str = ""

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Serve the metrics page, if the run has one."""
        if self.page is None:
            yield
            return
        with self.page:
            logger.info("metrics for Prometheus: http://%s:%d/metrics", self.host, self.page.port)
            yield


@contextlib.contextmanager
def open_watch(
    run: RunOptions,
    *,
    now: Callable[[], float],
    on_alarm: Callable[[Alarm], None],
    earlier: Iterable[Mapping[str, Any]] = (),
) -> Iterator[Watch]:
    """Open what watches a run; nothing for runs that are not online.

    ``on_alarm`` is called with every alarm that begins or is over. ``earlier`` are records of
    metrics.jsonl, after which the run continues. Raises ConfigError if the port is not free.
    """
    if run.online is None:
        yield Watch()
        return
    options = run.online.watch
    with contextlib.ExitStack() as stack:
        command = stack.enter_context(AlarmCommand(options.alarms.command))

        def report(alarm: Alarm) -> None:
            log_alarm(alarm)
            on_alarm(alarm)
            command.report(alarm)

        alarms = AlarmObserver(options.alarms, now=now, on_change=report)
        alarms.restore(earlier)
        if options.metrics_port is None:
            yield Watch(observers=(alarms,))
            return
        collected = TrainerMetrics(num_phases=len(run.phases), now=now)
        page = _open_page(
            run.name,
            options.metrics_host,
            options.metrics_port,
            lambda: {**collected.metrics(), **_alarm_metrics(alarms)},
        )
        stack.callback(page.close)
        yield Watch(observers=(alarms, collected), page=page, host=options.metrics_host)


def _open_page(
    runner: str, host: str, port: int, metrics: Callable[[], LabelledMetrics]
) -> MetricsPage:
    try:
        return MetricsPage(port, metrics, host=host)
    except OSError as error:
        raise ConfigError(
            [
                f"runner {runner}: metrics_port: cannot listen on {host}:{port}: {error}; choose "
                "another port, or 0 for any"
            ]
        ) from error


def _alarm_metrics(alarms: AlarmObserver) -> LabelledMetrics:
    active = {name: float(is_active) for name, is_active in alarms.active().items()}
    totals = {name: float(number) for name, number in alarms.totals().items()}
    return {
        "alarm_active": ByLabel(label="alarm", values=active),
        "alarms_total": ByLabel(label="alarm", values=totals),
    }
