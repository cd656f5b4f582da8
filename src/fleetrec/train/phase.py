"""One phase made ready to run: its data, its model, its metrics."""

import dataclasses
import re
from collections.abc import Callable, Sequence

import torch

from fleetrec.config.job import PhaseOptions, RunOptions
from fleetrec.core.errors import ConfigError
from fleetrec.data.files import DataFile
from fleetrec.data.loader import Loader
from fleetrec.models.base import Model
from fleetrec.models.load import load_model_class
from fleetrec.models.table_overrides import check_table_names, override_tables
from fleetrec.nn.linear import set_matmul_precision
from fleetrec.parallel.group import Group, ModelOptions
from fleetrec.parallel.state import ModelState
from fleetrec.parallel.stepper import Stepper
from fleetrec.train.metrics import PassMetrics
from fleetrec.train.pass_plan import PassSpec
from fleetrec.train.shared_files import shared_files


@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase:
    """A phase with everything that it needs in memory.

    ``open_files`` makes a loader of other files, for passes that have files of their own.
    """

    options: PhaseOptions
    loader: Loader
    open_files: Callable[[Sequence[DataFile]], Loader]
    model: Model
    stepper: Stepper
    state: ModelState
    metrics: PassMetrics

    @property
    def name(self) -> str:
        """Return the name, under which a checkpoint has this phase."""
        return self.options.name

    def loader_of(self, spec: PassSpec) -> Loader:
        """Return the loader of a pass."""
        files = spec.files[self.name]
        return self.loader if files == self.loader.files else self.open_files(files)

    def variable_names(self) -> dict[str, str]:
        """Return the names by which users know variables, where they differ from those in files."""
        shown = {name: self.model.variable_name(name) for name in self.state.variables()}
        return {name: shown_as for name, shown_as in shown.items() if name != shown_as}


def build_phases(run: RunOptions, group: Group) -> list[Phase]:
    """Build all phases of a run."""
    phases = [build_phase(options, run, group) for options in run.phases]
    tables = {name for p in phases for name in p.model.embedding_collection().tables}
    try:
        check_table_names(run.phases[0].tables, sorted(tables))
    except ValueError as error:
        raise ConfigError([f"runner {run.name}: {error}"]) from error
    return phases


def build_phase(options: PhaseOptions, run: RunOptions, group: Group) -> Phase:
    """Open this process's shard of the data and build the model.

    The seed alone decides the initial weights.
    """

    def open_loader(files: Sequence[DataFile] | None) -> Loader:
        return Loader(
            options.dataset,
            seed=run.seed,
            shard=group.shard,
            files=files,
            decode_ahead=group.device.type != "cpu",
        )

    files: tuple[DataFile, ...] | None = ()  # the data of an online run may not be there yet
    if run.online is None:
        files = shared_files(options.dataset, group, key=f"files/{options.name}")
    loader = open_loader(files)
    torch.manual_seed(run.seed)
    model_class: Callable[..., Model] = load_model_class(options.model_path)
    try:
        model = model_class(options.model, inputs=loader.inputs)
        if not _has_several_models(run):
            check_table_names(options.tables, model.embedding_collection().tables)
        override_tables(model, options.tables)
        set_matmul_precision(model, run.device.matmul_precision)
        built = group.build(model, _model_options(model, options, run))
    except ValueError as error:
        raise ConfigError([f"phase {options.name}: {options.model_path}: {error}"]) from error
    tasks = [task.in_training() for task in model.tasks] if run.kind == "train" else model.tasks
    return Phase(
        options=options,
        loader=loader,
        open_files=open_loader,
        model=model,
        stepper=built.stepper,
        state=built.state,
        metrics=PassMetrics(tasks),
    )


def _has_several_models(run: RunOptions) -> bool:
    """Return whether a table may be in one model and not in another."""
    return len({phase.model_path for phase in run.phases}) > 1


def _model_options(model: Model, options: PhaseOptions, run: RunOptions) -> ModelOptions:
    update = options.update
    return ModelOptions(
        optimizer=model.optimizer(options.optimizer),
        update=update,
        seed=run.seed,
        frozen=(*run.warm_start.frozen, *_frozen_by_pattern(model, update.frozen)),
        trains=run.kind == "train",
    )


def _frozen_by_pattern(model: Model, patterns: Sequence[str]) -> list[str]:
    """Return the variables whose names match a pattern; each pattern must match one."""
    parameters = [name for name, _ in model.named_parameters()]
    known = {n: model.variable_name(n) for n in (*parameters, *model.embedding_collection().tables)}
    frozen: list[str] = []
    for pattern in patterns:
        try:
            found = [name for name, known_as in known.items() if re.search(pattern, known_as)]
        except re.error as error:
            raise ValueError(f"freeze_gradient: {pattern!r} is not a pattern: {error}") from error
        if not found:
            listed = ", ".join(sorted(known.values()))
            raise ValueError(f"freeze_gradient: no variable matches {pattern!r}; known: {listed}")
        frozen += found
    return frozen
