"""One phase made ready to run: its data, its model, its state."""

import dataclasses
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fleetrec.checkpoint.folder import Folder
from fleetrec.checkpoint.tables import stored_tables
from fleetrec.checkpoint.tensors import read_tensors
from fleetrec.config.job import OptimizerOptions, PhaseOptions, RunOptions, WarmStartOptions
from fleetrec.core.errors import CheckpointError, ConfigError
from fleetrec.data.files import fingerprint
from fleetrec.data.loader import ONE_WORKER, Loader
from fleetrec.data.plan import DataShard
from fleetrec.models.base import Model
from fleetrec.models.load import load_model_class
from fleetrec.nn.linear import set_matmul_precision
from fleetrec.parallel.cluster import Cluster
from fleetrec.parallel.collective import CollectiveStrategy
from fleetrec.parallel.device import resolve_device
from fleetrec.parallel.geo import GeoStrategy
from fleetrec.parallel.ranks import Ranks
from fleetrec.parallel.server import ServerStrategy
from fleetrec.parallel.single import SingleStrategy
from fleetrec.parallel.strategy import SavedPhase, State, Strategy
from fleetrec.train.scoreboard import Scoreboard

logger = logging.getLogger(__name__)

# Servers that are only read from need no state of an optimizer beside their rows.
READING = OptimizerOptions(name="sgd")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PhaseRun:
    """A phase with everything it needs in memory."""

    options: PhaseOptions
    loader: Loader
    model: Model
    strategy: Strategy
    scoreboard: Scoreboard
    shard: DataShard = ONE_WORKER

    def state(self) -> State:
        """Return what a checkpoint keeps of this phase beside the tables."""
        return {**self.strategy.state(), "metrics": self.scoreboard.state()}

    def load_state(self, state: State) -> None:
        """Continue exactly where ``state`` was taken."""
        self.strategy.load_state(state)
        self.scoreboard.load_state(state["metrics"])

    def collect_counts(self, *, step: int) -> None:
        """Move what other workers have counted so far to the chief, who saves it."""
        counted = self.scoreboard.to_bytes()
        brought = self.strategy.gather(f"{self.options.name}/counted", counted, number=step)
        if self.strategy.is_chief:
            self.scoreboard.load_sum(brought)
        else:
            self.scoreboard.reset()

    def names(self) -> dict[str, str]:
        """Return by what names users know the variables, where those differ from ours."""
        known = {name: self.model.variable_name(name) for name in self.strategy.variables()}
        return {name: known_as for name, known_as in known.items() if name != known_as}

    def data_fingerprint(self) -> str:
        """Return a digest of the data files."""
        return fingerprint(self.loader.files)


def build_phase(
    options: PhaseOptions, run: RunOptions, company: Cluster | Ranks | None = None
) -> PhaseRun:
    """Open the data and build the model; the seed alone decides the first weights.

    In company the data is this worker's share.
    """
    shard = _shard(company)
    loader = Loader(
        options.dataset,
        seed=run.seed,
        shard=shard,
        decode_ahead=run.device.kind != "cpu",
    )
    torch.manual_seed(run.seed)
    model_class: Callable[..., Model] = load_model_class(options.model_path)
    try:
        model = model_class(options.model, inputs=loader.inputs)
        set_matmul_precision(model, run.device.matmul_precision)
        strategy = _strategy_of(model, options, run, company)
    except ValueError as error:
        raise ConfigError([f"phase {options.name}: {options.model_path}: {error}"]) from error
    tasks = [task.in_training() for task in model.tasks] if run.kind == "train" else model.tasks
    return PhaseRun(
        options=options,
        loader=loader,
        model=model,
        strategy=strategy,
        scoreboard=Scoreboard(tasks),
        shard=shard,
    )


def _strategy_of(
    model: Model, options: PhaseOptions, run: RunOptions, company: Cluster | Ranks | None
) -> Strategy:
    update = options.update
    frozen = (*run.warm_start.frozen, *_frozen_by_pattern(model, update.frozen))
    optimizer = model.optimizer(options.optimizer)
    if isinstance(company, Ranks):
        return CollectiveStrategy(
            model,
            optimizer=optimizer,
            update=update,
            device=company.device,
            seed=run.seed,
            frozen=frozen,
            ranks=company,
            options=run.cluster,
        )
    device = resolve_device(run.device)
    if company is None:
        return SingleStrategy(
            model, optimizer=optimizer, update=update, device=device, seed=run.seed, frozen=frozen
        )
    if run.kind == "infer":
        return ServerStrategy(
            model,
            optimizer=READING,
            device=device,
            seed=run.seed,
            cluster=company,
            frozen=frozen,
            own_optimizers=False,
        )
    if len(update.optimizers) > 1 or update.clip_norm or update.embedding_gradient_scale != 1:
        raise ValueError(
            "parameter servers move everything by one optimizer; several of them, clipping by norm "
            "and another scale for gradients of rows are for processes without servers"
        )
    optimizer = update.optimizers[0] if update.optimizers else optimizer
    kind = GeoStrategy if company.mode == "geo" else ServerStrategy
    return kind(
        model, optimizer=optimizer, device=device, seed=run.seed, cluster=company, frozen=frozen
    )


def first_phase_only(run: RunOptions) -> RunOptions:
    """Return a run for servers, which hold one model."""
    if len(run.phases) > 1:
        logger.warning(
            "runner %s: a cluster runs one phase; %s is the one", run.name, run.phases[0].name
        )
    return run.model_copy(update={"phases": run.phases[:1]})


