"""``fleetrec train-eval``: from flags to a job."""

import dataclasses
import sys
from collections.abc import Sequence

from fleetrec.cli.jobs import JobStart, run_job
from fleetrec.config.load import JobRequest
from fleetrec.config.pipeline_dialect.decode import Changes
from fleetrec.config.pipeline_dialect.edit import edits_of_arguments, edits_of_json
from fleetrec.config.processes import Processes, started_processes
from fleetrec.core.env import read_place
from fleetrec.core.errors import ConfigError


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainEvalRequest:
    """The arguments of the command."""

    source: str | None
    model_dir: str | None = None
    train_input_path: Sequence[str] | None = None
    eval_input_path: Sequence[str] | None = None
    fine_tune_checkpoint: str | None = None
    edit_config_json: str | None = None
    arguments: Sequence[str] = ()
    seed: int | None = None
    num_workers: int | None = None
    num_servers: int | None = None
    overrides: Sequence[str] = ()
    only: str | None = None

    def job_request(self) -> JobRequest:
        """Return the job to load."""
        if self.source is None:
            raise ConfigError(["--pipeline_config_path: required, but missing"])
        edits = edits_of_json(self.edit_config_json) if self.edit_config_json else []
        return JobRequest(
            source=self.source,
            overrides=self.overrides,
            changes=Changes(
                model_dir=self.model_dir,
                train_input_path=joined(self.train_input_path),
                eval_input_path=joined(self.eval_input_path),
                fine_tune_checkpoint=self.fine_tune_checkpoint,
                edits=[*edits, *edits_of_arguments(list(self.arguments))],
            ),
            seed=self.seed,
            processes=self._processes(),
        )

    def command(self) -> tuple[str, ...]:
        """Return the command of a process that takes part in the same training."""
        options: list[str] = []
        for name, value in (
            ("pipeline_config_path", self.source),
            ("model_dir", self.model_dir),
            ("fine_tune_checkpoint", self.fine_tune_checkpoint),
            ("edit_config_json", self.edit_config_json),
            ("seed", self.seed),
        ):
            options += [] if value is None else [f"--{name}", str(value)]
        for name, values in (
            ("train_input_path", self.train_input_path),
            ("eval_input_path", self.eval_input_path),
            ("override", self.overrides),
        ):
            options += [word for value in values or () for word in (f"--{name}", value)]
        return (sys.executable, "-m", "fleetrec.train_eval", *options, *self.arguments)

    def _processes(self) -> Processes:
        """Return how many processes train: those that a launcher started, or those requested."""
        place = read_place()
        if place is None:
            return Processes(num_workers=self.num_workers or 1, num_servers=self.num_servers)
        if self.num_workers is not None or self.num_servers is not None:
            raise ConfigError(
                [
                    f"--num_workers and --num_servers: {place.launcher} has started the processes, "
                    "as the environment says; leave them out"
                ]
            )
        return started_processes(place)


def train_and_evaluate(request: TrainEvalRequest, *, continue_train: bool) -> None:
    """Train; the model folder holds the pipeline, checkpoints, curves and eval_result.txt."""
    run_job(
        request.job_request(),
        JobStart(
            command=request.command(),
            resume=continue_train,
            only=request.only,
        ),
    )


def joined(paths: Sequence[str] | None) -> str | None:
    """Return several paths as pipelines write them."""
    return ",".join(paths) if paths else None
