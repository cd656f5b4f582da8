"""What a run must have in common with the one that wrote a checkpoint to resume from it."""

from collections.abc import Iterator, Mapping
from typing import Any

from fleetrec.config.job import RunOptions, UpdateOptions

_FREE_IN_DATASET = ("data_path", "more_paths", "thread_num", "kind", "name")  # a folder may move


def resume_signature(run: RunOptions) -> dict[str, Any]:
    """Return the options that the weights of a run depend on."""
    plain = run.to_plain()
    signature = {
        "seed": plain["seed"],
        "frozen": plain["warm_start"]["frozen"],
        "phases": [_phase_signature(phase) for phase in plain["phases"]],
    }
    precision = plain["device"]["matmul_precision"]
    return signature if precision == "highest" else {**signature, "matmul_precision": precision}


def signature_differences(
    before: Mapping[str, Any], now: Mapping[str, Any], *, url: str
) -> list[str]:
    """Return in words what is not the same ``now`` as in the checkpoint ``url``."""
    old, new = dict(_leaves(before, "")), dict(_leaves(now, ""))
    changed = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
    return [
        f"{key} was {old.get(key)!r} when {url} was written, now it is {new.get(key)!r}"
        for key in changed
    ]


def _phase_signature(phase: Mapping[str, Any]) -> dict[str, Any]:
    signature = {
        "name": phase["name"],
        "model": phase["model"],
        "optimizer": phase["optimizer"],
        "dataset": {k: v for k, v in phase["dataset"].items() if k not in _FREE_IN_DATASET},
    }
    # Defaults are left out, so that checkpoints from before there were these options still fit.
    if phase["update"] != UpdateOptions().to_plain():
        signature["update"] = phase["update"]
    if phase["tables"]:
        tables = phase["tables"].items()
        signature["tables"] = {
            name: {key: value for key, value in table.items() if key != "serving"}
            for name, table in tables
        }
    return signature


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{path}[{index}]")
    else:
        yield path, value
