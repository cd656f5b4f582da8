"""From a job file of the YAML dialect to a Job, with every problem found in one go."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from fleetrec.config.document import Document, Location
from fleetrec.config.job import EvaluationOptions, Job, OptimizerOptions, PhaseOptions, RunOptions
from fleetrec.config.options import Options
from fleetrec.config.problems import Problems, hint
from fleetrec.config.tables import TableOverrides
from fleetrec.config.yaml_dialect.datasets import (
    dataset_options,
    dataset_problems,
    flat_settings,
)
from fleetrec.config.yaml_dialect.locate import Located, locate_workspace
from fleetrec.config.yaml_dialect.override import override
from fleetrec.config.yaml_dialect.schema import (
    Dataset,
    OptimizerKeys,
    Phase,
    Runner,
    TopLevel,
)
from fleetrec.config.yaml_dialect.section import forward_slashes
from fleetrec.config.yaml_dialect.tables import TableKeys, decode_table
from fleetrec.config.yaml_dialect.translate import (
    has_servers,
    is_online_runner,
    phase_problems,
    run_options,
    runner_notices,
    runner_problems,
)
from fleetrec.core.errors import ConfigError, ModelError

# Returns the hyper-parameters of the model in a file; raises ModelError.
ModelOptionsOf = Callable[[Path], type[Options]]

OptionsT = TypeVar("OptionsT", bound=Options)
Section = dict[str, tuple[Location, OptionsT | None]]


def decode(
    document: Document,
    *,
    assignments: Sequence[str] = (),
    model_options: ModelOptionsOf,
    is_data_here: bool = True,
) -> Job:
    """Return the checked job, or raise one ConfigError that lists all problems.

    Data of a job that runs elsewhere need not be on this machine.
    """
    if not isinstance(document.data, dict):
        raise ConfigError([f"{document.path}: expected a mapping with mode, runner, phase, ..."])
    document = override(document, assignments)
    workspace = _workspace(document)
    data = _substitute(document.data, str(workspace.path))
    document = dataclasses.replace(document, data=data)
    decoder = _Decoder(document, workspace, model_options, is_data_here=is_data_here)
    return decoder.decode()


def _workspace(document: Document) -> Located:
    text = document.data.get("workspace")
    if text is not None and not isinstance(text, str):
        raise ConfigError([f"{document.where(('workspace',))}: workspace: expected text"])
    try:
        return locate_workspace(forward_slashes(text), job_file=document.path)
    except ConfigError as error:
        where = document.where(("workspace",))
        raise ConfigError([f"{where}: workspace: {p}" for p in error.problems]) from error


def _substitute(value: Any, workspace: str) -> Any:
    """Replace ``{workspace}`` in every string, also inside lists."""
    if isinstance(value, str):
        return value.replace("{workspace}", workspace)
    if isinstance(value, list):
        return [_substitute(item, workspace) for item in value]
    if isinstance(value, dict):
        return {key: _substitute(item, workspace) for key, item in value.items()}
    return value


class _Decoder:
    """Decodes section by section; a broken entry does not hide the problems of the others."""

    def __init__(
        self,
        document: Document,
        workspace: Located,
        model_options: ModelOptionsOf,
        *,
        is_data_here: bool,
    ) -> None:
        self._document = document
        self._workspace = workspace
        self._model_options_of = model_options
        self._is_data_here = is_data_here
        self._problems = Problems(document)
        self._notices = [*document.notices, *workspace.notices]
        self._phases_of_epochs: set[str] = set()  # whose data sets need a path

    def decode(self) -> Job:
        top = self._validate(TopLevel, self._document.data, ())
        runners = self._section("runner", Runner)
        phases = self._section("phase", Phase)
        datasets = self._section("dataset", Dataset)
        used = self._check_runners(runners, phases)
        self._check_evaluations(runners, phases, datasets)
        self._check_phases({name: phases[name] for name in phases if name in used}, datasets)
        classes = {
            phase.model: self._model_class(phase, at, is_used=name in used)
            for name, (at, phase) in phases.items()
            if phase is not None
        }
        optimizer, models = self._hyper_parameters(
            classes,
            are_all_known=self._are_models_known(phases, classes)
            and not any(dataset and dataset.data_converter for _, dataset in datasets.values()),
        )
        tables = self._tables()
        self._problems.check()
        assert top is not None
        options = tuple(
            PhaseOptions(
                name=phase.name,
                model_path=Path(phase.model),
                model=models[phase.model],
                optimizer=optimizer,
                dataset=dataset_options(
                    _sound(datasets[phase.dataset_name]),
                    phase,
                    settings=flat_settings(self._document.data),
                ),
                tables=tables,
            )
            for phase in (_sound(phases[name]) for name in phases if name in used)
        )
        runs = tuple(
            self._run(_sound(runners[name]), options, top, phases=phases, datasets=datasets)
            for name in top.mode
        )
        return Job(
            source=self._document.path,
            workspace=self._workspace.path,
            runs=runs,
            notices=tuple(self._notices),
        )

    def _run(
        self,
        runner: Runner,
        options: Sequence[PhaseOptions],
        top: TopLevel,
        *,
        phases: Section[Phase],
        datasets: Section[Dataset],
    ) -> RunOptions:
        """Decode a runner; its phases are in the order of their section, not of the runner."""
        chosen = [phase for phase in options if phase.name in runner.phases or not runner.phases]
        if has_servers(runner) and not runner.phases and len(chosen) > 1:  # as PaddleRec does
            text = f"phases: names none, so servers train the first one only, {chosen[0].name}"
            self._notices.append(f"runner {runner.name}: {text}")
            chosen = chosen[:1]
        evaluation = None
        if runner.eval_dataset is not None:
            dataset = dataset_options(
                _sound(datasets[runner.eval_dataset]),
                _sound(phases[chosen[0].name]),
                settings=flat_settings(self._document.data),
            )
            in_order = dataset.model_copy(update={"shuffle_files": False, "shuffle_rows": 0})
            evaluation = EvaluationOptions(dataset=in_order)
        if is_online_runner(runner):
            chosen = [_with_online_path(phase, runner.train_data_dir) for phase in chosen]
        settings = flat_settings(self._document.data)
        return run_options(runner, chosen, top=top, evaluation=evaluation, settings=settings)

    def _check_evaluations(
        self, runners: Section[Runner], phases: Section[Phase], datasets: Section[Dataset]
    ) -> None:
        """Check the data sets on which the runners of ``mode`` evaluate while they train."""
        for name in self._names_of_mode():
            at, runner = runners.get(name, ((), None))
            if runner is None or runner.eval_dataset is None:
                continue
            where = (*at, "eval_dataset")
            is_first_only = has_servers(runner) and not runner.phases
            if len(runner.phases or phases) > 1 and not is_first_only:
                self._problems.note(where, "is for a runner of one phase; name it in phases")
            if self._check_name(where, runner.eval_dataset, datasets):
                self._check_dataset(datasets[runner.eval_dataset])

    def _check_runners(self, runners: Section[Runner], phases: Section[Phase]) -> set[str]:
        """Check the runners of ``mode`` and return the phases they use: all, if that is unclear."""
        used: set[str] = set()
        for name in self._names_of_mode():
            is_known = self._check_name(("mode",), name, runners)
            at, runner = runners[name] if is_known else ((), None)
            if runner is None:
                used.update(phases)
                self._phases_of_epochs.update(phases)
                continue
            for key, problem in runner_problems(runner).items():
                self._problems.note((*at, key), problem)
            for key, notice in runner_notices(runner).items():
                self._notice((*at, key), notice)
            for phase in runner.phases:
                self._check_name((*at, "phases"), phase, phases)
            used.update(runner.phases or phases)
            if not is_online_runner(runner):
                self._phases_of_epochs.update(runner.phases or phases)
        return used or set(phases)

    def _names_of_mode(self) -> list[str]:
        mode = self._document.data.get("mode")
        names = mode if isinstance(mode, list) else [mode] if isinstance(mode, str) else []
        return [str(name) for name in names]

    def _check_phases(self, phases: Section[Phase], datasets: Section[Dataset]) -> None:
        for at, phase in phases.values():
            if phase is None:
                continue
            for key, problem in phase_problems(phase).items():
                self._problems.note((*at, key), problem)
            if not self._check_name((*at, "dataset_name"), phase.dataset_name, datasets):
                continue
            needs_path = phase.name in self._phases_of_epochs
            self._check_dataset(datasets[phase.dataset_name], needs_path=needs_path)

    def _check_dataset(
        self, entry: tuple[Location, Dataset | None], *, needs_path: bool = True
    ) -> None:
        at, dataset = entry
        if dataset is not None:
            problems = dataset_problems(dataset, needs_path=needs_path, is_here=self._is_data_here)
            for key, problem in problems.items():
                self._problems.note((*at, key), problem)

    def _validate(self, want: type[OptionsT], data: Any, at: Location) -> OptionsT | None:
        if not isinstance(data, dict):
            self._problems.note(at, f"expected a mapping, got {data!r}")
            return None
        try:
            return want.model_validate(data)
        except ValidationError as error:
            self._problems.note_validation(error, at=at, want=want)
            return None

    def _section(self, key: str, want: type[OptionsT]) -> Section[OptionsT]:
        """Decode the named entries of one list; entries with problems stay as None."""
        found: Section[OptionsT] = {}
        entries = self._document.data.get(key)
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            at: Location = (key, index)
            value = self._validate(want, entry, at)
            if not isinstance(entry, dict) or "name" not in entry:
                continue
            name = str(entry["name"])
            if name in found:
                self._problems.note((*at, "name"), f"two entries of {key} are called {name!r}")
            found[name] = (at, value)
        return found

    def _notice(self, location: Location, text: str) -> None:
        notice = self._problems.spell(location, text)
        if notice not in self._notices:
            self._notices.append(notice)

    def _check_name(self, at: Location, name: str, known: Mapping[str, Any]) -> bool:
        if name not in known:
            self._problems.note(at, f"nothing is called {name!r}{hint(name, known)}")
        return name in known

    def _model_class(self, phase: Phase, at: Location, *, is_used: bool) -> type[Options] | None:
        """Return the options of a model, or None; that is a problem only where it is used."""
        path = Path(phase.model)
        problem = f"no such file: {path}"
        if path.is_file():
            try:
                return self._model_options_of(path)
            except ModelError as error:
                problem = str(error)
        if is_used:
            self._problems.note((*at, "model"), problem)
        return None

    def _are_models_known(
        self, phases: Section[Phase], classes: Mapping[str, type[Options] | None]
    ) -> bool:
        """Return whether all phases and their models could be loaded."""
        found = [*(phase for _, phase in phases.values()), *classes.values()]
        if not found or None in found:
            return False
        return len(phases) == len(self._document.data["phase"])

    def _hyper_parameters(
        self, classes: Mapping[str, type[Options] | None], *, are_all_known: bool
    ) -> tuple[OptimizerOptions | None, dict[str, Options]]:
        """Split ``hyper_parameters`` into the optimizer and the options of each model."""
        at: Location = ("hyper_parameters",)
        given = self._document.data.get("hyper_parameters") or {}
        if not isinstance(given, dict):
            return None, {}
        given = dict(given)
        optimizer = self._optimizer(given.pop("optimizer", None))
        known = {
            key
            for options in classes.values()
            if options is not None
            for name, field in options.model_fields.items()
            for key in (field.alias or name,)
        }
        if are_all_known:  # else the key may belong to a model that could not be loaded
            for key in (key for key in given if key not in known):
                self._problems.note((*at, key), f"unknown key{hint(key, {*known, 'optimizer'})}")
        models: dict[str, Options] = {}
        for path, options in classes.items():
            if options is None:
                continue
            own = {f.alias or name for name, f in options.model_fields.items()}
            mine = {key: value for key, value in given.items() if key in own}
            model = self._validate(options, mine, at)
            if model is not None:
                models[path] = model
        return optimizer, models

    def _tables(self) -> dict[str, TableOverrides]:
        """Decode ``table_parameters``; the names are checked when the model is built."""
        given = self._document.data.get("table_parameters")
        tables: dict[str, TableOverrides] = {}
        for name, entry in given.items() if isinstance(given, dict) else ():
            at: Location = ("table_parameters", name)
            keys = self._validate(TableKeys, entry, at)
            if keys is None:
                continue
            decoded = decode_table(keys)
            tables[str(name)] = decoded.options
            if decoded.notice is not None:
                self._notice(at, decoded.notice)
        return tables

    def _optimizer(self, data: Any) -> OptimizerOptions | None:
        if data is None:
            return None
        at: Location = ("hyper_parameters", "optimizer")
        keys = self._validate(OptimizerKeys, data, at)
        if keys is None:
            return None
        if keys.strategy is not None:
            self._notice((*at, "strategy"), "has no effect; runner.distribute_strategy decides")
        return OptimizerOptions(name=keys.optimizer_class, lr=keys.learning_rate)


def _sound(entry: tuple[Location, OptionsT | None]) -> OptionsT:
    """Return an entry after the check that none has a problem."""
    value = entry[1]
    assert value is not None
    return value


def _with_online_path(phase: PhaseOptions, folders: Sequence[str]) -> PhaseOptions:
    """Return a phase whose data set, if it has no path, shows the data that its runner follows.

    The run itself lists the files of every pass; verbs that look at data need a path.
    """
    if phase.dataset.data_path or not folders:
        return phase
    paths = {"data_path": folders[0], "more_paths": tuple(folders[1:])}
    return phase.model_copy(update={"dataset": phase.dataset.model_copy(update=paths)})
