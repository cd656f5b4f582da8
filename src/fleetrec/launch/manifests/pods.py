"""Pods of a job: containers, variables, volumes, resources."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from fleetrec.core.env import AUTHORITY, CERTIFICATE, IS_NODE, KEY, LISTEN_HOST
from fleetrec.core.errors import ConfigError
from fleetrec.core.launchers import own
from fleetrec.launch.job_spec import RANK_MACRO, Resources, RoleSpec, is_secret
from fleetrec.launch.manifests.files import JobFile, files_volume
from fleetrec.launch.manifests.names import Naming, Object, without_nothing

FILES = "/fleetrec/files"
WORK = "/fleetrec/work"
STATE_MOUNT = "/fleetrec/state"
TLS = "/fleetrec/tls"
SERVER_PORT = 6170
# Files are links into a folder that is read-only; a container that is restarted finds its copies.
COPY_FILES = f"cp -RLf {FILES}/* . && "
RUN = 'exec "$@"'
COMPLETION_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
POD_INDEX = "metadata.labels['apps.kubernetes.io/pod-index']"
POD_IP = "POD_IP"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PodContext:
    """What the pods of a job have in common."""

    naming: Naming
    files: Sequence[JobFile]
    env: Mapping[str, str]  # of the whole job

    def secret_values(self, roles: Sequence[RoleSpec]) -> dict[str, str]:
        """Return the values of secret variables by their keys in the Secret of the job."""
        found = {name: value for name, value in self.env.items() if is_secret(name)}
        for role in roles:
            for name, value in role.env.items():
                if is_secret(name):
                    found[secret_key(role, name)] = value
        return found


def secret_key(role: RoleSpec, name: str) -> str:
    """Return the key in the Secret of the job under which a role's own variable is."""
    return f"{role.name}.{name}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PodRole:
    """What distinguishes the pods of a role.

    ``place`` are variables that say which process of the job a pod is, as text or as where to take
    the value from. ``script`` replaces the start of the command.
    """

    role: RoleSpec
    component: str
    command: Sequence[str]
    place: Mapping[str, str | Object]
    script: str = ""
    container: str = "fleetrec"
    ports: Mapping[str, int] = dataclasses.field(default_factory=dict)
    probes: Mapping[str, Object] = dataclasses.field(default_factory=dict)
    volumes: Sequence[Object] = ()
    mounts: Sequence[Object] = ()


def pod_template(context: PodContext, pod: PodRole, **spec: Any) -> Object:
    """Return the template of the pods of a role; ``spec`` is added to its specification."""
    naming = context.naming
    options = naming.options
    return {
        "metadata": {"labels": naming.labels(pod.component)},
        "spec": without_nothing(
            {
                **spec,
                "serviceAccountName": options.service_account,
                "automountServiceAccountToken": options.service_account is not None,
                "imagePullSecrets": [{"name": name} for name in options.image_pull_secrets],
                "nodeSelector": options.node_selector,
                "tolerations": [dict(toleration) for toleration in options.tolerations],
                "priorityClassName": options.priority_class,
                "terminationGracePeriodSeconds": options.grace_s,
                "securityContext": without_nothing(
                    {
                        "fsGroup": options.fs_group,
                        "fsGroupChangePolicy": None
                        if options.fs_group is None
                        else "OnRootMismatch",
                    }
                ),
                "containers": [container(context, pod)],
                "volumes": pod_volumes(context, pod),
            }
        ),
    }


def container(context: PodContext, pod: PodRole) -> Object:
    """Return the container that runs the command of a role."""
    options = context.naming.options
    return without_nothing(
        {
            "name": pod.container,
            "image": options.image,
            "imagePullPolicy": options.image_pull_policy,
            "command": shell_command(context, pod),
            "env": variables(context, pod),
            "envFrom": [{"secretRef": {"name": name}} for name in options.env_secrets],
            "ports": [{"name": name, "containerPort": port} for name, port in pod.ports.items()],
            "resources": resources(pod.role.resources, gpu_resource=options.gpu_resource),
            **pod.probes,
            "volumeMounts": pod_mounts(context, pod),
        }
    )


def shell_command(context: PodContext, pod: PodRole) -> list[str]:
    """Return what copies the files of the job into the working folder, then runs the command."""
    script = f"cd {WORK} && {COPY_FILES if context.files else ''}{pod.script or RUN}"
    return ["sh", "-c", script, "sh", *map(_escaped, pod.command)]


