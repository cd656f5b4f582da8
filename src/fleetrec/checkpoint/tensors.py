"""Tensors in the files of a published folder: safetensors, never pickle."""

from collections.abc import Mapping

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from fleetrec.checkpoint.folder import Folder
from fleetrec.core.errors import CheckpointError

SUFFIX = ".safetensors"


def encode_tensors(groups: Mapping[str, Mapping[str, Tensor]]) -> dict[str, bytes]:
    """Return the contents of one file per group; a group is named by its path without suffix."""
    return {
        f"{path}{SUFFIX}": save({name: t.cpu().contiguous() for name, t in group.items()})
        for path, group in groups.items()
    }


def read_tensors(folder: Folder, part: str) -> dict[str, dict[str, Tensor]]:
    """Return all groups of a part (a sub-folder), each file checked against its checksum."""
    prefix = f"{part}/"
    names = [n for n in folder.files if n.startswith(prefix) and n.endswith(SUFFIX)]
    try:
        return {
            name.removeprefix(prefix).removesuffix(SUFFIX): load(folder.read_bytes(name))
            for name in names
        }
    except SafetensorError as error:
        raise CheckpointError(f"{folder.path / part}: damaged: {error}") from error
