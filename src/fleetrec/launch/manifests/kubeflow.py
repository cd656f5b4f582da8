"""Jobs of Kubeflow's operators: ranks, without servers."""

from fleetrec.launch.job_spec import JobSpec
from fleetrec.launch.manifests.names import Object, without_nothing
from fleetrec.launch.manifests.pods import PodContext, pod_template
from fleetrec.launch.manifests.ranks import rank_pod, ranks_per_pod

MASTER_PORT = 23456
PATCHED = (
    "serviceAccountName",
    "imagePullSecrets",
    "nodeSelector",
    "tolerations",
    "terminationGracePeriodSeconds",
    "securityContext",
    "volumes",
)


def pytorch_job(context: PodContext, job: JobSpec) -> Object:
    """Return a PyTorchJob of the training operator."""
    naming, options = context.naming, context.naming.options
    workers = job.workers
    pod = rank_pod(
        context,
        workers,
        endpoint="$MASTER_ADDR:$MASTER_PORT",
        container="pytorch",  # the operator looks for this name
        ports={"pytorchjob-port": MASTER_PORT},
    )
    replica = {
        "restartPolicy": "Never" if workers.restart == "never" else "OnFailure",
        "template": pod_template(context, pod),
    }
    replicas = {"Master": {"replicas": 1, **replica}}
    if workers.replicas > 1:
        replicas["Worker"] = {"replicas": workers.replicas - 1, **replica}
    policy: Object = {
        "cleanPodPolicy": "None",
        "backoffLimit": options.max_restarts * workers.replicas,
    }
    if options.ttl_s is not None:
        policy["ttlSecondsAfterFinished"] = options.ttl_s
    return naming.make(
        "kubeflow.org/v1/PyTorchJob",
        naming.name,
        "workers",
        spec={"runPolicy": policy, "pytorchReplicaSpecs": replicas},
    )


def train_job(context: PodContext, job: JobSpec) -> Object:
    """Return a TrainJob of Kubeflow's Trainer, for a runtime of torch.

    The runtime is the template of its pods; what a TrainJob has no key for is a patch of it.
    """
    naming, options = context.naming, context.naming.options
    workers = job.workers
    endpoint = "$PET_MASTER_ADDR:$PET_MASTER_PORT"
    pod = rank_pod(context, workers, endpoint=endpoint, container="node", ports={})
    template = pod_template(context, pod)
    (container,) = template["spec"]["containers"]
    trainer = without_nothing(
        {
            "image": container["image"],
            "command": container["command"],
            "env": container["env"],
            "numNodes": workers.replicas,
            "numProcPerNode": ranks_per_pod(workers),
            "resourcesPerNode": container.get("resources"),
        }
    )
    return naming.make(
        "trainer.kubeflow.org/v1alpha1/TrainJob",
        naming.name,
        "workers",
        spec={
            "runtimeRef": {
                "apiGroup": "trainer.kubeflow.org",
                "kind": "ClusterTrainingRuntime",
                "name": options.runtime,
            },
            "trainer": trainer,
            "runtimePatches": [
                {
                    "manager": "fleetrec.io/submit",
                    "trainingRuntimeSpec": {
                        "template": {"spec": {"replicatedJobs": [_node_patch(template)]}}
                    },
                }
            ],
        },
    )


def _node_patch(template: Object) -> Object:
    """Return what pods need of a template that the keys of a trainer do not express."""
    spec = template["spec"]
    (container,) = spec["containers"]
    mounts = {"name": container["name"], "volumeMounts": container["volumeMounts"]}
    patched = {name: spec[name] for name in PATCHED if name in spec}
    patch = {"metadata": template["metadata"], "spec": {**patched, "containers": [mounts]}}
    return {"name": "node", "template": {"spec": {"template": patch}}}
