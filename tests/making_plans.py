"""Workloads of round numbers."""

from typing import Any

from fleetrec.planning.workload import TableLoad, Workload


def make_table(**changes: Any) -> TableLoad:
    """A row has 4 weights and 8 numbers of state: 96 bytes."""
    given: dict[str, Any] = {
        "name": "item",
        "dim": 4,
        "num_state": 8,
        "num_rows": 1024,
        "is_estimated": False,
        "is_replicated": False,
        "ids_per_batch": 200.0,
        "different_ids_per_batch": 100.0,
    }
    return TableLoad(**{**given, **changes})


def make_workload(*tables: TableLoad, **changes: Any) -> Workload:
    given: dict[str, Any] = {
        "batch_size": 50,
        "tables": tables,
        "num_parameters": 1000,
        "dense_bytes": 16000,
        "batch_bytes": 5000,
    }
    return Workload(**{**given, **changes})
