"""A model that is served: a Deployment, the Service before it, and its token."""

import dataclasses
from collections.abc import Mapping

from fleetrec.core.env import TOKEN
from fleetrec.launch.job_spec import Resources, RoleSpec
from fleetrec.launch.manifests.files import secret
from fleetrec.launch.manifests.names import Naming, Object
from fleetrec.launch.manifests.pods import POD_IP, TLS, PodContext, PodRole, pod_template

PORT = 8000
SERVICE_PORT = 80
LOAD_CHECKS, LOAD_PERIOD_S = 120, 5  # a model is first fetched and loaded


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """What is served: a model, or the newest one of a run that is followed."""

    model: str | None = None
    follow: str | None = None
    name: str = "model"
    replicas: int = 2
    resources: Resources = dataclasses.field(default_factory=Resources)
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)  # such as of its store

    def __post_init__(self) -> None:
        if (self.model is None) == (self.follow is None):
            raise ValueError("expected a model, or a run to follow")


def serving_objects(
    naming: Naming, served: ServedModel, *, token: str
) -> tuple[Object, list[Object]]:
    """Return the Secret of a served model, and its Service and Deployment.

    A pod gets requests when it has loaded its model, and as long as it answers.
    """
    tls_secret = naming.options.tls_secret
    role = RoleSpec(
        name="serving",
        replicas=served.replicas,
        command=_command(served, has_tls=tls_secret is not None),
        resources=served.resources,
    )
    context = PodContext(naming=naming, files=(), env={**served.env, TOKEN: token})
    scheme = {} if tls_secret is None else {"scheme": "HTTPS"}
    ready = {"httpGet": {"path": "/v2/health/ready", "port": PORT, **scheme}}
    live = {"httpGet": {"path": "/v2/health/live", "port": PORT, **scheme}}
    pod = PodRole(
        role=role,
        component="serving",
        command=role.command,
        script=f'exec "$@" --host "${POD_IP}"',
        place={},
        ports={"http": PORT},
        probes={
            "startupProbe": {
                **live,
                "periodSeconds": LOAD_PERIOD_S,
                "failureThreshold": LOAD_CHECKS,
            },
            "readinessProbe": {**ready, "periodSeconds": 5, "timeoutSeconds": 5},
            "livenessProbe": {**live, "periodSeconds": 20, "timeoutSeconds": 10},
        },
    )
    selector = naming.selector("serving")
    service = naming.make(
        "v1/Service",
        naming.name,
        "serving",
        spec={
            "selector": selector,
            "ports": [{"name": "http", "port": SERVICE_PORT, "targetPort": PORT}],
        },
    )
    deployment = naming.make(
        "apps/v1/Deployment",
        naming.name,
        "serving",
        spec={
            "replicas": served.replicas,
            "selector": {"matchLabels": selector},
            "strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "template": pod_template(context, pod),
        },
    )
    return secret(naming, (), context.secret_values([role])), [service, deployment]


def _command(served: ServedModel, *, has_tls: bool) -> tuple[str, ...]:
    source = (served.model,) if served.model is not None else ("--follow", str(served.follow))
    tls = ("--tls-certificate", f"{TLS}/tls.crt", "--tls-key", f"{TLS}/tls.key") if has_tls else ()
    return (
        *("python", "-m", "fleetrec.serve", *source, "--name", served.name),
        *("--port", str(PORT), *tls),
    )
