"""The base class of models."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from fleetrec.config.job import OptimizerOptions
from fleetrec.config.options import Options
from fleetrec.core.batch import Batch
from fleetrec.embedding.collection import EmbeddingCollection
from fleetrec.models.towers import Tower
from fleetrec.tasks.task import Outputs, Task


def predictions(outputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the outputs that are for users; names of others begin with an underscore."""
    return {name: value for name, value in outputs.items() if not name.startswith("_")}


class Model(nn.Module):
    """Maps a batch to named outputs; independent of training loop, reader, rank and device.

    A subclass declares its own ``Config`` (the ``hyper_parameters`` it understands, all with
    defaults), builds its layers from ``(config, inputs=...)`` and declares its tasks.
    """

    class Config(Options):
        """Hyper-parameters of a model."""

    def __init__(self, *, tasks: Sequence[Task]) -> None:
        super().__init__()
        self.tasks = tuple(tasks)

    @abstractmethod
    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return named outputs; the first dimension of each is the batch."""

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the loss to minimise: the sum over the tasks; models may add to it."""
        losses = [task.loss(outputs, batch) for task in self.tasks]
        return torch.stack(losses).sum() if len(losses) > 1 else losses[0]

    def label_names(self) -> set[str]:
        """Return the labels, which are no inputs of the network."""
        return {task.label for task in self.tasks}

    def embedding_collection(self) -> EmbeddingCollection:
        """Return the embeddings of the model; an empty collection if it has none."""
        found = [m for m in self.modules() if isinstance(m, EmbeddingCollection)]
        if len(found) > 1:
            raise ValueError("a model has one EmbeddingCollection; it may hold many tables")
        return found[0] if found else EmbeddingCollection(features=(), tables=())

    def recall_towers(self) -> Mapping[str, Tower]:
        """Return the parts that an inference model also has as graphs of their own, by name."""
        return {}

    def optimizer_of(self, variable: str, *, num_optimizers: int) -> int:
        """Return the index of the optimizer: the first one for tables, the last one for others.

        ``variable`` is the name of a parameter or of a table.
        """
        is_table = variable in self.embedding_collection().tables
        return 0 if is_table else num_optimizers - 1

    def variable_name(self, variable: str) -> str:
        """Return the user-visible name of a parameter or a table."""
        return variable

    def optimizer(self, configured: OptimizerOptions | None) -> OptimizerOptions:
        """Return the optimizer options: those of the job; models may override them."""
        return configured or OptimizerOptions()
