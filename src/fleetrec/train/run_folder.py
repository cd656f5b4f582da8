"""The folder that a run leaves behind: its log, its metrics, its identity."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fleetrec.core.errors import CheckpointError
from fleetrec.core.place import Place
from fleetrec.core.storage import SEPARATOR, is_local, join, local_path, write_bytes


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunFolder:
    """``logs/<model>.<runner>/``; the report may be elsewhere, also at a URL.

    ``files`` are texts by name that a run leaves there.
    """

    path: Path
    report_folder: str | None = None
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def log(self) -> Path:
        """The plain log."""
        return self.path / "run.log"

    @property
    def metrics(self) -> Path:
        """All metrics, one JSON object per line."""
        return self.path / "metrics.jsonl"

    @property
    def report(self) -> str:
        """The page for people."""
        return join(self.report_folder or self.path, "report.html")

    @property
    def checkpoints(self) -> Path:
        """Where an interrupted run saves itself if the job names no place."""
        return self.path / "checkpoints"

    @property
    def servers(self) -> Path:
        """Where servers keep what they hold while the run is not over."""
        return self.path / "servers"

    def state_of(self, *, num_workers: int, num_servers: int) -> Path:
        """Return where the processes of a job of this shape keep what outlives them."""
        return self.servers / f"{num_workers}x{num_servers}"

    def metric_journal(self, place: Place) -> Path | None:
        """Return the file for metrics of single steps; None where nothing else stores steps."""
        return self._journals(place).get(place.rank)

    def peer_journals(self, place: Place) -> dict[int, Path]:
        """Return the files of the other workers, by rank."""
        return {rank: path for rank, path in self._journals(place).items() if rank != place.rank}

    def begin(self, run_id: str, *, fresh: bool, options: Mapping[str, Any] | None = None) -> None:
        """Note the identity of the run and its options; a fresh run starts with empty logs."""
        self.path.mkdir(parents=True, exist_ok=True)
        if fresh:
            for path in (self.log, self.metrics):
                path.unlink(missing_ok=True)
        for name, text in self.files.items():
            write_bytes(join(self.report_folder or self.path, name), text.encode())
        if options is not None:
            text = json.dumps(options, indent=1, ensure_ascii=False) + "\n"
            self._options.write_text(text, encoding="utf-8")
        self._identity.write_text(json.dumps({"run_id": run_id}) + "\n", encoding="utf-8")

    def options(self) -> dict[str, Any] | None:
        """Return the options of the last run here; None if they are not known."""
        try:
            options = json.loads(self._options.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        return options if isinstance(options, dict) else None

    def run_id(self) -> str | None:
        """Return the identity of the last run here, or None if there was none."""
        try:
            identity: Any = json.loads(self._identity.read_text(encoding="utf-8"))
            return str(identity["run_id"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{self._identity}: damaged: {error}") from error

    def _journals(self, place: Place) -> dict[int, Path]:
        if not place.server_endpoints:
            return {}
        folder = self.state_of(num_workers=place.num_workers, num_servers=place.num_servers)
        return {rank: folder / f"worker.{rank}.counted" for rank in range(place.num_workers)}

    @property
    def _options(self) -> Path:
        return self.path / "options.json"

    @property
    def _identity(self) -> Path:
        return self.path / "run.json"


def run_folder_of(model_dir: str) -> RunFolder:
    """Return the run folder of a model folder: itself, or for a URL one under ``logs``.

    Logs grow line by line, which storage at URLs cannot; the report goes there.
    """
    if is_local(model_dir):
        return RunFolder(path=local_path(model_dir))
    name = model_dir.rpartition(SEPARATOR)[2].strip("/").replace("/", ".")
    return RunFolder(path=Path("logs") / name, report_folder=model_dir)
