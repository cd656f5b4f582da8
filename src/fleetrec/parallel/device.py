"""The one place that decides where tensors live."""

import logging
from collections.abc import Sequence

import torch

from fleetrec.config.job import DeviceOptions, RunOptions
from fleetrec.core.errors import UnavailableError
from fleetrec.nn.matmul import uses_tiles

logger = logging.getLogger(__name__)


def resolve_device(options: DeviceOptions, *, local_index: int = 0) -> torch.device:
    """Return the device of a process, which is one of several on its machine, or say why not."""
    if options.kind == "cpu":
        if options.matmul_precision != "highest" and not uses_tiles():
            logger.warning(
                "matmul_precision: %s changes nothing: there are no tiles (AMX) here",
                options.matmul_precision,
            )
        return torch.device("cpu")
    wanted = options.gpus[local_index % len(options.gpus)]
    if wanted >= num_gpus():
        raise UnavailableError(f"device: gpu asks for GPU {wanted}{_no_such_gpu()}")
    return torch.device("cuda", wanted)


def num_gpus() -> int:
    """Return how many GPUs PyTorch can use on this machine."""
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def check_gpus(num_processes: Sequence[tuple[RunOptions, int]]) -> None:
    """Refuse runs for GPUs that are not here: all of them at once, before the first run trains.

    With each run comes how many of its processes are on this machine.
    """
    present = num_gpus()
    missing = {
        run.name: [gpu for gpu in _gpus_of(run.device, count) if gpu >= present]
        for run, count in num_processes
    }
    asked = [
        f"runner {name}: device: gpu asks for GPU {', '.join(map(str, gpus))}"
        for name, gpus in missing.items()
        if gpus
    ]
    if asked:
        raise UnavailableError(f"{'; '.join(asked)}{_no_such_gpu()}")


def _gpus_of(options: DeviceOptions, num_processes: int) -> list[int]:
    """Return the GPUs that processes use on this machine."""
    if options.kind == "cpu":
        return []
    gpus = options.gpus
    return sorted({gpus[index % len(gpus)] for index in range(num_processes)})


def _no_such_gpu() -> str:
    present = num_gpus()
    found = f"{present} GPU(s)" if present else "no GPU"
    return (
        f", but PyTorch finds {found} here; use device: cpu, "
        "or install a CUDA build of PyTorch on a machine with a GPU"
    )
