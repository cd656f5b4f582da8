"""Copies of batches to the device that computes, and of gradients back."""

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from fleetrec.core.batch import Batch

Vectors = Mapping[str, Tensor]


class Transfer(Protocol):
    """Copies looked-up vectors to the device of the model, and their gradients back."""

    def send(self, batch: Batch, vectors: Vectors) -> Batch:
        """Return the batch with the vectors in it, where the model computes."""
        ...

    def copy_gradients_back(self, sent: Batch, vectors: Vectors) -> None:
        """Set the gradients of the vectors to those of the sent batch."""
        ...


def transfer_to(device: torch.device) -> Transfer:
    """Return what copies from main memory to a device."""
    return NoTransfer() if device.type == "cpu" else StagedTransfer(device)


class NoTransfer:
    """No copy: the model computes where the tables are."""

    def send(self, batch: Batch, vectors: Vectors) -> Batch:
        """Return the batch with the vectors themselves."""
        return batch.with_embedded(vectors)

    def copy_gradients_back(self, sent: Batch, vectors: Vectors) -> None:
        """Do nothing: the gradients are there."""


class StagedTransfer:
    """Copies through buffers in main memory that are used again in every step.

    For a GPU they are pinned, and a stream of their own carries the copies, so that this thread
    continues at once. Streams belong to CUDA; any other device is copied to in order.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._buffers: dict[str, Tensor] = {}
        is_cuda = device.type == "cuda"
        self._stream = torch.cuda.Stream(device) if is_cuda else None  # type: ignore[no-untyped-call]
        self._sent: torch.cuda.Event | None = None

    def send(self, batch: Batch, vectors: Vectors) -> Batch:
        """Return copies of batch and vectors; nothing of them is shared with the originals."""
        if self._sent is not None:
            self._sent.synchronize()  # until then the buffers hold the batch before
        if self._stream is None:
            return self._copied(batch, vectors)
        computing = torch.cuda.current_stream(self._device)
        with torch.cuda.stream(self._stream):
            sent = self._copied(batch, vectors)
            self._sent = self._stream.record_event()
        computing.wait_stream(self._stream)
        for tensor in sent.tensors().values():
            tensor.record_stream(computing)
        return sent

    def copy_gradients_back(self, sent: Batch, vectors: Vectors) -> None:
        """Copy the gradients into buffers, which hold them until the next call."""
        for name, vector in vectors.items():
            grad = sent.embedded[name].grad
            if grad is not None:
                vector.grad = self._buffer(f"gradient of {name}", grad)
                vector.grad.copy_(grad, non_blocking=True)
        if self._stream is not None:
            torch.cuda.current_stream(self._device).synchronize()

    def _copied(self, batch: Batch, vectors: Vectors) -> Batch:
        return batch.with_embedded(vectors).map_tensors(self._copy)

    def _copy(self, name: str, source: Tensor) -> Tensor:
        staged = self._buffer(name, source)
        staged.copy_(source.detach())
        sent = staged.to(self._device, non_blocking=True, copy=True)
        return sent.requires_grad_(source.requires_grad)

    def _buffer(self, name: str, like: Tensor) -> Tensor:
        """Return memory shaped like a tensor, that of the last call if it is large enough."""
        buffer = self._buffers.get(name)
        if buffer is None or buffer.dtype != like.dtype or buffer.numel() < like.numel():
            is_pinned = self._stream is not None
            buffer = torch.empty(like.numel(), dtype=like.dtype, pin_memory=is_pinned)
            self._buffers[name] = buffer
        return buffer[: like.numel()].view(like.shape)
