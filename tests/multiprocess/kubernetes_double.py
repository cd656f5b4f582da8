"""A small cluster for tests: it reads manifests, and runs pods as processes of this machine.

It stands for the controllers of StatefulSets, Jobs and Deployments, for the kubelet, for DNS, and
for the few requests of the API that a job makes. Every pod has an address of its own below 127.
Names of pods and paths of volumes are replaced in commands and variables, as nothing here gives a
process its own names and folders.
"""

import base64
import contextlib
import dataclasses
import http.server
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from ruamel.yaml import YAML

from fleetrec.core.env import environment_with

API_NAME = "https://kubernetes.default.svc"
POLL_S = 0.1
PATH = re.compile(r"/apis/\w+/v1/namespaces/([\w-]+)/(\w+)/([\w-]+)(/\w+)?")
REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][\w.-]*)\)")
KEPT = ("HOME", "LANG", "LD_LIBRARY_PATH", "COVERAGE_PROCESS_START")


@dataclasses.dataclass
class Pod:
    name: str
    hostname: str
    subdomain: str
    ip: str
    owner: tuple[str, str]
    spec: dict
    labels: dict
    annotations: dict
    folder: Path
    claims: dict
    process: subprocess.Popen | None = None
    num_starts: int = 0
    phase: str = "Pending"
    is_deleted: bool = False

    @property
    def log(self):
        return self.folder / "log"

    def is_ready(self):
        probe = self.spec["containers"][0].get("readinessProbe")
        is_up = self.phase == "Running" and self.process.poll() is None
        return is_up and (probe is None or passes(probe, self.ip))


def passes(probe, ip):
    if "grpc" in probe:
        with grpc.insecure_channel(f"{ip}:{probe['grpc']['port']}") as channel:
            try:
                answer = health_pb2_grpc.HealthStub(channel).Check(
                    health_pb2.HealthCheckRequest(), timeout=2
                )
            except grpc.RpcError:
                return False
            return answer.status == health_pb2.HealthCheckResponse.SERVING
    got = probe["httpGet"]
    try:
        with urllib.request.urlopen(f"http://{ip}:{got['port']}{got['path']}", timeout=2) as answer:
            return answer.status == 200
    except OSError:
        return False


