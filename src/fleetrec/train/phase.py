"""One phase made ready to run: its data, its model, its state."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from fleetrec.checkpoint.folder import Folder
from fleetrec.checkpoint.tables import stored_tables
from fleetrec.checkpoint.tensors import read_tensors
from fleetrec.config.job import PhaseOptions, RunOptions, WarmStartOptions
from fleetrec.core.errors import CheckpointError, ConfigError
from fleetrec.data.files import fingerprint
from fleetrec.data.loader import Loader
from fleetrec.data.plan import Share
from fleetrec.models.base import Model
from fleetrec.models.load import load_model_class
from fleetrec.parallel.device import resolve_device
from fleetrec.parallel.geo import GeoStrategy
from fleetrec.parallel.server import Cluster, ServerStrategy
from fleetrec.parallel.single import SingleStrategy
from fleetrec.parallel.strategy import SavedPhase, State, Strategy
from fleetrec.train.scoreboard import Scoreboard


@dataclasses.dataclass(frozen=True, kw_only=True)
class PhaseRun:
    """A phase with everything it needs in memory."""

    options: PhaseOptions
    loader: Loader
    model: Model
    strategy: Strategy
    scoreboard: Scoreboard

    def state(self) -> State:
        """Return what a checkpoint keeps of this phase beside the tables."""
        return {**self.strategy.state(), "metrics": self.scoreboard.state()}

    def load_state(self, state: State) -> None:
        """Continue exactly where ``state`` was taken."""
        self.strategy.load_state(state)
        self.scoreboard.load_state(state["metrics"])

    def data_fingerprint(self) -> str:
        """Return a digest of the data files."""
        return fingerprint(self.loader.files)


def build_phase(options: PhaseOptions, run: RunOptions, cluster: Cluster | None = None) -> PhaseRun:
    """Open the data and build the model; the seed alone decides the first weights.

    In a cluster the data is this worker's share.
    """
    loader = Loader(options.dataset, seed=run.seed, share=_share(cluster))
    device = resolve_device(run.device)
    torch.manual_seed(run.seed)
    model_class: Callable[..., Model] = load_model_class(options.model_path)
    try:
        model = model_class(options.model, inputs=loader.inputs)
    except ValueError as error:
        raise ConfigError([f"phase {options.name}: {options.model_path}: {error}"]) from error
    make: Callable[..., Strategy] = SingleStrategy
    if cluster is not None:
        kind = GeoStrategy if cluster.mode == "geo" else ServerStrategy
        make = functools.partial(kind, cluster=cluster)
    strategy = make(
        model,
        optimizer=model.optimizer(options.optimizer),
        device=device,
        seed=run.seed,
        frozen=run.warm_start.frozen,
    )
    return PhaseRun(
        options=options,
        loader=loader,
        model=model,
        strategy=strategy,
        scoreboard=Scoreboard(model.tasks),
    )


def _share(cluster: Cluster | None) -> Share:
    if cluster is None:
        return Share()
    return Share(index=cluster.topology.index, count=cluster.topology.num_workers)


def warm_start(phase: PhaseRun, checkpoint: Folder, options: WarmStartOptions) -> str:
    """Load weights from a checkpoint of an earlier run; returns what was loaded, in words."""
    saved = read_phase(checkpoint, part_for(checkpoint, phase))
    if options.path is not None and not options.variables:
        phase.strategy.load_weights(saved)
        return "all variables"
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
        raise CheckpointError(f"{checkpoint.path}: has no fitting {', '.join(missing)}")
    return f"{len(loaded)} of {len(wanted)} variables: {', '.join(loaded) or 'none fits'}"


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
        f"{checkpoint.path}: holds the phases {', '.join(parts)}; none of them is "
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
