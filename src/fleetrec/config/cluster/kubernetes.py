"""Options of jobs on Kubernetes."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from fleetrec.config.options import Options

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi)?")


def _check_name(name: str) -> str:
    if len(name) > 253 or not all(LABEL.fullmatch(part) for part in name.split(".")):
        raise ValueError("expected a name of Kubernetes: lower case letters, digits and hyphens")
    return name


def _check_quantity(text: str) -> str:
    if not QUANTITY.fullmatch(text):
        raise ValueError("expected a quantity such as 512Mi or 10Gi")
    return text


def _check_folder(path: str) -> str:
    if not path.startswith("/") or ":" in path or path.rstrip("/") in ("", "/fleetrec"):
        raise ValueError("expected an absolute path of a folder, such as /data")
    return path


ObjectName = Annotated[str, AfterValidator(_check_name)]
Quantity = Annotated[str, AfterValidator(_check_quantity)]
Folder = Annotated[str, AfterValidator(_check_folder)]

Flavour = Literal["plain", "volcano", "pytorchjob", "trainjob"]


class KubernetesOptions(Options):
    """Which objects a job becomes, and where its pods run.

    ``plain`` uses what every cluster has: a StatefulSet of servers and an indexed Job of workers.
    ``volcano`` is a Job of Volcano; ``pytorchjob`` and ``trainjob`` are Kubeflow's, for ranks.
    ``claims`` are existing volume claims by name, and where pods have them; ``env_secrets`` are
    existing secrets whose entries become variables, such as the credentials of a store.
    ``long_running`` jobs have no end: workers that have exited are started again, until the job is
    cancelled. Servers keep their state on volumes of ``storage``, of ``storage_class``; with
    ``volcano``, where pods have no volumes of their own, in ``state_claim``, which all servers
    share. ``tls_secret`` is an existing secret with tls.crt, tls.key and ca.crt. With ``cleanup:
    pod`` a small pod, which a role of its own permits that, ends the servers when the workers have
    ended; with ``cancel``, for those who may not create roles, they run until the job is cancelled.
    """

    image: str = Field(min_length=1)
    flavour: Flavour = "plain"
    namespace: ObjectName = "default"
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    image_pull_secrets: tuple[ObjectName, ...] = ()
    service_account: ObjectName | None = None
    node_selector: dict[str, str] = Field(default_factory=dict)
    tolerations: tuple[dict[str, Any], ...] = ()
    priority_class: ObjectName | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    gpu_resource: str = "nvidia.com/gpu"
    shared_memory: Quantity | None = None
    fs_group: int | None = Field(default=1000, ge=0)  # that of the project's image
    claims: dict[ObjectName, Folder] = Field(default_factory=dict)
    env_secrets: tuple[ObjectName, ...] = ()
    tls_secret: ObjectName | None = None
    storage: Quantity = "10Gi"
    storage_class: ObjectName | None = None
    state_claim: ObjectName | None = None
    max_restarts: int = Field(default=3, ge=0)
    grace_s: int = Field(default=120, ge=0)  # to save, when a pod is asked to end
    ttl_s: int | None = Field(default=None, ge=0)  # a job that has ended is deleted after it
    long_running: bool = False
    cleanup: Literal["pod", "cancel"] = "pod"
    queue: str | None = None  # of Volcano
    runtime: ObjectName = "torch-distributed"  # of Kubeflow's Trainer

    @model_validator(mode="after")
    def _check_flavour(self) -> Self:
        """Refuse keys that the objects of the flavour cannot express."""
        only = {
            "queue": ("volcano", self.queue is not None),
            "state_claim": ("volcano", self.state_claim is not None),
            "long_running": ("plain", self.long_running),
        }
        problems = [
            f"{key}: only flavour: {flavour} has it, got flavour: {self.flavour}"
            for key, (flavour, is_given) in only.items()
            if is_given and self.flavour != flavour
        ]
        if self.flavour == "trainjob":
            given = {
                "env_secrets": bool(self.env_secrets),
                "image_pull_policy": self.image_pull_policy is not None,
                "priority_class": self.priority_class is not None,
                "ttl_s": self.ttl_s is not None,
            }
            problems += [
                f"{key}: a TrainJob has no such key; put it into the runtime {self.runtime}, or "
                "use flavour: pytorchjob"
                for key, is_given in given.items()
                if is_given
            ]
        if len(set(self.claims.values())) < len(self.claims):
            problems.append("claims: two claims have the same folder")
        if problems:
            raise ValueError("; ".join(problems))
        return self
