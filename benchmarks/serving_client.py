"""The client of benchmarks/serving.py: sends the same binary requests on several connections."""

import json
import socket
import sys
import threading
import time
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.criteo_like import DENSE, NUM_DENSE, SPARSE

BATCH_SIZE = 64
NUM_IDS = 200_000
NUM_CONNECTIONS = 4
WARM_UP_S = 1.0


def make_request(seed: int) -> bytes:
    """Return a whole HTTP request with binary tensors."""
    rng = np.random.default_rng(seed)
    tensors: list[tuple[str, str, npt.NDArray[Any]]]
    tensors = [(DENSE, "FP32", rng.normal(size=(BATCH_SIZE, NUM_DENSE)).astype(np.float32))]
    tensors += [(slot, "INT64", rng.integers(0, NUM_IDS, (BATCH_SIZE, 1))) for slot in SPARSE]
    inputs = [
        {
            "name": name,
            "datatype": kind,
            "shape": values.shape,
            "parameters": {"binary_data_size": values.nbytes},
        }
        for name, kind, values in tensors
    ]
    outputs = [{"name": "predict", "parameters": {"binary_data": True}}]
    header = json.dumps({"inputs": inputs, "outputs": outputs}).encode()
    body = header + b"".join(values.tobytes() for _, _, values in tensors)
    lines = (
        "POST /v2/models/model/infer HTTP/1.1",
        "Host: localhost",
        f"Content-Length: {len(body)}",
        f"Inference-Header-Content-Length: {len(header)}",
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def ask(connection: socket.socket, request: bytes) -> None:
    """Send a request and read its response."""
    connection.sendall(request)
    content = connection.recv(65_536)
    while b"\r\n\r\n" not in content:
        content += connection.recv(65_536)
    head, _, body = content.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"expected 200, got {head!r} {body!r}")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65_536)


def main(port: int, seconds: float) -> None:
    """Print latencies in seconds, and how long it took."""
    latencies: list[list[float]] = [[] for _ in range(NUM_CONNECTIONS)]
    begin = time.perf_counter() + WARM_UP_S
    end = begin + seconds

    def work(number: int) -> None:
        requests = [make_request(number * 100 + turn) for turn in range(20)]
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            turn = 0
            while (start := time.perf_counter()) < end:
                ask(connection, requests[turn % len(requests)])
                turn += 1
                if start >= begin:
                    latencies[number].append(time.perf_counter() - start)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(NUM_CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"seconds": seconds, "latencies": [one for its in latencies for one in its]}))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
