"""The one way from a job file to a Job, whether it is YAML or pipeline text."""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from fleetrec.config.document import Document, read_document
from fleetrec.config.job import Job, PhaseOptions, RunOptions
from fleetrec.config.options import PlainOptions
from fleetrec.config.pipeline_dialect.decode import (
    ONE_PROCESS,
    Changes,
    ModelClass,
    decode_pipeline,
)
from fleetrec.config.pipeline_dialect.edit import Edit
from fleetrec.config.processes import Processes
from fleetrec.config.yaml_dialect.decode import ModelOptionsOf, decode
from fleetrec.config.yaml_dialect.locate import locate_job
from fleetrec.config.yaml_dialect.node_variables import (
    NO_VARIABLES,
    NodeVariables,
    with_node_variables,
)
from fleetrec.config.yaml_dialect.online import ONLINE_CLASSES
from fleetrec.config.yaml_dialect.override import override
from fleetrec.core.errors import ConfigError

PIPELINE_FILE = "pipeline.config"  # name of the pipeline file in a model folder
NO_CHANGES = Changes()

YAML_SUFFIXES = (".yaml", ".yml")
PIPELINE_SUFFIXES = (".config", ".json")
# A field of a pipeline at the beginning of a line: a message, or a text in quotes.
_PIPELINE_FIELD = re.compile(
    r"^\s*((data|train|eval|model|feature|export)_configs?\s*:?\s*\{"
    r"|(model_dir|(train|eval)_input_path)\s*:\s*[\"'])",
    re.MULTILINE,
)

Dialect = Literal["yaml", "pipeline"]
Purpose = Literal["run", "evaluate", "submit"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Components:
    """Finds the components that a job file names. Called only after the file was read."""

    model_options: ModelOptionsOf
    pipeline_classes: Callable[[], Mapping[str, ModelClass]]
    num_gpus: Callable[[], int] = lambda: 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobRequest:
    """Which job, what the command line changes in it, and what it is loaded for.

    ``overrides`` are ``key=value`` in the keys of the file. ``changes`` and ``seed`` are flags for
    pipelines; a YAML job has keys for them. ``variables`` of the node give keys that a YAML job
    does not write.
    """

    source: str
    overrides: Sequence[str] = ()
    changes: Changes = NO_CHANGES
    seed: int | None = None
    processes: Processes = ONE_PROCESS
    purpose: Purpose = "run"
    variables: NodeVariables = NO_VARIABLES


def load_job(request: JobRequest, *, components: Components) -> Job:
    """Find, read and check a job file, or raise ConfigError with all problems."""
    located = locate_job(request.source)
    if dialect_of(located.path) == "pipeline":
        job = _load_pipeline(located.path, request, components)
    else:
        job = _load_yaml(located.path, request, components)
    return job.model_copy(update={"notices": (*located.notices, *job.notices)})


def dialect_of(path: Path) -> Dialect:
    """Return the dialect of a job file: by its suffix, else by its content."""
    if path.suffix in YAML_SUFFIXES:
        return "yaml"
    if path.suffix in PIPELINE_SUFFIXES:
        return "pipeline"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"{path}: cannot be read: {error}"]) from error
    return "pipeline" if _PIPELINE_FIELD.search(text) else "yaml"


def probably_starts_processes(request: JobRequest) -> bool:
    """Return whether a run of a job seems to be several processes, without loading its models.

    Problems are left to ``load_job``.
    """
    try:
        path = locate_job(request.source).path
        if dialect_of(path) == "pipeline":
            has_gpus = "num_gpus_per_worker" in path.read_text(encoding="utf-8")
            return has_gpus or request.processes.num_workers > 1
        document = override(read_document(path), request.overrides)
    except (ConfigError, OSError, UnicodeDecodeError):
        return False
    names = _mode(document)
    return any(str(one.get("name")) in names and _is_several(one) for one in _runners(document))


def asks_for_cluster(request: JobRequest) -> bool:
    """Return whether a job that is given a backend.yaml is one for a cluster.

    A pipeline always is: its number of processes is not in the file.
    """
    path = locate_job(request.source).path
    if dialect_of(path) == "pipeline":
        return True
    document = override(read_document(path), request.overrides)
    names = _mode(document)
    classes = [
        str(r.get("class")).lower() for r in _runners(document) if str(r.get("name")) in names
    ]
    return any(name == "cluster" or name.startswith("cluster_") for name in classes)


def _is_several(runner: Mapping[str, Any]) -> bool:
    has_gpus = runner.get("device") == "gpu" and len(str(runner.get("selected_gpus"))) > 1
    if runner.get("class") in ONLINE_CLASSES:
        return has_gpus or any(key in runner for key in ("worker_num", "server_num", "fleet_mode"))
    return has_gpus or str(runner.get("class")).startswith("local_cluster")


