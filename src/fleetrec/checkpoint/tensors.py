"""Tensors in the files of a published folder: safetensors, never pickle."""

from collections.abc import Mapping

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from fleetrec.checkpoint.folder import Folder
from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError

SUFFIX = ".safetensors"


def encode_tensors(groups: Mapping[str, Mapping[str, Tensor]]) -> dict[str, bytes]:
    """Return the contents of one file per group; a group is named by its path without suffix."""
    return {
        f"{path}{SUFFIX}": save({name: _owned(t) for name, t in group.items()})
        for path, group in groups.items()
    }


def read_file(folder: Folder, path: str) -> dict[str, Tensor]:
    """Return one group, checked against its checksum."""
    try:
        return load(folder.read_bytes(f"{path}{SUFFIX}"))
    except SafetensorError as error:
        raise CheckpointError(f"{storage.shown(folder.url_of(path))}: damaged: {error}") from error


def read_tensors(folder: Folder, part: str) -> dict[str, dict[str, Tensor]]:
    """Return all groups of a part (a sub-folder), each file checked against its checksum."""
    prefix = f"{part}/"
    names = [n for n in folder.files if n.startswith(prefix) and n.endswith(SUFFIX)]
    paths = [name.removesuffix(SUFFIX) for name in names]
    return {path.removeprefix(prefix): read_file(folder, path) for path in paths}


def _owned(tensor: Tensor) -> Tensor:
    """Return the tensor alone in its memory: tied weights are written twice."""
    tensor = tensor.detach().cpu().contiguous()
    return tensor.clone()