class Cluster:
    """Objects that were applied, and the pods that follow from them."""

    def __init__(self, folder, *, claims=None, variables=None):
        self.folder = folder
        self.objects = {}
        self.pods = []
        self.failures = {}
        self.token = secrets.token_hex(8)
        self.refused = []
        self.claims = claims or {}
        self._variables = variables or {}
        self._number = 0
        self._lock = threading.RLock()
        self._network = f"127.{os.getpid() % 200 + 20}.{secrets.randbelow(250) + 1}"
        handler = type("ClusterHandler", (Handler,), {"cluster": self})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.api = f"http://127.0.0.1:{self._server.server_port}"
        self._is_closed = threading.Event()
        self._threads = [
            threading.Thread(target=self._server.serve_forever),
            threading.Thread(target=self._control),
        ]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._is_closed.set()
        self._server.shutdown()
        for thread in self._threads:
            thread.join()
        self._server.server_close()
        for pod in self.pods:
            self._kill(pod)

    # What a user does with kubectl.

    def apply(self, folder):
        with self._lock:
            for item in read_manifests(folder):
                self.objects[item["kind"], item["metadata"]["name"]] = item

    def delete(self, path):
        for item in read_manifests(path):
            self.delete_object(item["kind"], item["metadata"]["name"])

    def delete_object(self, kind, name):
        with self._lock:
            found = self.objects.pop((kind, name), None)
            gone = [pod for pod in self.pods if pod.owner == (kind, name)]
            self.pods = [pod for pod in self.pods if pod.owner != (kind, name)]
        for pod in gone:
            self._end(pod)
        if found is not None and kind == "StatefulSet":
            policy = found["spec"].get("persistentVolumeClaimRetentionPolicy", {})
            if policy.get("whenDeleted") == "Delete":
                for claim in (self.folder / "claims").glob(f"*-{name}-*"):
                    shutil.rmtree(claim)
        return found

    def get(self, kind, name):
        with self._lock:
            item = self.objects.get((kind, name))
            if item is None:
                return None
            return {**item, "status": self._status(kind, name, item["spec"])}

    def patch(self, kind, name, spec):
        with self._lock:
            self.objects[kind, name]["spec"] |= spec

    def logs(self, selector):
        with self._lock:
            pods = [
                pod for pod in self.pods if all(pod.labels.get(k) == v for k, v in selector.items())
            ]
        return [
            f"[pod/{pod.name}/{pod.spec['containers'][0]['name']}] {line}"
            for pod in pods
            if pod.log.is_file()
            for line in pod.log.read_text(errors="replace").splitlines()
        ]

    def pods_of(self, name):
        with self._lock:
            return [pod for pod in self.pods if pod.owner[1] == name]

    # Controllers.

    def _control(self):
        while not self._is_closed.wait(POLL_S):
            with self._lock:
                for (kind, name), item in list(self.objects.items()):
                    if kind in ("StatefulSet", "Deployment", "Job"):
                        self._make_pods(kind, name, item)
                ended = [pod for pod in self.pods if self._is_surplus(pod)]
                self.pods = [pod for pod in self.pods if pod not in ended]
                for pod in self.pods:
                    self._tend(pod)
            for pod in ended:
                self._end(pod)

    def _is_surplus(self, pod):
        item = self.objects.get(pod.owner)
        if item is None:
            return True
        index = pod.labels.get("apps.kubernetes.io/pod-index")
        return index is not None and int(index) >= item["spec"]["replicas"]

    def _make_pods(self, kind, name, item):
        spec = item["spec"]
        count = spec["completions"] if "completions" in spec else spec.get("replicas", 1)
        have = {pod.hostname for pod in self.pods if pod.owner == (kind, name)}
        for index in range(count):
            hostname = f"{name}-{index}"
            if hostname not in have:
                self.pods.append(self._pod(kind, name, item, index))

    def _pod(self, kind, name, item, index):
        template = item["spec"]["template"]
        labels = dict(template["metadata"]["labels"])
        annotations = {}
        pod_name = f"{name}-{index}"
        subdomain = template["spec"].get("subdomain", "")
        if kind == "StatefulSet":
            labels["apps.kubernetes.io/pod-index"] = str(index)
            subdomain = item["spec"]["serviceName"]
        elif kind == "Job":
            pod_name += f"-{secrets.token_hex(3)}"
            if item["spec"].get("completionMode") == "Indexed":
                annotations["batch.kubernetes.io/job-completion-index"] = str(index)
        self._number += 1
        claims = {
            claim["metadata"]["name"]: self.folder
            / f"claims/{claim['metadata']['name']}-{name}-{index}"
            for claim in item["spec"].get("volumeClaimTemplates", ())
        }
        return Pod(
            name=pod_name,
            hostname=f"{name}-{index}",
            subdomain=subdomain,
            ip=f"{self._network}.{self._number + 1}",
            owner=(kind, name),
            spec=template["spec"],
            labels=labels,
            annotations=annotations,
            folder=self.folder / "pods" / pod_name,
            claims=claims,
        )

    # The kubelet.

    def _tend(self, pod):
        if pod.phase in ("Succeeded", "Failed"):
            return
        if pod.process is None:
            self._start(pod)
            return
        status = pod.process.poll()
        if status is None:
            return
        restart = pod.spec.get("restartPolicy", "Always")
        job = self.objects[pod.owner]
        if status == 0 and restart != "Always":
            pod.phase = "Succeeded"
        elif status == 0 or restart == "Always":
            self._start(pod)
        else:
            self.failures[pod.owner] = self.failures.get(pod.owner, 0) + 1
            if self.failures[pod.owner] > job["spec"].get("backoffLimit", 6):
                pod.phase = "Failed"
            elif restart == "OnFailure":
                self._start(pod)

    def _start(self, pod):
        (container,) = pod.spec["containers"]
        folders = {
            mount["mountPath"]: self._volume(pod, mount["name"])
            for mount in container.get("volumeMounts", ())
        }
        variables = self._environment(pod, container)

        def place(text):
            for path in sorted(folders, key=len, reverse=True):
                text = text.replace(path, str(folders[path]))
            for name, address in self._names().items():
                text = text.replace(name, address)
            return text

        command = [place(expand(part, variables)) for part in container["command"]]
        inherited = environment_with({}, unless_set={})
        environment = {name: inherited[name] for name in KEPT if name in inherited}
        environment["PATH"] = f"{Path(sys.executable).parent}:{inherited['PATH']}"
        environment |= {**self._variables, **{k: place(v) for k, v in variables.items()}}
        pod.folder.mkdir(parents=True, exist_ok=True)
        with pod.log.open("ab") as log:
            pod.process = subprocess.Popen(
                command,
                cwd=pod.folder,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        pod.num_starts += 1
        pod.phase = "Running"

    def _environment(self, pod, container):
        found = {}
        for variable in container.get("env", ()):
            name = variable["name"]
            if "value" in variable:
                found[name] = expand(variable["value"], found)
            elif "secretKeyRef" in variable["valueFrom"]:
                source = variable["valueFrom"]["secretKeyRef"]
                content = self.objects["Secret", source["name"]]["data"][source["key"]]
                found[name] = base64.b64decode(content).decode()
            else:
                found[name] = field_of(pod, variable["valueFrom"]["fieldRef"]["fieldPath"])
        for source in container.get("envFrom", ()):
            data = self.objects["Secret", source["secretRef"]["name"]]["data"]
            found |= {name: base64.b64decode(value).decode() for name, value in data.items()}
        return found

    def _volume(self, pod, name):
        if name in pod.claims:
            pod.claims[name].mkdir(parents=True, exist_ok=True)
            return pod.claims[name]
        volume = next(v for v in pod.spec["volumes"] if v["name"] == name)
        if "persistentVolumeClaim" in volume:
            return self.claims[volume["persistentVolumeClaim"]["claimName"]]
        folder = pod.folder / "volumes" / name
        folder.mkdir(parents=True, exist_ok=True)
        for source in volume.get("projected", {}).get("sources", ()):
            for path, content, mode in self._projected(pod, source):
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(content)
                (folder / path).chmod(mode)
        return folder

    def _projected(self, pod, source):
        if "serviceAccountToken" in source:
            account = pod.spec["serviceAccountName"]
            yield source["serviceAccountToken"]["path"], f"{self.token}:{account}".encode(), 0o644
        if "downwardAPI" in source:
            for item in source["downwardAPI"]["items"]:
                value = field_of(pod, item["fieldRef"]["fieldPath"])
                yield item["path"], value.encode(), 0o644
        for key, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
            given = source.get(key)
            if given is None or given["name"] == "kube-root-ca.crt":
                continue
            content = contents_of(self.objects[kind, given["name"]])
            for item in given["items"]:
                yield item["path"], content[item["key"]], item.get("mode", 0o644)

    def _names(self):
        """Names of pods that a headless Service gives, as DNS has them."""
        found = {API_NAME: self.api}
        for pod in self.pods:
            service = self.objects.get(("Service", pod.subdomain))
            if service is None or service["spec"].get("clusterIP") != "None":
                continue
            selector = service["spec"]["selector"]
            if all(pod.labels.get(name) == value for name, value in selector.items()):
                found[f"{pod.hostname}.{pod.subdomain}"] = pod.ip
        return found

    def _end(self, pod):
        pod.is_deleted = True
        if pod.process is None or pod.process.poll() is not None:
            return
        pod.process.terminate()
        try:
            pod.process.wait(pod.spec.get("terminationGracePeriodSeconds", 30))
        except subprocess.TimeoutExpired:
            self._kill(pod)

    def _kill(self, pod):
        if pod.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pod.process.pid, signal.SIGKILL)
        pod.process.wait()

    # What others ask for.

    def _status(self, kind, name, spec):
        pods = [pod for pod in self.pods if pod.owner == (kind, name)]
        phases = [pod.phase for pod in pods]
        if kind != "Job":
            ready = sum(pod.is_ready() for pod in pods)
            return {"replicas": len(pods), "readyReplicas": ready}
        conditions = []
        if "Failed" in phases:
            conditions = [
                {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"},
            ]
        elif phases and all(phase == "Succeeded" for phase in phases):
            conditions = [{"type": "Complete", "status": "True"}]
        active = phases.count("Running") + phases.count("Pending")
        ready = phases.count("Running")
        return {"conditions": conditions, "active": active, "ready": ready}

    def may(self, account, verb, resource, name):
        for (kind, _), binding in self.objects.items():
            if kind != "RoleBinding":
                continue
            if account in [subject["name"] for subject in binding["subjects"]]:
                role = self.objects["Role", binding["roleRef"]["name"]]
                for rule in role["rules"]:
                    if (
                        verb in rule["verbs"]
                        and resource in rule["resources"]
                        and name in rule["resourceNames"]
                    ):
                        return True
        self.refused.append((account, verb, resource, name))
        return False


class Handler(http.server.BaseHTTPRequestHandler):
    """The API of the cluster, for the pods of a job; and calls of the stand-in of kubectl."""

    cluster: Cluster

    def do_GET(self):
        self.answer("get")

    def do_PATCH(self):
        self.answer("patch")

    def do_DELETE(self):
        self.answer("delete")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.reply(200, getattr(self.cluster, body["call"])(*body["arguments"]))

    def answer(self, verb):
        token, _, account = self.headers["Authorization"][len("Bearer ") :].partition(":")
        namespace, resource, name, sub = PATH.fullmatch(self.path).groups(default="")
        kind = {"jobs": "Job", "statefulsets": "StatefulSet"}[resource]
        if token != self.cluster.token:
            self.reply(401, {})
        elif namespace != "default" or not self.cluster.may(account, verb, resource + sub, name):
            self.reply(403, {})
        elif self.cluster.get(kind, name) is None:
            self.reply(404, {})
        elif verb == "delete":
            self.reply(200, self.cluster.delete_object(kind, name))
        else:
            if verb == "patch":
                patch = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.cluster.patch(kind, name, patch["spec"])
            self.reply(200, self.cluster.get(kind, name))

    def reply(self, status, content):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Stay silent."""


def read_manifests(path):
    path = Path(path)
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    return [item for file in files for item in YAML(typ="safe").load_all(file.read_text())]


def contents_of(item):
    if item["kind"] == "Secret":
        return {name: base64.b64decode(value) for name, value in item["data"].items()}
    found = {name: value.encode() for name, value in item.get("data", {}).items()}
    binary = item.get("binaryData", {})
    return found | {name: base64.b64decode(value) for name, value in binary.items()}


def expand(text, variables):
    """Replace $(NAME) as Kubernetes does: unknown names stay, and $$ is a dollar sign."""

    def value(match):
        return "$" if match[0] == "$$" else variables.get(match[1], match[0])

    return REFERENCE.sub(value, text)


def field_of(pod, path):
    if path == "status.podIP":
        return pod.ip
    if path == "metadata.name":
        return pod.name
    if path == "metadata.namespace":
        return "default"
    kind, key = re.fullmatch(r"metadata\.(labels|annotations)\['(.*)'\]", path).groups()
    return getattr(pod, kind)[key]


def wait_for(condition, what, *, deadline_s=300):
    deadline = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(POLL_S)
