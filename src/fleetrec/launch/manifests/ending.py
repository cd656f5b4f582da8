"""What ends the servers when the workers have ended: a StatefulSet has no end of its own."""

from fleetrec.launch.manifests.names import Object, without_nothing
from fleetrec.launch.manifests.pods import PodContext

CREDENTIALS = "/fleetrec/credentials"
API = "https://kubernetes.default.svc"
TOKEN_S = 3600  # its file is renewed before that
TTL_S = 600
NEEDED_BYTES = 96 << 20
MAX_RESTARTS = 20


def ending_objects(context: PodContext) -> list[Object]:
    """Return a small Job that waits for the workers, and what permits it to end the servers."""
    naming = context.naming
    namespace = naming.options.namespace
    return [
        naming.make("v1/ServiceAccount", naming.end, "end", automountServiceAccountToken=False),
        naming.make(
            "rbac.authorization.k8s.io/v1/Role",
            naming.end,
            "end",
            rules=[
                _rule("batch", "jobs", naming.workers, ("get",)),
                _rule("apps", "statefulsets", naming.servers, ("delete",)),
                _rule("apps", "statefulsets/scale", naming.servers, ("patch",)),
            ],
        ),
        naming.make(
            "rbac.authorization.k8s.io/v1/RoleBinding",
            naming.end,
            "end",
            roleRef={
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "Role",
                "name": naming.end,
            },
            subjects=[{"kind": "ServiceAccount", "name": naming.end, "namespace": namespace}],
        ),
        naming.make(
            "batch/v1/Job",
            naming.end,
            "end",
            spec={
                "backoffLimit": MAX_RESTARTS,
                "ttlSecondsAfterFinished": TTL_S,
                "template": _template(context),
            },
        ),
    ]


def _rule(group: str, resource: str, name: str, verbs: tuple[str, ...]) -> Object:
    return {
        "apiGroups": [group],
        "resources": [resource],
        "resourceNames": [name],
        "verbs": list(verbs),
    }


def _template(context: PodContext) -> Object:
    naming = context.naming
    options = naming.options
    command = [
        "python",
        "-m",
        "fleetrec.launch.end_servers",
        f"--api={API}",
        f"--credentials={CREDENTIALS}",
        f"--workers={naming.workers}",
        f"--servers={naming.servers}",
    ]
    amounts = {"cpu": "20m", "memory": str(NEEDED_BYTES)}
    return {
        "metadata": {"labels": naming.labels("end")},
        "spec": without_nothing(
            {
                "restartPolicy": "OnFailure",
                "serviceAccountName": naming.end,
                "automountServiceAccountToken": False,
                "imagePullSecrets": [{"name": name} for name in options.image_pull_secrets],
                "nodeSelector": options.node_selector,
                "tolerations": [dict(toleration) for toleration in options.tolerations],
                "priorityClassName": options.priority_class,
                "containers": [
                    without_nothing(
                        {
                            "name": "end",
                            "image": options.image,
                            "imagePullPolicy": options.image_pull_policy,
                            "command": command,
                            "resources": {"requests": amounts, "limits": dict(amounts)},
                            "volumeMounts": [
                                {
                                    "name": "credentials",
                                    "mountPath": CREDENTIALS,
                                    "readOnly": True,
                                }
                            ],
                        }
                    )
                ],
                "volumes": [_credentials()],
            }
        ),
    }


def _credentials() -> Object:
    """Return the volume with the token of the account, its namespace and the API's certificate."""
    return {
        "name": "credentials",
        "projected": {
            "defaultMode": 0o444,
            "sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_S}},
                {
                    "configMap": {
                        "name": "kube-root-ca.crt",
                        "items": [{"key": "ca.crt", "path": "ca.crt"}],
                    }
                },
                {
                    "downwardAPI": {
                        "items": [
                            {
                                "path": "namespace",
                                "fieldRef": {"fieldPath": "metadata.namespace"},
                            }
                        ]
                    }
                },
            ],
        },
    }