def variables(context: PodContext, pod: PodRole) -> list[Object]:
    """Return the variables of a container, of which later ones refer to earlier ones."""
    cpus = pod.role.resources.cpus
    found: dict[str, str | Object] = {
        POD_IP: {"fieldRef": {"fieldPath": "status.podIP"}},
        "PYTHONUNBUFFERED": "1",
        IS_NODE: "1",
    }
    if cpus is not None:
        found["OMP_NUM_THREADS"] = str(cpus)
    found |= pod.place
    if context.naming.options.tls_secret is not None:
        found |= _tls_variables(is_server=pod.component == "servers")
    for name, value in {**context.env, **pod.role.env}.items():
        if name in pod.place:
            continue  # where a pod keeps its state is not where a process of this machine does
        if is_secret(name):
            key = secret_key(pod.role, name) if name in pod.role.env else name
            found[name] = {"secretKeyRef": {"name": context.naming.secrets, "key": key}}
        else:
            found[name] = _with_rank(pod, name, _escaped(value))
    return [
        {"name": name, "value": value}
        if isinstance(value, str)
        else {"name": name, "valueFrom": value}
        for name, value in found.items()
    ]


def _with_rank(pod: PodRole, name: str, value: str) -> str:
    """Return a value with the number of the replica, which only some pods know at their start."""
    if RANK_MACRO in value and own.RANK not in pod.place:
        raise ConfigError(
            [f"{name}={value}: pods of this kind have no {RANK_MACRO}; use flavour: plain"]
        )
    return value.replace(RANK_MACRO, f"$({own.RANK})")


def _escaped(value: str) -> str:
    """Return a value in which Kubernetes does not look for names of variables."""
    return value.replace("$(", "$$(")


def _tls_variables(*, is_server: bool) -> dict[str, str | Object]:
    if is_server:
        return {CERTIFICATE: f"{TLS}/tls.crt", KEY: f"{TLS}/tls.key"}
    return {AUTHORITY: f"{TLS}/ca.crt"}


def pod_volumes(context: PodContext, pod: PodRole) -> list[Object]:
    """Return the volumes of a pod."""
    options = context.naming.options
    found: list[Object] = [{"name": "work", "emptyDir": {}}]
    if context.files:
        found.append(files_volume(context.naming, context.files))
    if options.shared_memory is not None:
        memory = {"medium": "Memory", "sizeLimit": options.shared_memory}
        found.append({"name": "shared-memory", "emptyDir": memory})
    if options.tls_secret is not None:
        found.append({"name": "tls", "secret": _tls_items(options.tls_secret, pod.component)})
    for number, claim in enumerate(options.claims):
        found.append({"name": f"claim-{number}", "persistentVolumeClaim": {"claimName": claim}})
    return [*found, *pod.volumes]


def _tls_items(name: str, component: str) -> Object:
    keys = ("tls.crt", "tls.key") if component in ("servers", "serving") else ("ca.crt",)
    return {"secretName": name, "items": [{"key": key, "path": key} for key in keys]}


def pod_mounts(context: PodContext, pod: PodRole) -> list[Object]:
    """Return where a container has the volumes of its pod."""
    options = context.naming.options
    found: list[Object] = [{"name": "work", "mountPath": WORK}]
    if context.files:
        found.append({"name": "files", "mountPath": FILES, "readOnly": True})
    if options.shared_memory is not None:
        found.append({"name": "shared-memory", "mountPath": "/dev/shm"})
    if options.tls_secret is not None:
        found.append({"name": "tls", "mountPath": TLS, "readOnly": True})
    for number, folder in enumerate(options.claims.values()):
        found.append({"name": f"claim-{number}", "mountPath": folder})
    return [*found, *pod.mounts]


def resources(needed: Resources, *, gpu_resource: str) -> Object:
    """Return requests and limits, which are equal: nothing else can take what a pod needs."""
    amounts: Object = {}
    if needed.cpus is not None:
        amounts["cpu"] = str(needed.cpus)
    if needed.memory_bytes is not None:
        amounts["memory"] = str(needed.memory_bytes)
    if needed.gpus:
        amounts[gpu_resource] = str(needed.gpus)
    return {"requests": amounts, "limits": dict(amounts)} if amounts else {}


def field(path: str) -> Object:
    """Return where the value of a variable is: a field of the pod."""
    return {"fieldRef": {"fieldPath": path}}


def listen_on_pod_ip() -> dict[str, str | Object]:
    """Return the variable by which a server listens on the address of its pod.

    Its name may not be known yet when it starts.
    """
    return {LISTEN_HOST: f"$({POD_IP})"}
