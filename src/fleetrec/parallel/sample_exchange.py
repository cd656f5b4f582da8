"""Samples on their way between the workers of a process group."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor, distributed

from fleetrec.core.batch import Inputs, Side
from fleetrec.core.jagged import KeyedJagged
from fleetrec.data.block import Block, SlotCounts


class GroupExchange:
    """Passes blocks by ``torch.distributed``, as bytes of tensors: nothing in them can run code."""

    def __init__(self, group: distributed.ProcessGroup, *, inputs: Inputs) -> None:
        self._group = group
        self._inputs = inputs
        self.index = group.rank()
        self.count = group.size()

    def all_to_all(self, blocks: Sequence[Block]) -> list[Block]:
        """Send block i to worker i; returns what all workers sent here, in their order."""
        outgoing = [_encode(block) for block in blocks]
        sizes = torch.tensor([len(content) for content in outgoing])
        all_sizes = [torch.empty_like(sizes) for _ in range(self.count)]
        distributed.all_gather(all_sizes, sizes, group=self._group)
        incoming = [
            torch.empty(int(all_sizes[i][self.index]), dtype=torch.uint8) for i in range(self.count)
        ]
        incoming[self.index] = outgoing[self.index]
        waiting = []
        for other in range(self.count):
            if other != self.index:
                waiting.append(
                    distributed.isend(outgoing[other], group=self._group, group_dst=other)
                )
                waiting.append(
                    distributed.irecv(incoming[other], group=self._group, group_src=other)
                )
        for work in waiting:
            assert work is not None
            work.wait()
        return [_decode(content, self._inputs) for content in incoming]


def _encode(block: Block) -> Tensor:
    tensors = Side(ids=block.ids, dense=block.dense).tensors()
    content = save({name: tensor.contiguous() for name, tensor in tensors.items()})
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


def _decode(content: Tensor, inputs: Inputs) -> Block:
    tensors: Mapping[str, Tensor] = load(content.numpy().tobytes())
    num_columns = max(1, len(inputs.sparse))
    dense = {name: tensors[f"dense/{name}"] for name in inputs.dense}
    if inputs.sparse:
        num_samples = (len(tensors["offsets"]) - 1) // num_columns
    else:
        num_samples = len(next(iter(dense.values()), ()))
    return Block(
        ids=KeyedJagged(
            names=inputs.sparse,
            values_N=tensors["ids"],
            offsets=tensors["offsets"],
            num_samples=num_samples,
            weights_N=tensors.get("weights"),
        ),
        dense=dense,
        counts=SlotCounts(
            num_samples=0, seen=np.zeros(len(inputs.sparse) + len(inputs.dense), np.int64)
        ),
    )
