"""Runs programs: the startup program sets the first weights, data sets train and evaluate."""

from collections.abc import Mapping, Sequence
from typing import Any

from fleetrec import fleet
from fleetrec.core.errors import ConfigError, UnavailableError
from fleetrec.fleet.dataset import Dataset
from fleetrec.fluid.graph import Program, Variable
from fleetrec.fluid.missing import check_defaults, missing
from fleetrec.fluid.place import CPUPlace
from fleetrec.fluid.programs import default_main_program
from fleetrec.fluid.training import Training, training_of, trainings_started_by


class Executor:
    """Runs programs on the CPU."""

    def __init__(self, place: CPUPlace | None = None) -> None:
        if place is not None and not isinstance(place, CPUPlace):
            raise ConfigError([f"fluid.Executor: expected fluid.CPUPlace(), got {place!r}"])

    def __getattr__(self, name: str) -> Any:
        known = ("run", "train_from_dataset", "infer_from_dataset", "close")
        return missing("Executor", known)(name)

    def close(self) -> None:
        """Do nothing: a program without servers has nothing to disconnect from."""

    def run(
        self,
        program: Program | None = None,
        feed: Mapping[str, Any] | None = None,
        fetch_list: Sequence[Variable] | None = None,
    ) -> list[Any]:
        """Run a startup program: set the first weights of the programs that are to be trained.

        Run again, it sets them again. With servers the first worker has sent them before.
        """
        found = default_main_program() if program is None else program
        if feed is not None or fetch_list or found.variables:
            raise UnavailableError(
                "Executor.run: only startup programs, without feed and fetch_list; for others use "
                "train_from_dataset or infer_from_dataset"
            )
        for training in trainings_started_by(found):
            training.initialize()
        return []

    def train_from_dataset(  # noqa: PLR0913 (those of Fluid)
        self,
        program: Program | None = None,
        dataset: Dataset | None = None,
        scope: Any = None,
        thread: int = 0,
        debug: bool = False,  # noqa: FBT001, FBT002 (as in Fluid)
        fetch_list: Sequence[Variable] | None = None,
        fetch_info: Sequence[str] | None = None,
        print_period: int = 100,
        fetch_handler: Any = None,
    ) -> dict[str, float]:
        """Make one training pass; returns the metrics of all workers.

        Variables of ``fetch_list`` are printed every ``print_period`` batches and at the end. An
        AUC is that of the pass so far; a variable of one number has its mean.
        """
        check_defaults(
            "Executor.train_from_dataset",
            {"scope": (scope, None), "fetch_handler": (fetch_handler, None)},
        )
        training, data = _prepared("train_from_dataset", program, dataset, thread)
        fetched = fetch_list or ()
        return fleet.train_from_dataset(
            training.program,
            data,
            fetch_list=training.metrics_of(fetched),
            fetch_info=fetch_info or [variable.name for variable in fetched],
            print_period=print_period,
            debug=debug,
        )

    def infer_from_dataset(  # noqa: PLR0913 (those of Fluid)
        self,
        program: Program | None = None,
        dataset: Dataset | None = None,
        scope: Any = None,
        thread: int = 0,
        debug: bool = False,  # noqa: FBT001, FBT002 (as in Fluid)
        fetch_list: Sequence[Variable] | None = None,
        fetch_info: Sequence[str] | None = None,
        print_period: int = 100,
        fetch_handler: Any = None,
    ) -> dict[str, float]:
        """Make one pass without training; otherwise as ``train_from_dataset``."""
        check_defaults(
            "Executor.infer_from_dataset",
            {"scope": (scope, None), "fetch_handler": (fetch_handler, None)},
        )
        training, data = _prepared("infer_from_dataset", program, dataset, thread)
        fetched = fetch_list or ()
        return fleet.infer_from_dataset(
            training.program,
            data,
            fetch_list=training.metrics_of(fetched),
            fetch_info=fetch_info or [variable.name for variable in fetched],
            print_period=print_period,
            debug=debug,
        )


def _prepared(
    call: str, program: Program | None, dataset: Dataset | None, thread: int
) -> tuple[Training, Dataset]:
    where = f"Executor.{call}"
    if not isinstance(dataset, Dataset):
        raise ConfigError(
            [f"{where}: expected a dataset of fluid.DatasetFactory(), got {dataset!r}"]
        )
    training = training_of(default_main_program() if program is None else program, where)
    training.check_inputs(dataset.inputs)
    if thread:
        dataset.set_thread(thread)
    return training, dataset