def online_mode(request: JobRequest) -> list[str]:
    """Return the overrides that select the online runners of a job.

    Those are the ones of ``mode``, or, if it names none, the only one of the file.
    """
    path = locate_job(request.source).path
    if dialect_of(path) == "pipeline":
        return []
    document = override(read_document(path), request.overrides)
    online = [str(one.get("name")) for one in _runners(document) if _is_online(one)]
    chosen = [name for name in _mode(document) if name in online]
    if not online:
        raise ConfigError(
            [
                f"{path}: no runner trains online; expected class: online_train, or train_data_dir "
                "in a runner that trains"
            ]
        )
    if not chosen and len(online) > 1:
        raise ConfigError(
            [
                f"{path}: several runners train online: {', '.join(online)}; name one of them with "
                "-o mode=NAME"
            ]
        )
    return [f"mode=[{', '.join(chosen or online)}]"]


def _is_online(runner: Mapping[str, Any]) -> bool:
    has_data = runner.get("train_data_dir") or runner.get("runner_class_path")
    return runner.get("class") in ONLINE_CLASSES or bool(has_data)


def without_model_classes(job: Job) -> Job:
    """Return a job whose options of models are plain data, for a process that loads no models."""

    def plain(phase: PhaseOptions) -> PhaseOptions:
        return phase.model_copy(
            update={"model": PlainOptions.model_validate(phase.model.to_plain())}
        )

    runs = [run.model_copy(update={"phases": tuple(map(plain, run.phases))}) for run in job.runs]
    return job.model_copy(update={"runs": tuple(runs)})


def _load_pipeline(path: Path, request: JobRequest, components: Components) -> Job:
    edits = [*request.changes.edits, *map(_edit, request.overrides)]
    decoded = decode_pipeline(
        path,
        classes=components.pipeline_classes(),
        changes=dataclasses.replace(request.changes, edits=edits),
        kind="infer" if request.purpose == "evaluate" else "train",
        seed=request.seed or 0,
        processes=dataclasses.replace(request.processes, num_gpus=components.num_gpus()),
    )
    return decoded.job.model_copy(
        update={"folder": decoded.model_dir, "files": {PIPELINE_FILE: decoded.text}}
    )


def _edit(assignment: str) -> Edit:
    path, equals, value = assignment.partition("=")
    if not (path and equals):
        raise ConfigError([f"-o {assignment}: expected key=value"])
    return Edit(path=path, value=value.strip().strip("\"'"), origin=f"-o {assignment}")


def _load_yaml(path: Path, request: JobRequest, components: Components) -> Job:
    _check_yaml_flags(path, request)
    document = with_node_variables(read_document(path), request.variables)
    assignments = list(request.overrides)
    if request.purpose == "evaluate":
        assignments += _infer_mode(override(document, assignments))
    job = decode(
        document,
        assignments=assignments,
        model_options=components.model_options,
        is_data_here=request.purpose != "submit",
    )
    if request.purpose != "evaluate" or any(run.kind == "infer" for run in job.runs):
        return job
    return job.model_copy(update={"runs": tuple(_evaluation_run(job, run) for run in job.runs)})


def _check_yaml_flags(path: Path, request: JobRequest) -> None:
    """Reject flags of pipelines, which would have no effect."""
    changes = {f.name: getattr(request.changes, f.name) for f in dataclasses.fields(Changes)}
    changes["edit_config_json"] = changes.pop("edits")
    changes["seed"] = request.seed
    if request.processes.is_local and request.processes != ONE_PROCESS:
        changes["num_workers"] = request.processes.num_workers
    problems = [
        f"--{name}: is for pipelines; {path} is a YAML job, change its keys by -o key=value"
        for name, value in changes.items()
        if value
    ]
    if problems:
        raise ConfigError(problems)


def _infer_mode(document: Document) -> list[str]:
    """Return the assignment that makes ``mode`` the inference runners of a job, if it has any."""
    mode = _mode(document)
    runners = _runners(document)
    infer = [str(one.get("name")) for one in runners if str(one.get("class")).endswith("infer")]
    names = [name for name in infer if name in mode] or infer
    return [f"mode=[{', '.join(names)}]"] if names else []


def _mode(document: Document) -> list[str]:
    """Return the names of the runners that run."""
    mode = document.data.get("mode") if isinstance(document.data, dict) else None
    return [str(name) for name in mode] if isinstance(mode, list) else [str(mode)]


def _runners(document: Document) -> list[Mapping[str, Any]]:
    found = document.data.get("runner") if isinstance(document.data, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _evaluation_run(job: Job, run: RunOptions) -> RunOptions:
    """Return the run that evaluates a training runner on its evaluation data."""
    if run.evaluation is None:
        raise ConfigError(
            [
                f"{job.source}: nothing to evaluate: expected a runner of class infer, or "
                f"eval_dataset of runner {run.name}"
            ]
        )
    dataset = run.evaluation.dataset
    phases = tuple(phase.model_copy(update={"dataset": dataset}) for phase in run.phases)
    return run.model_copy(update={"kind": "infer", "phases": phases})
