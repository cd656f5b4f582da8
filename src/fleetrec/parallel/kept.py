"""What servers keep for a worker: where its data stands, and what of its model is its own."""

import struct

from safetensors.torch import load, save
from torch import Tensor, nn

_LENGTH = struct.Struct("<I")


def join_kept(progress: bytes, model: nn.Module) -> bytes:
    """Put the progress of a worker and the buffers of its model (running means) together."""
    buffers = {name: buffer.detach().cpu().clone() for name, buffer in model.named_buffers()}
    saved = save(buffers) if buffers else b""
    return _LENGTH.pack(len(progress)) + progress + saved


def split_kept(kept: bytes) -> tuple[bytes, dict[str, Tensor]]:
    """Take apart what ``join_kept`` put together; nothing if there is nothing."""
    if not kept:
        return b"", {}
    (length,) = _LENGTH.unpack_from(kept)
    end = _LENGTH.size + length
    buffers = load(kept[end:]) if len(kept) > end else {}
    return kept[_LENGTH.size : end], buffers
