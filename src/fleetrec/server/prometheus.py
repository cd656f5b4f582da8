"""HTTP page with a server's metrics, in the text format of Prometheus."""

import http.server
import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Metrics = Mapping[str, float | Mapping[str, float]]  # of the server, or by table


def table_metrics(stats: Mapping[str, Mapping[str, int]], keys: Sequence[str]) -> Metrics:
    """Return ``table_<key>`` by table, from the statistics of all tables."""
    return {
        f"table_{key}": {table: float(values[key]) for table, values in stats.items()}
        for key in keys
    }


def to_text(metrics: Metrics) -> str:
    """Format metrics for Prometheus."""
    lines: list[str] = []
    for name, value in metrics.items():
        lines.append(f"# TYPE fleetrec_{name} {'counter' if name.endswith('_total') else 'gauge'}")
        if isinstance(value, Mapping):
            lines += [f'fleetrec_{name}{{table="{table}"}} {its}' for table, its in value.items()]
        else:
            lines.append(f"fleetrec_{name} {value}")
    return "\n".join(lines) + "\n"


class MetricsPage:
    """Serves ``/metrics`` on the loopback interface inside a ``with`` block."""

    def __init__(self, port: int, metrics: Callable[[], Metrics]) -> None:
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", port), _handler(metrics))
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
        self._server.server_close()


def _handler(metrics: Callable[[], Metrics]) -> type[http.server.BaseHTTPRequestHandler]:
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
