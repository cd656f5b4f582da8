"""How the model of a program is trained: alone or with servers."""

from collections.abc import Sequence
from typing import Protocol

from fleetrec import fleet
from fleetrec.core.batch import Inputs
from fleetrec.core.errors import ConfigError
from fleetrec.fluid.graph import AucResult, Program, Variable
from fleetrec.fluid.model import GraphModel
from fleetrec.fluid.programs import default_startup_program
from fleetrec.models.base import Model


class Minimize(Protocol):
    """Makes a program of the Fleet API of a model."""

    def __call__(self, model: Model, *, seed: int) -> fleet.Program:
        """Return the program."""
        ...


class Training:
    """The training of one loss; the model is built when it is needed first."""

    def __init__(
        self,
        loss: Variable,
        minimize: Minimize,
        *,
        startup: Program | None,
        is_distributed: bool,
    ) -> None:
        if not isinstance(loss, Variable):
            raise ConfigError(
                [f"minimize: expected a variable, the loss, got a {type(loss).__name__}"]
            )
        if loss.shape != (1,) or isinstance(loss.source, AucResult):
            raise ConfigError(
                [
                    f"minimize: expected a loss of shape [1], got {loss.name} {list(loss.shape)}; "
                    "take its fluid.layers.mean"
                ]
            )
        self.main = loss.program
        self.is_distributed = is_distributed
        self._loss = loss
        self._minimize = minimize
        self.startup = startup or default_startup_program()
        self._built: tuple[GraphModel, fleet.Program] | None = None

    @property
    def model(self) -> GraphModel:
        """Return the model."""
        return self.build()[0]

    @property
    def program(self) -> fleet.Program:
        """Return the program of the Fleet API that trains the model."""
        return self.build()[1]

    def initialize(self) -> None:
        """Give the model its first weights; with servers, these have them already."""
        if self.is_distributed:
            return
        if self._built is not None:
            self._built[1].detach(finished=True)
            self._built = None
        self.build()

    def metrics_of(self, variables: Sequence[Variable]) -> list[str]:
        """Return the metrics that belong to variables of a fetch_list."""
        known = self.model.fetchable
        unknown = [getattr(v, "name", repr(v)) for v in variables if v not in known]
        if unknown:
            names = ", ".join(variable.name for variable in known)
            raise ConfigError(
                [
                    f"fetch_list: {', '.join(unknown)}: expected an AUC, or a variable of one "
                    f"number that was recorded before training; available: {names}"
                ]
            )
        return [known[variable] for variable in variables]

    def check_inputs(self, inputs: Inputs) -> None:
        """Raise an error if the model needs an input that the data set does not have."""
        lacking = set(self.model.needed_features) - {*inputs.sparse, *inputs.dense}
        if lacking:
            raise ConfigError(
                [f"dataset.set_use_var: the model needs {', '.join(sorted(lacking))} too"]
            )

    def build(self) -> tuple[GraphModel, fleet.Program]:
        """Return the model and the program; the first call makes them."""
        if self._built is None:
            self.main.is_complete = True
            seed = self.main.random_seed or self.startup.random_seed
            model = GraphModel(self.main, loss=self._loss, seed=seed)
            self._built = (model, self._minimize(model, seed=seed))
        return self._built


class Trainings:
    """The training of every program of this process."""

    def __init__(self) -> None:
        self._of: dict[Program, Training] = {}

    def add(self, training: Training) -> None:
        """Remember how a program is trained."""
        if training.main in self._of:
            raise ConfigError(["minimize: the program is minimized already; use another Program"])
        self._of[training.main] = training

    def of(self, program: Program, where: str) -> Training:
        """Return how a program is trained; ``where`` is the call that needs it."""
        if program not in self._of:
            raise ConfigError([f"{where}: the program has no loss; call optimizer.minimize(loss)"])
        return self._of[program]

    def started_by(self, startup: Program) -> list[Training]:
        """Return those whose first weights a startup program stands for."""
        return [training for training in self._of.values() if training.startup is startup]


_TRAININGS = Trainings()

add_training = _TRAININGS.add
training_of = _TRAININGS.of
trainings_started_by = _TRAININGS.started_by
