"""Data sets of variables that layers have declared."""

from collections.abc import Sequence
from typing import Any

from fleetrec import fleet
from fleetrec.core.errors import ConfigError
from fleetrec.fleet import dataset as fleet_dataset
from fleetrec.fluid.graph import Feature, Variable
from fleetrec.fluid.missing import missing

METHODS = (
    "set_use_var",
    "set_pipe_command",
    "set_batch_size",
    "set_thread",
    "set_filelist",
)
MEMORY_METHODS = (
    "load_into_memory",
    "preload_into_memory",
    "wait_preload_done",
    "local_shuffle",
    "global_shuffle",
    "get_memory_data_size",
    "release_memory",
)


class QueueDataset(fleet_dataset.QueueDataset):
    """Read again in every pass, by several readers in turn."""

    def set_use_var(self, variables: Sequence[Variable | fleet.Variable]) -> None:
        """Set the variables of a line of wire text: numbers first, then ids."""
        super().set_use_var(declared(variables))

    def __getattr__(self, name: str) -> Any:
        return missing("QueueDataset", METHODS)(name)


class InMemoryDataset(fleet_dataset.InMemoryDataset):
    """Read once; samples stay in their order until they are shuffled."""

    def set_use_var(self, variables: Sequence[Variable | fleet.Variable]) -> None:
        """Set the variables of a line of wire text: numbers first, then ids."""
        super().set_use_var(declared(variables))

    def __getattr__(self, name: str) -> Any:
        return missing("InMemoryDataset", (*METHODS, *MEMORY_METHODS))(name)

    def global_shuffle(self, fleet_of_workers: fleet_dataset.Connected | None = None) -> None:
        """Redistribute the samples of all workers at random; every worker must call it.

        Without a fleet, shuffle those of this worker.
        """
        if fleet_of_workers is None:
            self.local_shuffle()
        else:
            super().global_shuffle(fleet_of_workers)

    def get_memory_data_size(self, fleet_of_workers: Any = None) -> int:
        """Return the number of samples of this worker, or with a fleet that of all workers."""
        own = super().get_memory_data_size()
        return own if fleet_of_workers is None else int(fleet_of_workers.util.all_reduce(own))


class DatasetFactory:
    """Makes data sets by name."""

    def create_dataset(self, datafeed_class: str = "QueueDataset") -> fleet_dataset.Dataset:
        """Return an empty data set."""
        known = {"QueueDataset": QueueDataset, "InMemoryDataset": InMemoryDataset}
        if datafeed_class not in known:
            raise ConfigError(
                [f"no data set is called {datafeed_class!r}; known: {', '.join(known)}"]
            )
        return known[datafeed_class]()


def declared(variables: Sequence[Variable | fleet.Variable]) -> list[fleet.Variable]:
    """Return inputs as the Fleet API declares them."""
    found: list[fleet.Variable] = []
    for variable in variables:
        if isinstance(variable, fleet.Variable):
            found.append(variable)
        elif isinstance(variable, Variable) and isinstance(variable.source, Feature):
            sparse = variable.source.is_sparse
            found.append(
                fleet.Variable(name=variable.name, shape=variable.shape[1:], is_sparse=sparse)
            )
        else:
            raise ConfigError(
                [f"set_use_var: expected variables of fluid.layers.data, got {variable!r}"]
            )
    return found
