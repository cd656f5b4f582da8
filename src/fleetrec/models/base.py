"""What every model is."""

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fleetrec.config.job import OptimizerOptions
from fleetrec.config.options import Options
from fleetrec.core.batch import Batch
from fleetrec.embedding.collection import EmbeddingCollection
from fleetrec.tasks.task import Outputs, Task


class Model(nn.Module):
    """Maps a batch to named outputs; knows no loop, no reader, no rank, no device.

    A subclass declares its own ``Config`` (the ``hyper_parameters`` it understands, all with
    defaults), builds its layers from ``(config, inputs=...)`` and says which tasks it learns.
    """

    class Config(Options):
        """Hyper-parameters of a model."""

    def __init__(self, *, tasks: Sequence[Task]) -> None:
        super().__init__()
        self.tasks = tuple(tasks)

    @abstractmethod
    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return named outputs, the first dimension of each being the samples."""

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return what is minimised: the sum over the tasks, unless a model adds to it."""
        losses = [task.loss(outputs, batch) for task in self.tasks]
        return torch.stack(losses).sum() if len(losses) > 1 else losses[0]

    def embedding_collection(self) -> EmbeddingCollection:
        """Return the embeddings of the model; an empty collection if it has none."""
        found = [m for m in self.modules() if isinstance(m, EmbeddingCollection)]
        if len(found) > 1:
            raise ValueError("a model has one EmbeddingCollection; it may hold many tables")
        return found[0] if found else EmbeddingCollection(features=(), tables=())

    def optimizer_of(self, variable: str, *, num_optimizers: int) -> int:
        """Return which of several optimizers moves a variable: the first tables, the last others.

        ``variable`` is the name of a parameter or of a table.
        """
        is_table = variable in self.embedding_collection().tables
        return 0 if is_table else num_optimizers - 1

    def variable_name(self, variable: str) -> str:
        """Return the name by which users know a parameter or a table."""
        return variable

    def optimizer(self, configured: OptimizerOptions | None) -> OptimizerOptions:
        """Return how to optimise: as the job says, unless a model knows better."""
        return configured or OptimizerOptions()
