"""Ranks in pods: torchrun starts those of a pod, and starts all again when one is lost."""

import shlex
from collections.abc import Mapping

from fleetrec.launch.job_spec import RoleSpec
from fleetrec.launch.manifests.pods import PodContext, PodRole

RENDEZVOUS_PORT = 29400
RENDEZVOUS = (("rendezvous", RENDEZVOUS_PORT),)


def rank_pod(
    context: PodContext,
    role: RoleSpec,
    *,
    endpoint: str,
    container: str = "fleetrec",
    ports: Mapping[str, int],
) -> PodRole:
    """Return the pod of ranks, which rendezvous at an endpoint."""
    naming = context.naming
    return PodRole(
        role=role,
        component="workers",
        command=role.command,
        container=container,
        script=ranks_script(
            role, endpoint=endpoint, job=naming.name, max_restarts=naming.options.max_restarts
        ),
        place={},
        ports=ports,
    )


def ranks_script(role: RoleSpec, *, endpoint: str, job: str, max_restarts: int) -> str:
    """Return the part of a shell script that runs the command as ranks.

    A pod with several GPUs has a rank for each. ``endpoint`` may refer to variables of the pod.
    Peers reach a pod by its address: its name may be known to the pod only.
    """
    restarts = 0 if role.restart == "never" else max_restarts
    return " ".join(
        (
            "exec torchrun",
            f"--nnodes={role.replicas}",
            f"--nproc-per-node={ranks_per_pod(role)}",
            "--rdzv-backend=c10d",
            f'--rdzv-endpoint="{endpoint}"',
            f"--rdzv-id={shlex.quote(job)}",
            '--local-addr="$POD_IP"',
            f"--max-restarts={restarts}",
            '--no-python "$@"',
        )
    )


def ranks_per_pod(role: RoleSpec) -> int:
    """Return how many ranks a pod has."""
    return max(1, role.resources.gpus)
