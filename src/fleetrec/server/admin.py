"""Admin requests: load, dump, stats, clear, dense state."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import numpy as np
import torch
from pydantic import ValidationError

from fleetrec.embedding.record import StoredTable
from fleetrec.server.dense import NUM_STEPS, WEIGHTS
from fleetrec.server.shard import Shard
from fleetrec.server.wire import Array, Kind, Message, WireError, json_array


def dense(shard: Shard, _: Message) -> Message:
    """Return the weights and optimizer state of the dense part."""
    return Message(kind=Kind.OK, arrays=dense_arrays(shard.dense.state()))


def dense_arrays(state: Mapping[str, torch.Tensor]) -> list[Array]:
    """Return the keys of a dense state, then its values."""
    arrays = [np.atleast_1d(value.numpy()).astype(np.float32) for value in state.values()]
    return [json_array([*state]), *arrays]


def dump(shard: Shard, message: Message) -> Message:
    """Return the ids and rows of a table."""
    snapshot = shard.stores[_require_table(shard, message.text())].table.snapshot()
    return Message(kind=Kind.OK, arrays=[snapshot["ids"], snapshot["rows"]])


def stats(shard: Shard, _: Message) -> Message:
    """Return statistics of every table, and the model."""
    content = {
        "tables": shard.stats(),
        "model": shard.model.to_plain(),
    }
    return Message(kind=Kind.OK, arrays=[json_array(content)])


def load(shard: Shard, message: Message) -> None:
    """Load this server's shards of tables from files."""
    with field_errors():
        request = message.json()
        tables = [StoredTable.from_plain(table) for table in request["tables"]]
        exactly = bool(request["exactly"])
    for stored in tables:
        _require_table(shard, stored.name)
        shard.load_table(stored, exactly=exactly)


def clear(shard: Shard, _: Message) -> None:
    """Delete all rows."""
    shard.clear()


def set_dense(shard: Shard, message: Message) -> None:
    """Replace the weights and optimizer state of the dense part."""
    state: dict[str, torch.Tensor] = {}
    with field_errors():
        for index, key in enumerate(message.json(), start=1):
            state[str(key)] = torch.from_numpy(message.array(index, np.float32).copy())
    size = len(shard.dense)
    if WEIGHTS not in state or len(state[WEIGHTS]) != size:
        raise WireError(f"expected {size} dense weights")
    segments = shard.model.dense_segments(shard.table_shard)
    sizes = {str(index): last - first for index, first, last in segments}
    for key in state.keys() - {WEIGHTS, NUM_STEPS}:
        optimizer, _, slot = key.partition("/")
        if not slot or (optimizer in sizes and len(state[key]) not in (1, sizes[optimizer])):
            raise WireError(
                f"expected <optimizer>/<slot> with one value, or one per weight, got {key}"
            )
        if slot == "step":
            state[key] = state[key][:1].reshape(())
    shard.dense.load(state)


READS: Mapping[Kind, Callable[[Shard, Message], Message]] = MappingProxyType(
    {Kind.DENSE: dense, Kind.DUMP: dump, Kind.STATS: stats}
)
WRITES: Mapping[Kind, Callable[[Shard, Message], None]] = MappingProxyType(
    {Kind.LOAD: load, Kind.CLEAR: clear, Kind.SET_DENSE: set_dense}
)


@contextlib.contextmanager
def field_errors() -> Iterator[None]:
    """Turn a missing or wrong field into a WireError."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValidationError) as error:
        raise WireError(f"a field is missing or wrong: {error}") from error


def _require_table(shard: Shard, name: str) -> str:
    if name not in shard.stores:
        raise WireError(f"no table is called {name!r}")
    return name
