"""A model that is served without files, and real server processes."""

import contextlib
import dataclasses
import http.client
import json
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np

from fleetrec.core.env import environment_with
from fleetrec.export.manifest import FeedEntry, GraphEntry, GroupEntry, ModelManifest, SequenceEntry
from fleetrec.export.predictor import Answer
from fleetrec.serving.model_source import LoadedModel
from fleetrec.serving.signature import Signature

DEADLINE_S = 60.0


class SumPredictor:
    """Keeps the contract of a predictor; ``predict`` is the sum of ids x weights and numbers."""

    def __init__(self, *, dense=None, ids=("user", "item"), sequences=(), failure=None):
        dense = {"price": (1,)} if dense is None else dense
        feeds = [FeedEntry(name=n, kind="dense", shape=shape) for n, shape in dense.items()]
        feeds += [FeedEntry(name=name, kind="ids") for name in ids]
        entries = tuple(
            SequenceEntry(
                input=name, lengths=f"l_{name}", feature=name, table="t", max_length=max_length
            )
            for name, max_length in sequences
        )
        group = GroupEntry(input="embedded", dim=2, features=(), sequences=entries)
        graph = GraphEntry(
            name="model",
            file="model.onnx",
            feeds=tuple(feeds),
            fetches=("logit", "predict"),
            groups=(group,),
        )
        self.manifest = ModelManifest(
            type="base", graphs=(graph,), tables={}, fingerprint="0123456789abcdef"
        )
        self.num_rows = 3
        self.batches = []
        self.failure = failure

    @property
    def output_types(self):
        return {name: ("tensor(float)", [-1]) for name in ("logit", "predict")}

    def compute(self, ids, dense, fetches):
        self.batches.append(ids.num_rows)
        if self.failure is not None:
            self.failure(ids)
        weights = np.ones(len(ids.ids)) if ids.weights is None else ids.weights
        sums = [
            (ids.ids[a:b] * weights[a:b]).sum()
            for a, b in zip(ids.offsets[:-1], ids.offsets[1:], strict=True)
        ]
        total = np.array(sums, np.float32).reshape(len(ids.names), ids.num_rows).sum(0)
        for values in dense.values():
            total = total + values.reshape(ids.num_rows, -1).sum(1)
        outputs = {"logit": -total, "predict": total}
        return Answer(outputs={name: outputs[name] for name in fetches}, manifest=self.manifest)


def make_signature(predictor=None, *, max_samples=100, max_list=50):
    """Return the signature of a model with a dense feed `price` and ids `user` and `item`."""
    return Signature(predictor or SumPredictor(), max_samples=max_samples, max_list=max_list)


def make_loaded(predictor):
    """Return a model as a server loads it."""
    return LoadedModel(predictor=predictor, signature=make_signature(predictor))


@dataclasses.dataclass
class Reply:
    """A response of a server."""

    status: int
    headers: dict
    content: bytes

    @property
    def json(self):
        return json.loads(self.content)


@dataclasses.dataclass
class Served:
    """A server process."""

    child: subprocess.Popen
    port: int
    context: object = None
    token: str | None = None

    @property
    def pid(self):
        return self.child.pid

    def connect(self):
        if self.context is not None:
            return http.client.HTTPSConnection(
                "localhost", self.port, timeout=DEADLINE_S, context=self.context
            )
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)

    def ask(self, method, path, body=None, headers=None):
        """Send one request on a connection of its own."""
        with contextlib.closing(self.connect()) as connection:
            return ask(connection, method, path, body, self.headers() | (headers or {}))

    def headers(self):
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}

    def post(self, path, content, headers=None):
        return self.ask("POST", path, json.dumps(content).encode(), headers)

    def wait_until(self, condition, what):
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert self.child.poll() is None, "the server has ended"
            assert time.monotonic() < deadline, f"waited in vain: {what}"
            time.sleep(0.01)


def ask(connection, method, path, body=None, headers=None):
    """Send one request on a connection."""
    connection.request(method, path, body, headers or {})
    response = connection.getresponse()
    return Reply(response.status, dict(response.getheaders()), response.read())


def command(*arguments):
    return [sys.executable, "-m", "fleetrec", "serve", *map(str, arguments)]


@contextlib.contextmanager
def served(*arguments, token=None, context=None, output=None):
    """Serve on a free port; the server must end well when it is stopped."""
    env = environment_with({"FLEETREC_TOKEN": token or ""}, unless_set={})
    with subprocess.Popen(
        command(*arguments, "--port", 0), env=env, stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            first = child.stdout.readline()
            (port,) = re.findall(r" is served on https?://\S+:(\d+)$", first.strip())
            lines = [first]  # a pipe that is not read would stop the server once it is full
            reading = threading.Thread(target=lines.extend, args=(child.stdout,), daemon=True)
            reading.start()
            yield Served(child, int(port), context, token)
            child.send_signal(signal.SIGTERM)
            assert child.wait(timeout=DEADLINE_S) == 0
            reading.join()
            if output is not None:
                output.append("".join(lines))
        finally:
            child.kill()
