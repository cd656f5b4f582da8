"""Models on disk."""

from collections.abc import Sequence

from fleetrec import fleet
from fleetrec.fluid.executor import Executor
from fleetrec.fluid.graph import Program, Variable
from fleetrec.fluid.missing import check_defaults, missing
from fleetrec.fluid.programs import default_main_program
from fleetrec.fluid.training import Training, training_of

__all__ = ("load_persistables", "save_inference_model", "save_persistables")


def save_persistables(
    executor: Executor,
    dirname: str,
    main_program: Program | None = None,
    filename: str | None = None,
) -> None:
    """Publish a checkpoint of tables, weights and optimizer state."""
    check_defaults("fluid.io.save_persistables", {"filename": (filename, None)})
    fleet.save_persistables(_training(executor, main_program, "save_persistables").program, dirname)


def load_persistables(
    executor: Executor,
    dirname: str,
    main_program: Program | None = None,
    filename: str | None = None,
) -> None:
    """Load weights and rows of a checkpoint, without optimizer state; every worker must call it."""
    check_defaults("fluid.io.load_persistables", {"filename": (filename, None)})
    fleet.load_model(_training(executor, main_program, "load_persistables").program, dirname)


def save_inference_model(
    dirname: str,
    feeded_var_names: Sequence[str],
    target_vars: Sequence[Variable],
    executor: Executor,
    main_program: Program | None = None,
) -> None:
    """Publish an inference model with the named inputs and the given outputs."""
    training = _training(executor, main_program, "save_inference_model")
    names = [target.name for target in target_vars]
    fleet.save_inference_model(training.program, dirname, feeded_var_names, names)


def _training(executor: Executor, program: Program | None, call: str) -> Training:
    del executor  # there is one place
    return training_of(program or default_main_program(), f"fluid.io.{call}")


__getattr__ = missing("fluid.io", __all__)
