"""HTTP page with the metrics of a process, in the text format of Prometheus."""

import bisect
import dataclasses
import http.server
import itertools
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ByLabel:
    """The values of a metric by the value of a label."""

    label: str
    values: Mapping[str, float]


class Histogram:
    """Counts observations by upper bounds. One thread at a time may change it."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count an observation."""
        self._counts[bisect.bisect_left(self._bounds, value)] += 1
        self._sum += value

    def to_lines(self, name: str) -> list[str]:
        """Format the histogram for Prometheus."""
        totals = list(itertools.accumulate(self._counts))
        bounds = [*map(str, self._bounds), "+Inf"]
        return [
            *(
                f'{name}_bucket{{le="{bound}"}} {n}'
                for bound, n in zip(bounds, totals, strict=True)
            ),
            f"{name}_sum {_number(self._sum)}",
            f"{name}_count {totals[-1]}",
        ]


Metrics = Mapping[str, float | Mapping[str, float]]  # of the process, or by table
LabelledMetrics = Mapping[str, float | Mapping[str, float] | ByLabel | Histogram]


def table_metrics(stats: Mapping[str, Mapping[str, int]], keys: Sequence[str]) -> Metrics:
    """Return ``table_<key>`` by table, from the statistics of all tables."""
    return {
        f"table_{key}": {table: float(values[key]) for table, values in stats.items()}
        for key in keys
    }


def to_text(metrics: LabelledMetrics) -> str:
    """Format metrics for Prometheus."""
    lines: list[str] = []
    for name, value in metrics.items():
        if isinstance(value, Histogram):
            lines += [f"# TYPE fleetrec_{name} histogram", *value.to_lines(f"fleetrec_{name}")]
            continue
        lines.append(f"# TYPE fleetrec_{name} {'counter' if name.endswith('_total') else 'gauge'}")
        by_label = ByLabel(label="table", values=value) if isinstance(value, Mapping) else value
        if isinstance(by_label, ByLabel):
            lines += [
                f'fleetrec_{name}{{{by_label.label}="{_escaped(label)}"}} {_number(its)}'
                for label, its in by_label.values.items()
            ]
        else:
            lines.append(f"fleetrec_{name} {_number(by_label)}")
    return "\n".join(lines) + "\n"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return "NaN" if math.isnan(value) else str(value)


class MetricsPage:
    """Serves ``/metrics`` inside a ``with`` block, by default on the loopback interface.

    The port is taken by the constructor; ``close`` frees it if the block is not entered.
    """

    def __init__(
        self, port: int, metrics: Callable[[], LabelledMetrics], *, host: str = "127.0.0.1"
    ) -> None:
        self._server = http.server.ThreadingHTTPServer((host, port), _handler(metrics))
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="metrics", daemon=True
        )

    @property
    def port(self) -> int:
        """Return the port; with port 0, the one that the system chose."""
        return self._server.server_port

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self.close()

    def close(self) -> None:
        """Free the port."""
        self._server.server_close()


def _handler(metrics: Callable[[], LabelledMetrics]) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        """Answers GET /metrics."""

        def do_GET(self) -> None:
            if self.path != "/metrics":
                self.send_error(404, "metrics are under /metrics")
                return
            content = to_text(metrics()).encode()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Do not log requests: Prometheus sends one every few seconds."""

    return Handler
