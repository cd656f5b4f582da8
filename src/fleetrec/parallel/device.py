"""The one place that decides where tensors live."""

import logging

import torch

from fleetrec._native import has_tiles
from fleetrec.config.job import DeviceOptions
from fleetrec.core.errors import UnavailableError

logger = logging.getLogger(__name__)


def resolve_device(options: DeviceOptions, *, local_index: int = 0) -> torch.device:
    """Return the device of a process, which is one of several on its machine, or say why not."""
    if options.kind == "cpu":
        if options.matmul_precision != "highest" and not has_tiles():
            logger.warning(
                "matmul_precision: %s changes nothing: there are no tiles (AMX) here",
                options.matmul_precision,
            )
        return torch.device("cpu")
    num_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    wanted = options.gpus[local_index % len(options.gpus)]
    if wanted >= num_gpus:
        found = f"{num_gpus} GPU(s)" if num_gpus else "no GPU"
        raise UnavailableError(
            f"device: gpu asks for GPU {wanted}, but PyTorch finds {found} here; use device: cpu, "
            "or install a CUDA build of PyTorch on a machine with a GPU"
        )
    return torch.device("cuda", wanted)
