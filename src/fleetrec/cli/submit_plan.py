"""What a submission will do, with everything checked before anything is written."""

import dataclasses
import secrets as random
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from fleetrec.cli.job import load_requested
from fleetrec.cli.jobs import in_child
from fleetrec.config.cluster.check import check_backend
from fleetrec.config.cluster.counts import num_servers, num_workers
from fleetrec.config.cluster.decode import decode_backend
from fleetrec.config.cluster.keys import BackendKeys
from fleetrec.config.cluster.sections import Completed, check_section, complete
from fleetrec.config.cluster.shape import JobShape, shape_of
from fleetrec.config.document import read_document
from fleetrec.config.job import Job
from fleetrec.config.load import JobRequest, dialect_of, without_model_classes
from fleetrec.config.options import Options
from fleetrec.config.processes import Processes
from fleetrec.config.yaml_dialect.locate import locate_job
from fleetrec.core.env import read_cluster_secrets, read_token
from fleetrec.core.errors import ConfigError, FleetRecError
from fleetrec.launch.cluster_job import NODE_FILE, SHARED, cluster_job
from fleetrec.launch.job_files import JobFiles, plan_files
from fleetrec.launch.job_spec import JobSpec
from fleetrec.launch.start_command import StartCommand, job_argument, node_command, start_command
from fleetrec.launch.submission import RECORD

YAML_JOB = "config.yaml"  # name of a YAML job in its folder
RESERVED = (RECORD, NODE_FILE)

ResultT = TypeVar("ResultT")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SubmitRequest:
    """The arguments of the command."""

    model: str
    backend_file: Path
    backend: str | None = None
    overrides: Sequence[str] = ()
    log_dir: Path | None = None
    resume: bool = False
    local_mpi: bool = False
    dry_run: bool = False

    def arguments(self) -> tuple[str, ...]:
        """Return what the command on the nodes is given, too."""
        words = [word for text in self.overrides for word in ("-o", text)]
        logs = [] if self.log_dir is None else ["--log-dir", str(self.log_dir)]
        return (*words, *logs, *(["--resume"] if self.resume else []))


@dataclasses.dataclass(frozen=True, kw_only=True)
class SubmitPlan:
    """A checked submission."""

    keys: BackendKeys
    shape: JobShape
    job: JobSpec
    command: StartCommand
    files: JobFiles
    notices: tuple[str, ...]
    section: Options | None = None

    @property
    def uses_node_entry(self) -> bool:
        """Whether FleetRec itself gets the data on the nodes; PaddleCloud does so before."""
        return self.keys.backend != "paddlecloud"

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that must not be shown."""
        return secrets_of(self.keys)


def plan_submission(request: SubmitRequest) -> SubmitPlan:
    """Check both files and what they name, or raise ConfigError with all problems."""
    path = locate_job(request.model).path
    file = decode_backend(
        request.backend_file, backend="mpi" if request.local_mpi else request.backend
    )
    problems = _Problems()
    if request.local_mpi:
        problems.found += _local_mpi_problems(request.backend_file)
    keys = None if file.keys is None else with_secrets(file.keys)
    job = problems.of(lambda: _load_job(request, path, keys))
    shape = None
    if job is not None:
        is_pipeline = dialect_of(path) == "pipeline"
        shape = problems.of(lambda: shape_of(job, is_pipeline=is_pipeline))
    completed = Completed(section=file.section)
    if keys is not None:
        completed = complete(file.section, keys)
        of_section = () if shape is None else check_section(completed.section, shape)
        for at, text in (*completed.problems, *of_section, *check_backend(keys, shape)):
            if not file.problems.has(at):
                file.problems.note(at, text)
    command, files = None, None
    if keys is not None:
        command = problems.of(lambda: _command(request, keys, path))
        files = problems.of(lambda: _files(request, keys, path, command, job))
    in_job, problems.found = problems.found, []
    problems.of(file.problems.check)
    problems.found += in_job
    problems.check()
    assert keys and job and shape and command and files
    notices = (*file.notices, *job.notices, *completed.notices)
    plan = _plan(keys, shape, command, files, notices)
    return dataclasses.replace(plan, section=completed.section)


class _Problems:
    """Collects the problems of several checks."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def of(self, check: Callable[[], ResultT]) -> ResultT | None:
        """Return the result of a check, or None if it has found problems."""
        try:
            return check()
        except ConfigError as error:
            self.found += error.problems
        except FleetRecError as error:
            self.found.append(str(error))
        return None

    def check(self) -> None:
        """Raise one ConfigError with all problems, if there is any."""
        if self.found:
            raise ConfigError(list(dict.fromkeys(self.found)))


def with_secrets(keys: BackendKeys) -> BackendKeys:
    """Return keys in which the environment gives the secrets that the file leaves out."""
    found = read_cluster_secrets()
    sections = {}
    for name, part in (("config", keys.config), ("submit", keys.submit)):
        missing = {
            key: value
            for key, value in found.items()
            if key in type(part).model_fields and not getattr(part, key)
        }
        sections[name] = part.model_copy(update=missing)
    return keys.model_copy(update=sections)


