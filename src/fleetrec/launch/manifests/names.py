"""Names and labels of the objects of a job."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fleetrec.config.cluster.kubernetes import KubernetesOptions


MAX_NAME = 40  # of a job; a pod's name is at most 63 characters, with its role and number
INSTANCE = "app.kubernetes.io/instance"
COMPONENT = "app.kubernetes.io/component"

Object = dict[str, Any]


def object_name(text: str) -> str:
    """Return a name that Kubernetes accepts; long ones are shortened and stay different."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if not name or not name[0].isalpha():
        name = f"job-{name}".rstrip("-")
    if len(name) <= MAX_NAME:
        return name
    return f"{name[: MAX_NAME - 9].rstrip('-')}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """The name of a job, from which the names and labels of its objects follow."""

    name: str
    options: KubernetesOptions

    @property
    def files(self) -> str:
        """The ConfigMap with the files of the job."""
        return f"{self.name}-files"

    @property
    def secrets(self) -> str:
        """The Secret with the values of secret variables, and with files."""
        return f"{self.name}-secrets"

    @property
    def servers(self) -> str:
        """The StatefulSet of the servers, and their Service."""
        return f"{self.name}-servers"

    @property
    def workers(self) -> str:
        """The Job of the workers, and their Service."""
        return f"{self.name}-workers"

    @property
    def end(self) -> str:
        """The Job that ends the servers, and what it needs."""
        return f"{self.name}-end"

    def labels(self, component: str) -> dict[str, str]:
        """Return the labels of an object; those of the user come first and do not replace any."""
        return {
            **self.options.labels,
            "app.kubernetes.io/name": "fleetrec",
            "app.kubernetes.io/managed-by": "fleetrec",
            **self.selector(component),
        }

    def selector(self, component: str) -> dict[str, str]:
        """Return the labels by which the pods of a component are found."""
        return {INSTANCE: self.name, COMPONENT: component}

    def metadata(self, name: str, component: str) -> Object:
        """Return the metadata of an object."""
        return {
            "name": name,
            "namespace": self.options.namespace,
            "labels": self.labels(component),
        }

    def make(self, kind: str, name: str, component: str, **content: Any) -> Object:
        """Return an object; ``kind`` is written ``apps/v1/StatefulSet``."""
        version, _, bare_kind = kind.rpartition("/")
        return {
            "apiVersion": version,
            "kind": bare_kind,
            "metadata": self.metadata(name, component),
            **content,
        }


def without_nothing(given: Mapping[str, Any]) -> Object:
    """Return a mapping without the entries that say nothing."""
    return {name: value for name, value in given.items() if value not in (None, {}, [], ())}
