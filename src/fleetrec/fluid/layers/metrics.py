"""Metrics of predictions, computed over all samples of a pass, exactly over all workers."""

from typing import Any

import torch
from torch import Tensor

from fleetrec.core.errors import ConfigError
from fleetrec.fluid.graph import AucResult, Call, Variable, check_values, record
from fleetrec.fluid.missing import check_defaults
from fleetrec.tasks.binary_metric import NUM_BUCKETS


def accuracy(
    input: Variable,
    label: Variable,
    k: int = 1,
    correct: Variable | None = None,
    total: Variable | None = None,
) -> Variable:
    """Return the share of samples whose class is among the k most probable ones."""
    check_defaults("fluid.layers.accuracy", {"correct": (correct, None), "total": (total, None)})

    def compute(call: Call) -> Tensor:
        found, labels = call.inputs
        top = found.topk(min(k, found.shape[-1]), dim=-1).indices
        return (top == labels.to(torch.int64)).any(dim=-1).to(torch.float32).mean().reshape(1)

    return record("accuracy", [input, label], compute, labels=[label])


def auc(
    input: Variable,
    label: Variable,
    curve: str = "ROC",
    num_thresholds: int = 2**12 - 1,
    topk: int = 1,
    slide_steps: int = 1,
) -> tuple[Variable, Variable, list[Any]]:
    """Return the AUC of the pass, that since the last printed line, and no states.

    Args:
        input: Probabilities of two classes, or of the second one alone.
        label: 0 or 1.
        curve: ROC.
        num_thresholds: At most 65,536, the number that is used.
        topk: 1.
        slide_steps: The second AUC is that of the batches since the last printed line
            (``print_period``), whatever this number is.
    """
    del slide_steps
    where = "fluid.layers.auc"
    check_defaults(where, {"curve": (curve, "ROC"), "topk": (topk, 1)})
    check_values("auc", [input, label])
    if num_thresholds > NUM_BUCKETS:
        raise ConfigError([f"{where}: expected at most {NUM_BUCKETS} thresholds"])
    if len(input.shape) != 2 or input.shape[1] not in (1, 2):
        raise ConfigError(
            [f"{where}: expected probabilities of shape [-1, 2] or [-1, 1], got {input.shape}"]
        )
    program = input.program
    own = program.unique("auc")
    suffix = "" if own == "auc_0" else f"_{own}"
    examples = tuple(torch.empty(1, device="meta") for _ in input.examples)
    found = [
        program.add(
            f"{own}.tmp_{index}",
            AucResult(predictions=input, label=label, key=f"{prefix}AUC{suffix}"),
            examples,
        )
        for index, prefix in enumerate(("", "BATCH_"))
    ]
    return found[0], found[1], []
