"""Jobs of every form for Kubernetes, and their manifests."""

from collections.abc import Iterator
from pathlib import Path

from fleetrec.config.cluster.kubernetes import KubernetesOptions
from fleetrec.launch.job_spec import RANK_MACRO, SERVER, WORKER, JobSpec, Resources, RoleSpec
from fleetrec.launch.kubernetes import KubernetesEngine
from fleetrec.launch.manifests.names import Naming
from fleetrec.launch.manifests.serving import ServedModel, serving_objects
from fleetrec.launch.manifests.yaml_text import to_yaml

COMMAND = ("python", "-m", "fleetrec.run", "-m", "config.yaml")
IMAGE = "registry.example/fleetrec:1"
PLACED = {
    "namespace": "ads",
    "image_pull_policy": "Always",
    "image_pull_secrets": ("registry",),
    "service_account": "trainer",
    "node_selector": {"pool": "cpu"},
    "tolerations": ({"key": "pool", "operator": "Exists"},),
    "priority_class": "high",
    "labels": {"team": "ads"},
    "claims": {"clicks": "/data"},
    "env_secrets": ("store-credentials",),
    "tls_secret": "ctr-tls",
    "storage": "50Gi",
    "storage_class": "fast",
    "ttl_s": 86_400,
}
GPU = {"shared_memory": "2Gi", "claims": {"clicks": "/data"}}


def ps_job(**server_env: str) -> JobSpec:
    """Servers and workers, with variables that need care."""
    server = RoleSpec(
        name=SERVER,
        replicas=2,
        command=COMMAND,
        env={"FLEETREC_STATE": f"servers/{RANK_MACRO}", **server_env},
        num_ports=1,
        resources=Resources(cpus=4, memory_bytes=16 << 30),
    )
    worker = RoleSpec(name=WORKER, replicas=3, command=COMMAND, resources=Resources(cpus=2))
    env = {"FLEETREC_TOKEN": "s3cret", "CPU_NUM": "2", "NOTE": "costs $(5) or 'yes'"}
    return JobSpec(name="ctr", env=env, roles=(server, worker))


def rank_job(*, gpus: int = 1) -> JobSpec:
    """Ranks, each with its GPUs."""
    resources = Resources(cpus=8, memory_bytes=32 << 30, gpus=gpus)
    worker = RoleSpec(
        name=WORKER, replicas=2, command=COMMAND, num_ports=1, restart="all", resources=resources
    )
    return JobSpec(name="ctr", roles=(worker,))


JOBS = {
    "plain_ps": (ps_job(NAME=f"server-{RANK_MACRO}", STORE_SECRET="hidden"), {}),
    "plain_ps_placed": (ps_job(), PLACED),
    "plain_ps_online": (ps_job(), {"long_running": True}),
    "plain_ranks": (rank_job(), GPU),
    "plain_ranks_online": (rank_job(), {"long_running": True}),
    "volcano_ps": (ps_job(), {"flavour": "volcano", "state_claim": "state", "queue": "ads"}),
    "volcano_ranks": (rank_job(), {"flavour": "volcano", **GPU}),
    "pytorchjob": (rank_job(gpus=2), {"flavour": "pytorchjob", **GPU}),
    "trainjob": (rank_job(), {"flavour": "trainjob", **GPU}),
}
STORE = {"AWS_SECRET_ACCESS_KEY": "hidden", "AWS_REGION": "eu"}
SERVED = {
    "serving": (
        ServedModel(
            model="s3://models/ctr/7", env={"AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": "eu"}
        ),
        {},
    ),
    "serving_followed": (
        ServedModel(follow="/data/online", replicas=3, resources=Resources(cpus=2)),
        {"tls_secret": "ctr-tls", "claims": {"clicks": "/data"}},
    ),
}
FORMS = (*JOBS, *SERVED)


def make_job_folder(parent: Path) -> Path:
    """A job folder with text, bytes, a program, a file in a folder, and a private one."""
    folder = parent / "PaddleRec_CTR_202007091308"
    (folder / "lists").mkdir(parents=True)
    (folder / "config.yaml").write_text("mode: train\nswitch: on \n")
    (folder / "reader.sh").write_text("#!/bin/sh\ncat\n")
    (folder / "reader.sh").chmod(0o755)
    (folder / "model.bin").write_bytes(b"\xff\x00\x01")
    (folder / "lists/cities.txt").write_text("rome\noslo\n")
    (folder / "backend.yaml").write_text("sk: never in a pod\n")
    (folder / ".hidden").write_text("x")
    (folder / "keys.txt").write_text("private\n")
    (folder / "keys.txt").chmod(0o600)
    return folder


def rendered(name: str, parent: Path) -> Iterator[tuple[str, str]]:
    """Return the manifests of a form by their file names."""
    if name in SERVED:
        served, keys = SERVED[name]
        naming = Naming(name="ctr", options=KubernetesOptions(image=IMAGE, **keys))
        secret, objects = serving_objects(naming, served, token="s3cret")
        yield "serving.yaml", to_yaml([secret, *objects])
        return
    job, keys = JOBS[name]
    engine = KubernetesEngine(KubernetesOptions(image=IMAGE, **keys))
    for path in engine.render(job, make_job_folder(parent / name)):
        yield path.name, path.read_text()
