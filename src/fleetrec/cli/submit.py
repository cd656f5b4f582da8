"""``fleetrec submit``: from a job and a backend.yaml to a job folder and a submitted job."""

import dataclasses
import datetime
import logging
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fleetrec.cli.logs import console_logging
from fleetrec.cli.submit_plan import SubmitPlan, SubmitRequest, plan_submission, with_secrets
from fleetrec.config.cluster.decode import decode_backend
from fleetrec.config.cluster.keys import BackendKeys
from fleetrec.config.cluster.sections import complete
from fleetrec.config.cluster.shape import JobShape
from fleetrec.config.options import Options
from fleetrec.core.errors import FleetRecError
from fleetrec.core.storage import shown
from fleetrec.launch.cluster_job import node_plan, write_node_file
from fleetrec.launch.engine import Engine
from fleetrec.launch.engines import make_engine
from fleetrec.launch.job_files import BACKEND_FILE, create_job_folder
from fleetrec.launch.job_spec import RoleSpec
from fleetrec.launch.submission import JobRecord, load_record

logger = logging.getLogger(__name__)


def submit_command(request: SubmitRequest) -> None:
    """Check a job, show what will happen, make its folder, and submit it."""
    plan = plan_submission(request)
    with console_logging():
        for notice in plan.notices:
            logger.warning("%s", notice)
    print_plan(plan)
    engine = _engine(plan.keys, plan.section, plan.shape)
    now = datetime.datetime.now()
    folder = create_job_folder(
        Path.cwd(), job_name=plan.keys.submit.job_name, minute=f"{now:%Y%m%d%H%M}"
    )
    record = JobRecord(
        backend=plan.keys.backend,
        name=plan.keys.submit.job_name,
        shape=dataclasses.asdict(plan.shape),
    )
    try:
        rendered = _fill(plan, engine, record, folder)
    except FleetRecError:
        shutil.rmtree(folder)  # an engine that refuses the job leaves nothing behind
        raise
    print(f"The task submission folder is generated at {folder}")
    for line in _announcements(engine, folder, rendered):
        print(line)
    submit_folder(engine, record, folder, dry_run=request.dry_run)


def _fill(plan: SubmitPlan, engine: Engine, record: JobRecord, folder: Path) -> list[Path]:
    """Write the files of a job folder; returns those of the engine."""
    plan.files.copy_to(folder, secrets=plan.secrets)
    if plan.uses_node_entry:
        write_node_file(plan.keys, plan.shape, folder)
    record.save(folder)
    return engine.render(plan.job, folder)


def submit_again(folder: Path, *, dry_run: bool) -> None:
    """Submit a job folder as it is; its files may have been edited."""
    record = load_record(folder)
    submit_folder(engine_of(record, folder), record, folder.absolute(), dry_run=dry_run)


def engine_of(record: JobRecord, folder: Path) -> Engine:
    """Return the engine that a job folder was made for."""
    file = decode_backend(folder / BACKEND_FILE, backend=record.backend)
    file.problems.check()
    assert file.keys is not None
    section = complete(file.section, file.keys).section
    return _engine(with_secrets(file.keys), section, JobShape(**record.shape))


def submit_folder(engine: Engine, record: JobRecord, folder: Path, *, dry_run: bool) -> None:
    """Submit a rendered folder unless it is a dry run, and print how to follow the job."""
    if dry_run:
        print(
            f"not submitted (--dry-run); to submit it: fleetrec submit {shlex.quote(str(folder))}"
        )
        return
    job = engine.submit(folder)
    at = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    record.with_submission(job, at=at).save(folder)
    if job.output:
        print(job.output.rstrip("\n"))
        print("end submit")
    print(f"submitted: {job.job_id}")
    own = [
        f"fleetrec job {verb} {shlex.quote(str(folder))}" for verb in ("status", "logs", "cancel")
    ]
    for command in (*job.follow, *own):
        print(f"  {command}")


def _announcements(engine: Engine, folder: Path, rendered: Sequence[Path]) -> tuple[str, ...]:
    """Return a line for each file that was made; those for PaddleCloud are PaddleRec's."""
    from fleetrec.launch.paddlecloud import PaddleCloudEngine

    if isinstance(engine, PaddleCloudEngine):
        return engine.announcements()
    return tuple(f"gen {path.relative_to(folder)}" for path in rendered)


def _engine(keys: BackendKeys, section: Options | None, shape: JobShape) -> Engine:
    options: Any = section
    if keys.backend == "paddlecloud":
        from fleetrec.config.cluster.paddlecloud import paddlecloud_options

        options = paddlecloud_options(keys, shape)
    return make_engine(keys.backend, options)


def print_plan(plan: SubmitPlan) -> None:
    """Print what will happen, without secrets."""
    keys, job = plan.keys, plan.job
    where = keys.backend if keys.cluster_type is None else f"{keys.backend} ({keys.cluster_type})"
    rows = {"job": f"{job.name} on {where}"}
    rows |= {role.name: _role(role) for role in job.roles}
    rows["command"] = plan.command.line
    data: Any = node_plan(keys, plan.shape)
    rows |= {f"./{folder}": shown(url) for folder, url in data["fetch"].items()}
    if data["output"]:
        rows["results"] = shown(data["output"])
    described = job.describe()
    env = {
        **described["env"],
        **{k: v for role in described["roles"] for k, v in role["env"].items()},
    }
    rows["variables"] = " ".join(f"{name}={value}" for name, value in env.items())
    rows["files"] = " ".join(sorted(plan.files.sources))
    width = max(map(len, rows)) + 2
    for name, value in rows.items():
        for secret in plan.secrets:
            value = value.replace(secret, "***")
        print(f"{name + ':':<{width}}{value}")


def _role(role: RoleSpec) -> str:
    needs = role.resources
    parts = [
        "" if needs.cpus is None else f"{needs.cpus} CPUs",
        "" if not needs.gpus else f"{needs.gpus} GPU",
        "" if needs.memory_bytes is None else f"{needs.memory_bytes / 2**30:.3g} GiB",
    ]
    found = ", ".join(part for part in parts if part)
    return f"{role.replicas}" + (f", each with {found}" if found else "")
