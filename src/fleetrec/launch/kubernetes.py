"""Submit jobs to Kubernetes, as manifests that kubectl applies."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fleetrec.core.env import TOKEN
from fleetrec.core.errors import ConfigError
from fleetrec.launch import kubectl
from fleetrec.launch.engine import Engine, JobStatus, SubmittedJob
from fleetrec.launch.job_spec import JobSpec
from fleetrec.launch.kubernetes_status import status_of
from fleetrec.launch.manifests.ending import ending_objects
from fleetrec.launch.manifests.files import check_size, config_map, read_job_files, secret
from fleetrec.launch.manifests.folder import (
    END,
    FILES,
    FOLDER,
    SECRETS,
    SERVERS,
    WORKERS,
    job_name,
    read_workload,
    refresh_files,
    write_manifests,
)
from fleetrec.launch.manifests.kubeflow import pytorch_job, train_job
from fleetrec.launch.manifests.names import INSTANCE, Naming, Object, object_name
from fleetrec.launch.manifests.plain import server_objects, worker_objects
from fleetrec.launch.manifests.pods import PodContext
from fleetrec.launch.manifests.serving import ServedModel, serving_objects
from fleetrec.launch.manifests.volcano import volcano_objects

if TYPE_CHECKING:
    from fleetrec.config.cluster.kubernetes import KubernetesOptions

MAX_LOG_STREAMS = 200


class KubernetesEngine(Engine):
    """Renders a job as manifests in ``FOLDER`` of the job folder, and applies them."""

    def __init__(self, options: KubernetesOptions) -> None:
        self._options = options

    def render(self, job: JobSpec, folder: Path) -> list[Path]:
        """Write the manifests; the other files of the folder become files of the pods.

        The name of the objects is that of the folder, so that two jobs do not meet.
        """
        files = read_job_files(folder, except_in=FOLDER)
        check_size(files, folder)
        env = dict(job.env)
        if job.servers is not None:
            env.setdefault(TOKEN, secrets.token_hex(16))
        naming = Naming(name=object_name(folder.resolve().name), options=self._options)
        context = PodContext(naming=naming, files=files, env=env)
        return write_manifests(
            folder / FOLDER,
            {
                FILES: [config_map(naming, files)],
                SECRETS: [secret(naming, files, context.secret_values(job.roles))],
                **self._workload(context, job),
            },
        )

    def render_serving(
        self, served: ServedModel, folder: Path, *, name: str, token: str
    ) -> list[Path]:
        """Write the manifests of a served model; the folder is then submitted as that of a job.

        Objects have the name of the model's service: submitting it again replaces the model.
        """
        naming = Naming(name=object_name(name), options=self._options)
        own_secret, objects = serving_objects(naming, served, token=token)
        return write_manifests(folder / FOLDER, {SECRETS: [own_secret], WORKERS: objects})

    def submit(self, folder: Path) -> SubmittedJob:
        """Apply the manifests; a job of this name that has ended is replaced.

        Files of the job folder that were edited since it was rendered are taken as they are now.
        """
        workload = read_workload(folder)
        name, namespace = job_name(workload), workload["metadata"]["namespace"]
        before = self.status(folder, name)
        is_replaced = workload["kind"] == "Deployment"  # pod by pod, while it serves
        if before.state in ("pending", "running") and not is_replaced:
            raise ConfigError(
                [f"{folder}: job {name} is {before.state}; end it first: fleetrec job cancel"]
            )
        refresh_files(folder)
        for file in (END, WORKERS):  # a Job cannot be changed, and does not run twice
            if before.has_ended and (folder / FOLDER / file).is_file():
                kubectl.delete(folder / FOLDER / file, timeout_s=kubectl.TIMEOUT_S)
        kubectl.apply(folder / FOLDER)
        selector = f"--selector={INSTANCE}={name}"
        return SubmittedJob(
            job_id=name,
            follow=(
                f"kubectl get pods --namespace={namespace} {selector} --watch",
                f"kubectl logs --namespace={namespace} {selector} --prefix --follow",
            ),
        )

    def status(self, folder: Path, job_id: str) -> JobStatus:
        """Ask the cluster for the object of the workers; a job without one was cancelled."""
        workload = read_workload(folder)
        _check_id(workload, job_id, folder)
        group = workload["apiVersion"].partition("/")[0]
        found = kubectl.get(
            f"{workload['kind'].lower()}.{group}",
            workload["metadata"]["name"],
            namespace=workload["metadata"]["namespace"],
        )
        if found is None:
            return JobStatus(state="unknown", detail="the cluster has no such job")
        return status_of(found)

    def logs(self, folder: Path, job_id: str) -> Iterator[str]:
        """Return what the pods of the job have printed, each line with the name of its pod."""
        workload = read_workload(folder)
        _check_id(workload, job_id, folder)
        return kubectl.stream(
            [
                "logs",
                f"--namespace={workload['metadata']['namespace']}",
                f"--selector={INSTANCE}={job_id}",
                "--prefix",
                "--tail=-1",
                f"--max-log-requests={MAX_LOG_STREAMS}",
            ]
        )

    def cancel(self, folder: Path, job_id: str) -> None:
        """Delete the workers, which may save before they end; then everything else."""
        _check_id(read_workload(folder), job_id, folder)
        timeout_s = kubectl.TIMEOUT_S + self._options.grace_s
        for path in (folder / FOLDER / WORKERS, folder / FOLDER):
            kubectl.delete(path, timeout_s=timeout_s)

    def _workload(self, context: PodContext, job: JobSpec) -> dict[str, list[Object]]:
        """Return the objects of the servers and those of the workers, by their files."""
        options = self._options
        if options.flavour in ("pytorchjob", "trainjob"):
            if job.servers is not None:
                raise ConfigError(
                    [
                        f"flavour: {options.flavour} has no parameter servers; use flavour: plain "
                        "or volcano, or fleet_mode: collective"
                    ]
                )
            build = pytorch_job if options.flavour == "pytorchjob" else train_job
            return {WORKERS: [build(context, job)]}
        if options.flavour == "volcano":
            return {WORKERS: volcano_objects(context, job)}
        found = {SERVERS: server_objects(context, job), WORKERS: worker_objects(context, job)}
        if job.servers is not None and not options.long_running and options.cleanup == "pod":
            found[END] = ending_objects(context)
        return found


def _check_id(workload: Object, job_id: str, folder: Path) -> None:
    if job_id != job_name(workload):
        raise ConfigError([f"{folder}: holds job {job_name(workload)}, not {job_id}"])
