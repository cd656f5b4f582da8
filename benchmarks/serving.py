"""How fast ``fleetrec serve`` answers, compared with a loop of onnxruntime over the same graph.

The loop has looked-up vectors ready and computes with one thread, as the server does by default.
Requests are binary, from several connections of another process on the same machine.
"""

import contextlib
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]
import torch

from benchmarks.criteo_like import DENSE, NUM_DENSE, SPARSE
from benchmarks.figure import Figure, ratios
from benchmarks.job import EMBEDDING_DIM, dnn_phase
from benchmarks.serving_client import BATCH_SIZE, NUM_CONNECTIONS, NUM_IDS
from fleetrec.export.inference import GRAPH, plan_inference

SECONDS = 5.0
TARGET = 0.8
MAX_P99 = 3.0  # medians


def measure(parts: Sequence[Path], *, num_rounds: int) -> list[Figure]:
    """Measure in turns: the loop, the server."""
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        _write_model(model, parts[0])
        loop = _Loop(model / GRAPH)
        bare, served, medians, spreads = [], [], [], []
        for _ in range(num_rounds):
            bare.append(loop.samples_per_s())
            with _served(model) as port:
                found = _ask(port)
            latencies = np.array(found["latencies"])
            served.append(len(latencies) * BATCH_SIZE / found["seconds"])
            medians.append(float(np.median(latencies)))
            spreads.append(MAX_P99 * medians[-1] / float(np.quantile(latencies, 0.99)))
    return [
        Figure(name="serving: bare onnxruntime, 1 thread", unit="samples/s", values=bare),
        Figure(
            name=f"serving: batch {BATCH_SIZE}, {NUM_CONNECTIONS} connections",
            unit="samples/s",
            values=served,
            ratios=ratios(served, bare),
            target=TARGET,
        ),
        Figure(
            name=f"serving: median latency; {MAX_P99:g} medians over p99",
            unit="us",
            values=[one * 1e6 for one in medians],
            ratios=spreads,
            target=1.0,
        ),
    ]


def _write_model(folder: Path, part: Path) -> None:
    phase = dnn_phase(part, batch_size=BATCH_SIZE, num_ids=NUM_IDS)
    model = plan_inference(phase.model, phase.loader.inputs, feeds=(), fetches=("predict",))
    rng = np.random.default_rng(0)
    rows = {
        name: {
            "ids": torch.arange(NUM_IDS),
            "rows": torch.from_numpy(rng.normal(0, 0.1, (NUM_IDS, table.dim)).astype(np.float32)),
        }
        for name, table in phase.model.embedding_collection().tables.items()
    }
    model.write(folder, rows)


class _Loop:
    """Computes the same batch again and again."""

    def __init__(self, graph: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            graph.read_bytes(), options, providers=["CPUExecutionProvider"]
        )
        rng = np.random.default_rng(0)
        widths = {DENSE: NUM_DENSE}
        self._inputs = {
            node.name: rng.normal(
                size=(BATCH_SIZE, widths.get(node.name, len(SPARSE) * EMBEDDING_DIM))
            ).astype(np.float32)
            for node in self._session.get_inputs()
        }

    def samples_per_s(self) -> float:
        begin = time.perf_counter()
        num_batches = 0
        while time.perf_counter() - begin < SECONDS:
            self._session.run(["predict"], self._inputs)
            num_batches += 1
        return num_batches * BATCH_SIZE / (time.perf_counter() - begin)


@contextlib.contextmanager
def _served(model: Path) -> Iterator[int]:
    command = [sys.executable, "-m", "fleetrec.serve", str(model), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            found = re.search(r":(\d+)$", line.strip())
            if found is None:
                raise SystemExit(f"the server did not start: {line}")
            yield int(found[1])
        finally:
            server.terminate()
            server.communicate()


def _ask(port: int) -> dict[str, Any]:
    """Return the latencies that a client process has seen."""
    command = [sys.executable, "-m", "benchmarks.serving_client", str(port), str(SECONDS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