def secrets_of(keys: BackendKeys) -> tuple[str, ...]:
    """Return the texts of backend.yaml that must not be shown."""
    from fleetrec.launch.job_spec import is_secret

    env = [value for name, value in keys.config.env.items() if is_secret(name)]
    found = (keys.submit.ak, keys.submit.sk, keys.config.fs_ugi, *env)
    return tuple(value for value in found if value)


def _local_mpi_problems(path: Path) -> list[str]:
    data = read_document(path).data
    is_mpi = (
        str(data.get("backend")).lower() == "paddlecloud"
        and str(data.get("cluster_type", data.get("cluster-type"))).lower() == "mpi"
    )
    return [] if is_mpi else [f"--local-mpi: {path} is not for cluster_type: mpi of PaddleCloud"]


def _load_job(request: SubmitRequest, path: Path, keys: BackendKeys | None) -> Job:
    wanted = JobRequest(
        source=request.model,
        overrides=request.overrides,
        processes=_processes(path, keys),
        purpose="submit",
    )
    return load_requested(wanted) if "torch" in sys.modules else in_child(_Load(wanted))


@dataclasses.dataclass(frozen=True)
class _Load:
    """Loads a job in a process of its own, which may load models."""

    request: JobRequest

    def __call__(self) -> Job:
        return without_model_classes(load_requested(self.request))


def _processes(path: Path, keys: BackendKeys | None) -> Processes:
    """Return the processes of a pipeline; a YAML job has keys that say what they do."""
    if keys is None or dialect_of(path) != "pipeline":
        return Processes(is_local=False)
    servers = keys.submit.number("servers") or 0
    mode = JobShape(fleet_mode="ps" if servers else "collective", device=None)
    return Processes(
        num_workers=num_workers(keys, mode),
        num_servers=num_servers(keys, mode) if servers else 0,
        is_local=False,
    )


def _command(request: SubmitRequest, keys: BackendKeys, path: Path) -> StartCommand:
    text = keys.submit.start_cmd
    if "start_cmd" not in keys.submit.model_fields_set and dialect_of(path) == "pipeline":
        text = f"python -m fleetrec.train_eval -m {shlex.quote(path.name)}"
    return start_command(text, arguments=request.arguments())


def _files(
    request: SubmitRequest,
    keys: BackendKeys,
    path: Path,
    command: StartCommand | None,
    job: Job | None,
) -> JobFiles:
    named = None if command is None else job_argument(command)
    is_renamed = dialect_of(path) == "yaml" and (named is None or Path(named).name != path.name)
    files, problems = plan_files(
        keys.submit.files,
        job=path,
        job_name=YAML_JOB if is_renamed else path.name,
        backend=request.backend_file,
        reserved=RESERVED,
    )
    is_required = keys.backend == "paddlecloud"  # then it is a problem of its own
    if not problems and (keys.submit.files or not is_required):
        problems += _missing_files(job, files, path, request.overrides)
    if named is not None and Path(named).suffix and str(Path(named)) not in files.sources:
        problems.append(
            f"submit.start_cmd: -m {named} is not in the job folder, which has "
            f"{', '.join(sorted(files.sources))}"
        )
    if problems:
        raise ConfigError(problems)
    return files


def _missing_files(
    job: Job | None, files: JobFiles, path: Path, overrides: Sequence[str]
) -> list[str]:
    """Return problems for code of the job that no node would have."""
    if job is None or dialect_of(path) == "pipeline":
        return []
    given = read_document(path).data.get("workspace")
    is_changed = any(text.startswith("workspace") for text in overrides)
    if is_changed or (given is not None and not Path(str(given)).is_dir()):  # a built-in model
        return []
    if given is not None and Path(str(given)).is_absolute():
        return []
    phases = [phase for run in job.runs for phase in run.phases]
    code = [phase.model_path for phase in phases]
    code += [phase.dataset.reader.path for phase in phases if phase.dataset.reader is not None]
    problems = []
    for one in dict.fromkeys(code):
        if not one.is_relative_to(job.workspace):
            continue
        name = one.relative_to(job.workspace).as_posix()
        source = files.sources.get(name)
        if source is None or not source.samefile(one):
            problems.append(
                f"submit.files: {name}, which {path} needs, is not among them; all files lie at "
                "the top of the job folder"
            )
    return problems


def _plan(
    keys: BackendKeys,
    shape: JobShape,
    command: StartCommand,
    files: JobFiles,
    notices: Sequence[str],
) -> SubmitPlan:
    is_here = keys.backend in SHARED  # the nodes have the folders of this machine
    python = keys.config.python or (sys.executable if is_here else "python")
    spec = cluster_job(
        keys,
        shape,
        command=node_command(command, python=python),
        token=read_token() or random.token_hex(16),
    )
    return SubmitPlan(
        keys=keys,
        shape=shape,
        job=spec,
        command=command,
        files=files,
        notices=(*notices, *command.notices, *_notices(keys)),
    )


def _notices(keys: BackendKeys) -> list[str]:
    """Return notices about keys that have no effect, or may be forgotten."""
    found = []
    if "paddle_version" in keys.config.model_fields_set:
        found.append("config.paddle_version has no effect: FleetRec needs no Paddle")
    if not keys.config.use_python3:
        found.append("config.use_python3: 0 has no effect: FleetRec runs on Python 3")
    if keys.backend == "paddlecloud" and not keys.config.output_path:
        found.append("config.output_path is empty: results stay on the nodes")
    return found
