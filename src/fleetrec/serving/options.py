"""Options of a server of inference models."""

import dataclasses
from pathlib import Path

from fleetrec.core.errors import ConfigError
from fleetrec.server.security import is_loopback


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the server accepts."""

    max_request_bytes: int = 16 << 20
    max_concurrency: int = 256
    max_samples: int = 65_536
    max_list: int = 4096
    max_topk: int = 1000
    timeout_s: float = 30.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """How requests are joined, and how many threads compute."""

    max_batch: int = 256
    max_delay_s: float = 200e-6
    num_threads: int = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """What is served, and how. Either ``model`` or ``follow`` is set."""

    model: str | None = None
    follow: str | None = None
    poll_s: float = 10.0
    name: str = "model"
    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = dataclasses.field(default=None, repr=False)
    certificate: Path | None = None
    key: Path | None = None
    access_log: bool = False
    limits: Limits = dataclasses.field(default_factory=Limits)
    batching: BatchOptions = dataclasses.field(default_factory=BatchOptions)

    def check(self) -> None:
        """Raise ConfigError for options that contradict each other or are not safe."""
        if (self.model is None) == (self.follow is None):
            raise ConfigError(["serve: expected a model, or --follow with a folder; one of them"])
        if (self.certificate is None) != (self.key is None):
            raise ConfigError(["--tls-certificate and --tls-key: expected both, or none"])
        if not self.name or "/" in self.name:
            raise ConfigError([f"--name: expected a name without '/', got {self.name!r}"])
        if not is_loopback(self.host) and self.token is None and self.certificate is None:
            raise ConfigError(
                [
                    f"--host {self.host}: other machines could reach it; set FLEETREC_TOKEN to a "
                    "secret that clients send as 'Authorization: Bearer', or serve TLS with "
                    "--tls-certificate and --tls-key, or use 127.0.0.1"
                ]
            )
