"""Servers and workers as what every cluster has: a StatefulSet and an indexed Job."""

from fleetrec.core.env import STATE
from fleetrec.core.launchers import own
from fleetrec.launch.job_spec import JobSpec, RoleSpec
from fleetrec.launch.manifests.names import COMPONENT, INSTANCE, Object, without_nothing
from fleetrec.launch.manifests.pods import (
    COMPLETION_INDEX,
    POD_INDEX,
    SERVER_PORT,
    STATE_MOUNT,
    PodContext,
    PodRole,
    field,
    listen_on_pod_ip,
    pod_template,
)
from fleetrec.launch.manifests.ranks import RENDEZVOUS, RENDEZVOUS_PORT, rank_pod

LAUNCHER = "Kubernetes"
STARTUP_CHECKS, STARTUP_PERIOD_S = 120, 5  # a server may have to replay a long journal


def server_objects(context: PodContext, job: JobSpec) -> list[Object]:
    """Return the servers: a StatefulSet with a volume for each, and the Service that names them."""
    if job.servers is None:
        return []
    naming, options = context.naming, context.naming.options
    pod = PodRole(
        role=job.servers,
        component="servers",
        command=job.servers.command,
        place={
            **_place(context, job, role="server", rank=POD_INDEX),
            **listen_on_pod_ip(),
            STATE: f"{STATE_MOUNT}/server",  # a volume may have a folder lost+found
        },
        ports={"grpc": SERVER_PORT},
        probes=_probes(has_tls=options.tls_secret is not None),
        mounts=[{"name": "state", "mountPath": STATE_MOUNT}],
    )
    claim = {
        "metadata": {"name": "state", "labels": naming.labels("servers")},
        "spec": without_nothing(
            {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": options.storage_class,
                "resources": {"requests": {"storage": options.storage}},
            }
        ),
    }
    return [
        headless_service(context, naming.servers, "servers", {"grpc": SERVER_PORT}),
        naming.make(
            "apps/v1/StatefulSet",
            naming.servers,
            "servers",
            spec={
                "serviceName": naming.servers,
                "replicas": job.servers.replicas,
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": naming.selector("servers")},
                "persistentVolumeClaimRetentionPolicy": {
                    "whenDeleted": "Delete",
                    "whenScaled": "Retain",
                },
                "template": pod_template(
                    context, pod, topologySpreadConstraints=[_spread(context)]
                ),
                "volumeClaimTemplates": [claim],
            },
        ),
    ]


def worker_objects(context: PodContext, job: JobSpec) -> list[Object]:
    """Return the workers: an indexed Job; or what restarts them for ever."""
    naming, options = context.naming, context.naming.options
    workers = job.workers
    if options.long_running:
        return _long_running(context, job)
    pod = _worker_pod(context, job, rank=COMPLETION_INDEX)
    has_restarts = workers.restart != "never"
    template = pod_template(
        context,
        pod,
        restartPolicy="OnFailure" if has_restarts else "Never",
        subdomain=naming.workers if job.servers is None else None,
    )
    spec = {
        "completionMode": "Indexed",
        "completions": workers.replicas,
        "parallelism": workers.replicas,
        "backoffLimit": options.max_restarts * workers.replicas if has_restarts else 0,
        **({} if options.ttl_s is None else {"ttlSecondsAfterFinished": options.ttl_s}),
        "template": template,
    }
    return [
        *_worker_service(context, job),
        naming.make("batch/v1/Job", naming.workers, "workers", spec=spec),
    ]


def headless_service(
    context: PodContext, name: str, component: str, ports: dict[str, int]
) -> Object:
    """Return the Service that gives pods names; they have them before they are ready."""
    return context.naming.make(
        "v1/Service",
        name,
        component,
        spec=without_nothing(
            {
                "clusterIP": "None",
                "publishNotReadyAddresses": True,
                "selector": context.naming.selector(component),
                "ports": [
                    {"name": port_name, "port": port, "targetPort": port}
                    for port_name, port in ports.items()
                ],
            }
        ),
    )


def _long_running(context: PodContext, job: JobSpec) -> list[Object]:
    naming = context.naming
    ports = dict(RENDEZVOUS) if job.servers is None else {}
    spec = {
        "serviceName": naming.workers,
        "replicas": job.workers.replicas,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": naming.selector("workers")},
        "template": pod_template(context, _worker_pod(context, job, rank=POD_INDEX)),
    }
    return [
        headless_service(context, naming.workers, "workers", ports),
        naming.make("apps/v1/StatefulSet", naming.workers, "workers", spec=spec),
    ]


def _worker_service(context: PodContext, job: JobSpec) -> list[Object]:
    if job.servers is not None:
        return []
    name = context.naming.workers
    return [headless_service(context, name, "workers", dict(RENDEZVOUS))]


def _worker_pod(context: PodContext, job: JobSpec, *, rank: str) -> PodRole:
    workers = job.workers
    if job.servers is not None:
        return PodRole(
            role=workers,
            component="workers",
            command=workers.command,
            place=_place(context, job, role="worker", rank=rank),
        )
    name = context.naming.workers
    endpoint = f"{name}-0.{name}:{RENDEZVOUS_PORT}"
    return rank_pod(context, workers, endpoint=endpoint, ports=dict(RENDEZVOUS))


def _place(context: PodContext, job: JobSpec, *, role: str, rank: str) -> dict[str, str | Object]:
    """Return the variables of a process of a job with servers."""
    assert job.servers is not None
    return {
        own.ROLE: role,
        own.RANK: field(rank),
        own.NUM_WORKERS: str(job.workers.replicas),
        own.SERVERS: ",".join(server_endpoints(context, job.servers)),
        own.LAUNCHER: LAUNCHER,
    }


def server_endpoints(context: PodContext, servers: RoleSpec) -> list[str]:
    """Return where the servers listen, by the names that their Service gives them."""
    name = context.naming.servers
    return [f"{name}-{index}.{name}:{SERVER_PORT}" for index in range(servers.replicas)]


def _probes(*, has_tls: bool) -> dict[str, Object]:
    """Return the checks of a server: its health service, or its port if that speaks TLS."""
    check: Object = {"tcpSocket": {"port": SERVER_PORT}}
    if not has_tls:
        check = {"grpc": {"port": SERVER_PORT}}
    return {
        "startupProbe": {
            **check,
            "periodSeconds": STARTUP_PERIOD_S,
            "failureThreshold": STARTUP_CHECKS,
        },
        "readinessProbe": {**check, "periodSeconds": 5, "timeoutSeconds": 5},
        "livenessProbe": {
            **check,
            "periodSeconds": 20,
            "timeoutSeconds": 10,
            "failureThreshold": 6,
        },
    }


def _spread(context: PodContext) -> Object:
    """Return the request to run servers on different machines where that is possible."""
    selector = context.naming.selector("servers")
    return {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {
            "matchLabels": {INSTANCE: selector[INSTANCE], COMPONENT: selector[COMPONENT]}
        },
    }
