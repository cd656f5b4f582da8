"""``fleetrec submit --serve``: an inference model, served by a Kubernetes cluster."""

import dataclasses
import datetime
import secrets as random
from pathlib import Path

from fleetrec.cli.submit import submit_folder
from fleetrec.cli.submit_plan import with_secrets
from fleetrec.config.cluster.decode import decode_backend
from fleetrec.config.cluster.kubernetes import KubernetesOptions
from fleetrec.config.cluster.shape import JobShape
from fleetrec.config.cluster.storage import user_variables
from fleetrec.core.env import read_token
from fleetrec.core.errors import ConfigError
from fleetrec.core.storage import shown
from fleetrec.launch.job_files import BACKEND_FILE, create_job_folder, write_private
from fleetrec.launch.job_spec import Resources
from fleetrec.launch.kubernetes import KubernetesEngine
from fleetrec.launch.manifests.serving import SERVICE_PORT, ServedModel
from fleetrec.launch.submission import JobRecord

DEFAULT_REPLICAS = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServeRequest:
    """The arguments of the command: a model, or a run whose newest model is served."""

    model: str | None
    follow: str | None
    backend_file: Path
    backend: str | None = None
    dry_run: bool = False


def submit_serving(request: ServeRequest) -> None:
    """Make a folder with the objects of a served model, and apply them."""
    file = decode_backend(request.backend_file, backend=request.backend)
    file.problems.check()
    assert file.keys is not None
    keys = with_secrets(file.keys)
    if not isinstance(file.section, KubernetesOptions):
        raise ConfigError(
            [f"{request.backend_file}: backend: {keys.backend} cannot serve; use kubernetes"]
        )
    submit = keys.submit
    served = ServedModel(
        model=request.model,
        follow=request.follow,
        replicas=submit.number("workers") or DEFAULT_REPLICAS,
        resources=Resources(cpus=submit.number("worker_cpus"), memory_bytes=submit.worker_memory),
        env={**user_variables(keys.config), **keys.config.env},
    )
    print(f"model:     {shown(request.model or request.follow or '')}")
    print(f"replicas:  {served.replicas}")
    now = datetime.datetime.now()
    folder = create_job_folder(Path.cwd(), job_name=submit.job_name, minute=f"{now:%Y%m%d%H%M}")
    print(f"The task submission folder is generated at {folder}")
    write_private(folder / BACKEND_FILE, request.backend_file.read_bytes())
    shape = JobShape(fleet_mode="single")
    record = JobRecord(backend=keys.backend, name=submit.job_name, shape=dataclasses.asdict(shape))
    record.save(folder)
    engine = KubernetesEngine(file.section)
    rendered = engine.render_serving(
        served, folder, name=submit.job_name, token=read_token() or random.token_hex(16)
    )
    for path in rendered:
        print(f"gen {path.relative_to(folder)}")
    print(f"the token of clients: FLEETREC_TOKEN, or that in {rendered[0]}")
    print(f"the Service listens on port {SERVICE_PORT}")
    submit_folder(engine, record, folder, dry_run=request.dry_run)
