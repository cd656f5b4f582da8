"""Requests about all that a server holds: saving, loading, looking at it."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import numpy as np
import torch
from pydantic import ValidationError

from fleetrec.checkpoint.staging import Staging
from fleetrec.core.faults import reach
from fleetrec.embedding.record import StoredTable
from fleetrec.server.dense import WEIGHTS
from fleetrec.server.shard import Shard
from fleetrec.server.wire import Kind, Message, WireError, as_bytes


def save(shard: Shard, message: Message) -> Message:
    """Write this server's files of tables into a folder that another process has begun."""
    with _wrong_fields():
        wanted = message.plain()
        staging, folder = Staging.open(str(wanted["staging"])), str(wanted["folder"])
        written = {}
        for name, (count, version) in wanted["tables"].items():
            with staging.folder(f"{folder}/{name}") as directory:
                written[name] = shard.write_table(
                    name, directory, shards_each=count, version=version
                )
            reach("save")
    return Message(kind=Kind.OK, arrays=[as_bytes({"tables": written, "stats": shard.stats()})])


def dense(shard: Shard, _: Message) -> Message:
    """Return weights and optimizer state of the dense part."""
    state = {key: value.numpy() for key, value in shard.dense.state().items()}
    arrays = [np.atleast_1d(value).astype(np.float32) for value in state.values()]
    return Message(kind=Kind.OK, arrays=[as_bytes([*state]), *arrays])


def dump(shard: Shard, message: Message) -> Message:
    """Return ids and rows of a table."""
    taken = shard.stores[_known(shard, message.text())].table.snapshot()
    return Message(kind=Kind.OK, arrays=[taken["ids"], taken["rows"]])


def stats(shard: Shard, _: Message) -> Message:
    """Return figures of every table, and what is served."""
    told = {
        "tables": shard.stats(),
        "versions": shard.versions(),
        "model": shard.model.to_plain(),
    }
    return Message(kind=Kind.OK, arrays=[as_bytes(told)])


def load(shard: Shard, message: Message) -> None:
    """Take up this server's portion of tables from files."""
    with _wrong_fields():
        wanted = message.plain()
        tables = [StoredTable.from_plain(table) for table in wanted["tables"]]
        exactly = bool(wanted["exactly"])
    for stored in tables:
        _known(shard, stored.name)
        shard.load_table(stored, exactly=exactly)


def clear(shard: Shard, _: Message) -> None:
    """Forget all rows."""
    shard.clear()


def set_dense(shard: Shard, message: Message) -> None:
    """Replace weights and optimizer state of the dense part."""
    state: dict[str, torch.Tensor] = {}
    with _wrong_fields():
        for place, key in enumerate(message.plain()):
            state[str(key)] = torch.from_numpy(message.array(place + 1, np.float32).copy())
    size = len(shard.dense)
    if WEIGHTS not in state or len(state[WEIGHTS]) != size:
        raise WireError(f"expected {size} weights of the dense part")
    for key, value in state.items():
        if len(value) not in (1, size):
            raise WireError(f"expected one or {size} numbers of {key}, got {len(value)}")
        if key == "step":
            state[key] = value[:1].reshape(())
    shard.dense.load(state)


LOOKS: Mapping[Kind, Callable[[Shard, Message], Message]] = MappingProxyType(
    {Kind.SAVE: save, Kind.DENSE: dense, Kind.DUMP: dump, Kind.STATS: stats}
)
REPLACEMENTS: Mapping[Kind, Callable[[Shard, Message], None]] = MappingProxyType(
    {Kind.LOAD: load, Kind.CLEAR: clear, Kind.SET_DENSE: set_dense}
)


@contextlib.contextmanager
def _wrong_fields() -> Iterator[None]:
    """Say of plain data that lacks something, or has it wrong, that the message is wrong."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValidationError) as error:
        raise WireError(f"a field is missing or wrong: {error}") from error


def _known(shard: Shard, name: str) -> str:
    if name not in shard.stores:
        raise WireError(f"no table is called {name!r}")
    return name