def _shard(company: Cluster | Ranks | None) -> DataShard:
    if company is None:
        return DataShard()
    if isinstance(company, Ranks):
        return DataShard(index=company.index, count=company.count, by="batch")
    return DataShard(index=company.topology.index, count=company.topology.num_workers)


def _frozen_by_pattern(model: Model, patterns: Sequence[str]) -> list[str]:
    """Return the variables whose names match a pattern; each pattern must match some."""
    parameters = [name for name, _ in model.named_parameters()]
    known = {n: model.variable_name(n) for n in (*parameters, *model.embedding_collection().tables)}
    frozen: list[str] = []
    for pattern in patterns:
        try:
            found = [name for name, known_as in known.items() if re.search(pattern, known_as)]
        except re.error as error:
            raise ValueError(f"freeze_gradient: {pattern!r} is no pattern: {error}") from error
        if not found:
            listed = ", ".join(sorted(known.values()))
            raise ValueError(f"freeze_gradient: no variable matches {pattern!r}; known: {listed}")
        frozen += found
    return frozen


def warm_start(phase: PhaseRun, checkpoint: Folder, options: WarmStartOptions) -> str:
    """Load weights from a checkpoint of an earlier run; returns what was loaded, in words."""
    saved = read_phase(checkpoint, part_for(checkpoint, phase))
    if options.path is not None and not options.variables:
        phase.strategy.load_weights(saved)
        return "all variables"
    if options.newest:
        saved = renamed(saved, checkpoint, phase, options.renames)
    known = phase.strategy.variables()
    unknown = sorted(set(options.variables) - set(known))
    if unknown:
        raise ConfigError(
            [f"load_vars: the model has no {', '.join(unknown)}; known: {', '.join(known)}"]
        )
    wanted = options.variables or known
    loaded = phase.strategy.load_variables(saved, wanted)
    missing = sorted(set(options.variables) - set(loaded))
    if missing:
        raise CheckpointError(f"{checkpoint.url}: has no fitting {', '.join(missing)}")
    if options.newest:
        others = [phase.model.variable_name(n) for n in wanted if n not in loaded]
        if others:
            logger.warning("not in %s, or of another shape: %s", checkpoint.url, ", ".join(others))
    return f"{len(loaded)} of {len(wanted)} variables: {', '.join(loaded) or 'none fits'}"


def renamed(
    saved: SavedPhase, checkpoint: Folder, phase: PhaseRun, renames: Path | None
) -> SavedPhase:
    """Return what was saved under the names of this model, which users see, not under ours.

    ``renames`` is a file of names here and there; others stay the same.
    """
    here = {phase.model.variable_name(name): name for name in phase.strategy.variables()}
    there = _read_renames(renames) if renames else {}
    names: Mapping[str, Any] = checkpoint.meta.get("names", {}).get(part_for(checkpoint, phase), {})
    weights = saved.tensors.get("model", {})
    of_saved = {str(names.get(name, name)): name for name in (*weights, *saved.tables)}
    wanted = {own: of_saved.get(there.get(name, name), "") for name, own in here.items()}
    return SavedPhase(
        tensors={"model": {own: weights[old] for own, old in wanted.items() if old in weights}},
        tables={own: saved.tables[old] for own, old in wanted.items() if old in saved.tables},
    )


def _read_renames(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"fine_tune_ckpt_var_map: {path}: cannot be read: {error}"]) from error
    renames: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if words and len(words) != 2:
            raise ConfigError(
                [f"{path}:{number}: expected a name here and one in the checkpoint, got {line!r}"]
            )
        renames |= {words[0]: words[1]} if words else {}
    return renames


def read_phase(checkpoint: Folder, part: str) -> SavedPhase:
    """Read the tensors of one phase of a checkpoint, and find its tables."""
    return SavedPhase(
        tensors=read_tensors(checkpoint, part), tables=stored_tables(checkpoint, part)
    )


def part_for(checkpoint: Folder, phase: PhaseRun) -> str:
    """Find the part of a checkpoint that a phase continues: its own, or that of the same model.

    An inference phase usually has another name than the training phase that wrote the
    checkpoint.
    """
    written: Mapping[str, Any] = checkpoint.meta.get("models", {})
    parts = checkpoint.parts()
    if phase.options.name in parts:
        return phase.options.name
    same = [part for part in parts if written.get(part) == model_name(phase.options)]
    for candidates in (same, parts):
        if len(candidates) == 1:
            return candidates[0]
    raise CheckpointError(
        f"{checkpoint.url}: holds the phases {', '.join(parts)}; none of them is "
        f"{phase.options.name!r}, and the model does not tell which to take"
    )


def model_name(options: PhaseOptions) -> str:
    """Return the last two steps of the model's path, which survive a move of the workspace."""
    return "/".join(options.model_path.parts[-2:])


def random_state() -> dict[str, Tensor]:
    """Return the state of torch's generators."""
    state = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        state |= {f"cuda{i}": s for i, s in enumerate(torch.cuda.get_rng_state_all())}
    return state


def load_random_state(state: Mapping[str, Tensor]) -> None:
    """Set torch's generators back."""
    torch.set_rng_state(state["cpu"])
    for name in state.keys() - {"cpu"}:
        torch.cuda.set_rng_state(state[name], int(name.removeprefix("cuda")))
