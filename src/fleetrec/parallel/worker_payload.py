"""What servers store for a worker with every step: its progress, and the buffers of its model."""

import struct
from collections.abc import Iterable, Sequence

from safetensors.torch import load, save
from torch import Tensor, nn

from fleetrec.core.progress import Progress

_LENGTH = struct.Struct("<I")


def encode_payload(progress: bytes, model: nn.Module) -> bytes:
    """Join the progress of a worker and the buffers of its model, such as running means."""
    buffers = {name: buffer.detach().cpu().clone() for name, buffer in model.named_buffers()}
    saved = save(buffers) if buffers else b""
    return _LENGTH.pack(len(progress)) + progress + saved


def decode_payload(payload: bytes) -> tuple[bytes, dict[str, Tensor]]:
    """Return progress and buffers of ``encode_payload``; nothing for an empty payload."""
    if not payload:
        return b"", {}
    (length,) = _LENGTH.unpack_from(payload)
    end = _LENGTH.size + length
    buffers = load(payload[end:]) if len(payload) > end else {}
    return payload[_LENGTH.size : end], buffers


def latest_progress(found: Iterable[bytes]) -> bytes:
    """Return the progress of the last step of a worker, of those stored with several models."""
    given = [one for one in found if one]
    return max(given, key=lambda one: Progress.from_bytes(one).step, default=b"")


def progress_within(stored: Sequence[bytes], rank: int, progress: Progress) -> Progress | None:
    """Return the progress of a worker in the pass of ``progress``; None if it has not begun.

    ``progress`` may be the beginning of the pass: the others are ahead of a chief that was killed.
    """
    if rank >= len(stored) or not stored[rank]:
        return None
    its = Progress.from_bytes(stored[rank])
    is_within = its.pass_index == progress.pass_index and its.cursor is not None
    return its if is_within else None
