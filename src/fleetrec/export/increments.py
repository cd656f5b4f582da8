"""Changes of serving models as messages of a Kafka topic; docs/formats/increments.md.

The messages have the format of EasyRec's ``incr_save_config { kafka {} }``. No torch.
"""

# Shape suffixes: N ids, D width of a row.

import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError, UnavailableError
from fleetrec.core.stream_url import parse_url
from fleetrec.export.manifest import ModelManifest, open_model
from fleetrec.export.row_files import read_rows

Array = npt.NDArray[Any]

DENSE, SPARSE = 0, 1
MAX_BYTES = 900_000  # brokers take messages of 1 MB unless they are configured otherwise
SEND_S = 120
NAMES = "increments.json"


class IncrementSender:
    """Sends the rows and dense variables of published deltas to a topic.

    Tables and variables have numbers in messages; ``increments.json`` in ``folder`` has their
    names. After a crash, messages may be sent twice, which changes nothing: they hold values, not
    differences.
    """

    def __init__(self, url: str, *, folder: str) -> None:
        self._url = parse_url(url)
        self._folder = folder
        self._names = b""
        try:
            import confluent_kafka
        except ImportError as error:
            raise UnavailableError(
                f"{self._url.shown}: needs confluent-kafka; pip install 'fleetrec[kafka]'"
            ) from error
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self._url.hosts,
                "enable.idempotence": "true",  # keeps the order when a message is sent again
                "message.timeout.ms": str(SEND_S * 1000),
                "log_level": "0",
            }
        )

    def send(self, model_url: str, weights: Mapping[str, Array]) -> int:
        """Send a delta and wait until the brokers have it; returns the number of messages."""
        folder, manifest = open_model(model_url)
        assert manifest.version is not None, "serving models have a version"
        step = manifest.version.id
        tables, variables = sorted(manifest.tables), sorted(weights)
        self._write_names(manifest, weights)
        dense = dense_messages(step, [weights[name] for name in variables])
        blocks = (
            (number, ids_N, rows_ND)
            for number, name in enumerate(tables)
            for ids_N, rows_ND in read_rows(folder, manifest.tables[name])
        )
        count = self._send(f"dense_update_{step}", dense)
        return count + self._send(f"sparse_update_{step}", sparse_messages(step, blocks))

    def _send(self, key: str, messages: Iterable[bytes]) -> int:
        failures: list[str] = []

        def note(error: Any, _message: Any) -> None:
            if error is not None:
                failures.append(" ".join(error.str().split()))

        count = 0
        for message in messages:
            self._producer.produce(self._url.topic, value=message, key=key, on_delivery=note)
            if self._producer.flush(SEND_S + 1):  # the message may be given up a little late
                failures.append(f"no broker has taken it in {SEND_S} s")
            count += 1
            if failures:
                raise CheckpointError(
                    f"{self._url.shown}: cannot send {key}, a message of {len(message)} bytes: "
                    f"{failures[0]}"
                )
        return count

    def _write_names(self, manifest: ModelManifest, weights: Mapping[str, Array]) -> None:
        tables = {name: manifest.tables[name].dim for name in sorted(manifest.tables)}
        shapes = {name: list(weights[name].shape) for name in sorted(weights)}
        names = {
            "format_version": 1,
            "tables": [{"name": name, "dim": dim} for name, dim in tables.items()],
            "variables": [{"name": name, "shape": shape} for name, shape in shapes.items()],
        }
        content = (json.dumps(names, indent=1) + "\n").encode()
        if content != self._names:
            storage.write_bytes(storage.join(self._folder, NAMES), content)
            self._names = content


def dense_messages(
    step: int, variables: Sequence[Array], *, max_bytes: int = MAX_BYTES
) -> Iterator[bytes]:
    """Yield messages of variables, whose places in the sequence are their numbers."""
    waiting: list[tuple[int, bytes]] = []
    for number, variable in enumerate(variables):
        content = np.ascontiguousarray(variable, dtype="<f4").tobytes()
        if waiting and sum(len(one) for _, one in waiting) + len(content) > max_bytes:
            yield _dense(step, waiting)
            waiting = []
        waiting.append((number, content))
    if waiting:
        yield _dense(step, waiting)


def sparse_messages(
    step: int, blocks: Iterable[tuple[int, Array, Array]], *, max_bytes: int = MAX_BYTES
) -> Iterator[bytes]:
    """Yield messages of rows; a block is the number of a table, ids_N and rows_ND."""
    for number, ids_N, rows_ND in blocks:
        size = max(1, max_bytes // (8 + 4 * rows_ND.shape[1]))
        for begin in range(0, len(ids_N), size):
            part = slice(begin, begin + size)
            ids = np.ascontiguousarray(ids_N[part]).view("<i8")
            rows = np.ascontiguousarray(rows_ND[part], dtype="<f4")
            header = struct.pack("<5i", SPARSE, 1, step, number, len(ids))
            yield header + ids.tobytes() + rows.tobytes()


def _dense(step: int, variables: Sequence[tuple[int, bytes]]) -> bytes:
    places = [word for number, content in variables for word in (number, len(content) // 4)]
    header = struct.pack(f"<{3 + len(places)}i", DENSE, len(variables), step, *places)
    return header + b"".join(content for _, content in variables)
