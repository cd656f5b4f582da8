"""Which optimizer updates which variable, and with what learning rate."""

from collections.abc import Sequence

from torch import nn

from fleetrec.config.job import OptimizerOptions
from fleetrec.embedding.table import RowOptimizer
from fleetrec.models.base import Model
from fleetrec.optim.dense import follows_steps, row_rate
from fleetrec.optim.schedule import learning_rate


class OptimizerPlan:
    """Assigns one of several optimizers to every parameter and table of a model."""

    def __init__(self, model: Model, optimizers: Sequence[OptimizerOptions]) -> None:
        self.optimizers = tuple(optimizers)
        self._model = model
        self._tables = model.embedding_collection().tables

    @property
    def follows_steps(self) -> bool:
        """Return whether updates depend on the number of steps so far."""
        return any(follows_steps(options) for options in self.optimizers)

    def index_of(self, variable: str) -> int:
        """Return the index of the optimizer of a parameter or a table."""
        count = len(self.optimizers)
        return self._model.optimizer_of(variable, num_optimizers=count) if count > 1 else 0

    def parameter_groups(self) -> list[tuple[OptimizerOptions, list[nn.Parameter]]]:
        """Return every optimizer with its parameters, those that are not trained included."""
        named = list(self._model.named_parameters())
        return [
            (options, [p for name, p in named if self.index_of(name) == index])
            for index, options in enumerate(self.optimizers)
        ]

    def row_optimizer(self, table: str) -> RowOptimizer:
        """Return the optimizer of the rows of a table."""
        options = self.optimizers[self.index_of(table)]
        return self._tables[table].row_optimizer(options.name, options.settings)

    def rates(self, step: int) -> list[float]:
        """Return the learning rate of every optimizer in one step, counted from 0."""
        return [learning_rate(options, step) for options in self.optimizers]

    def table_rate(self, table: str, step: int) -> float:
        """Return the learning rate of the rows of a table in one step, counted from 0."""
        rate = row_rate(self.optimizers[self.index_of(table)], step)
        return self._tables[table].row_rate(rate)
