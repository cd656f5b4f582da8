"""A job of Volcano: all pods start together, and the end of the workers is the end of the job."""

from fleetrec.core.env import STATE
from fleetrec.core.launchers.volcano import DEFAULT_SERVER_PORT, SERVER_PORT
from fleetrec.launch.job_spec import JobSpec, RoleSpec
from fleetrec.launch.manifests.names import Object, without_nothing
from fleetrec.launch.manifests.pods import (
    STATE_MOUNT,
    PodContext,
    PodRole,
    field,
    listen_on_pod_ip,
    pod_template,
)
from fleetrec.launch.manifests.ranks import RENDEZVOUS, RENDEZVOUS_PORT, rank_pod

POD_NAME = "POD_NAME"


def volcano_objects(context: PodContext, job: JobSpec) -> list[Object]:
    """Return the job. Its plugins give pods names, and the variables VC_* by which they find peers.

    The loss of a server's pod is the loss of its state, unless that is in ``state_claim``.
    """
    naming, options = context.naming, context.naming.options
    tasks = [_task(context, job, role) for role in job.roles]
    lost = "RestartTask" if job.servers is not None and options.state_claim else "RestartJob"
    spec = without_nothing(
        {
            "schedulerName": "volcano",
            "queue": options.queue,
            "priorityClassName": options.priority_class,
            "minAvailable": sum(role.replicas for role in job.roles),
            "maxRetry": max(1, options.max_restarts),
            "plugins": {"env": [], "svc": []},
            "policies": [{"event": "PodEvicted", "action": lost}],
            "tasks": tasks,
        }
    )
    spec["plugins"] = {"env": [], "svc": []}
    if options.ttl_s is not None:
        spec["ttlSecondsAfterFinished"] = options.ttl_s
    return [naming.make("batch.volcano.sh/v1alpha1/Job", naming.name, "workers", spec=spec)]


def _task(context: PodContext, job: JobSpec, role: RoleSpec) -> Object:
    if role is not job.workers:
        return {
            "name": role.name,
            "replicas": role.replicas,
            "template": pod_template(
                context, _server_pod(context, role), restartPolicy="OnFailure"
            ),
        }
    has_servers = job.servers is not None
    on_failure = "RestartTask" if has_servers else "RestartJob"
    if role.restart == "never":
        on_failure = "AbortJob"
    pod = _worker_pod(context, role, has_servers=has_servers)
    return {
        "name": role.name,
        "replicas": role.replicas,
        "policies": [
            {"event": "TaskCompleted", "action": "CompleteJob"},
            {"event": "PodFailed", "action": on_failure},
        ],
        "template": pod_template(context, pod, restartPolicy="Never"),
    }


def _server_pod(context: PodContext, role: RoleSpec) -> PodRole:
    claim = context.naming.options.state_claim
    mount: Object = {"name": "state", "mountPath": STATE_MOUNT}
    volume: Object = {"name": "state", "emptyDir": {}}
    if claim is not None:
        volume = {"name": "state", "persistentVolumeClaim": {"claimName": claim}}
        mount["subPathExpr"] = f"$({POD_NAME})"
    return PodRole(
        role=role,
        component="servers",
        command=role.command,
        place={
            SERVER_PORT: str(DEFAULT_SERVER_PORT),
            POD_NAME: field("metadata.name"),
            **listen_on_pod_ip(),
            STATE: f"{STATE_MOUNT}/server",
        },
        ports={"grpc": DEFAULT_SERVER_PORT},
        volumes=[volume],
        mounts=[mount],
    )


def _worker_pod(context: PodContext, role: RoleSpec, *, has_servers: bool) -> PodRole:
    place: dict[str, str | Object] = {SERVER_PORT: str(DEFAULT_SERVER_PORT)}
    if has_servers:
        return PodRole(role=role, component="workers", command=role.command, place=place)
    endpoint = f"${{VC_WORKER_HOSTS%%,*}}:{RENDEZVOUS_PORT}"
    return rank_pod(context, role, endpoint=endpoint, ports=dict(RENDEZVOUS))
