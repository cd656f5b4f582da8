"""The start of a training run: what is loaded, and where every process begins."""

import dataclasses
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from fleetrec.checkpoint.folder import open_folder
from fleetrec.config.job import RunOptions
from fleetrec.core.progress import Progress
from fleetrec.parallel.group import CHIEF, Group
from fleetrec.train.checkpoints import read_phase, url_of
from fleetrec.train.context import RunContext
from fleetrec.train.pass_plan import PassPlan
from fleetrec.train.phase import Phase
from fleetrec.train.resume import Resumer
from fleetrec.train.warm_start import load_warm_start, open_warm_start

logger = logging.getLogger(__name__)

Loaded = Literal["nothing", "weights", "everything"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Start:
    """What the chief has loaded, and the progress of every worker, or one for all.

    ``is_exact``: the run continues as if it had not stopped; ``rules`` is what its rules remember.
    """

    url: str = ""
    loaded: Loaded = "nothing"
    progress: tuple[Progress, ...] = (Progress(),)
    is_exact: bool = False
    rules: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def progress_of(self, rank: int) -> Progress:
        """Return the progress of one process."""
        return self.progress[rank if len(self.progress) > 1 else 0]

    def to_bytes(self) -> bytes:
        """Return the start as JSON, for the other processes."""
        plain = {**vars(self), "progress": [one.to_dict() for one in self.progress]}
        return json.dumps(plain).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Rebuild a start from ``to_bytes``."""
        plain = json.loads(content)
        return cls(**{**plain, "progress": tuple(map(Progress.from_dict, plain["progress"]))})


class Starter:
    """Loads what a run starts with; every process of ``group`` makes the same calls."""

    def __init__(
        self,
        run: RunOptions,
        phases: Sequence[Phase],
        group: Group,
        plan: PassPlan,
        context: RunContext,
    ) -> None:
        self._run = run
        self._phases = phases
        self._group = group
        self._plan = plan
        self._context = context

    def start(self, *, resume: bool) -> Start:
        """Load, and return how the run starts.

        The processes of the ``rule_group`` load first and send the others what they have loaded. A
        process that replaces another one repeats the all-gather, and gets the same.
        """
        rule_group = self._group.rule_group
        own = Start()
        if rule_group is not None and not self._group.has_started:
            own = self._load(rule_group, resume=resume)
        gathered = self._group.all_gather(own.to_bytes(), key="start", pass_index=None)
        start = Start.from_bytes(gathered[CHIEF])
        if rule_group is None or self._group.has_started:
            self._load_local(start)
        return start

    def _load(self, rule_group: Group, *, resume: bool) -> Start:
        if resume:
            resumer = Resumer(
                self._run, self._phases, self._group, rule_group, self._plan, self._context
            )
            found = resumer.resume()
            if found is not None:
                return Start(
                    url=found.url,
                    loaded="everything",
                    progress=found.progress,
                    is_exact=found.is_exact,
                    rules=found.rules,
                )
        checkpoint = open_warm_start(self._run.warm_start)
        if checkpoint is None:
            return Start()
        url = url_of(checkpoint)
        logger.info("going to load %s", url)
        for phase in self._phases:
            loaded = load_warm_start(phase, checkpoint, self._run.warm_start)
            logger.info("load from %s success: %s", url, loaded)
        return Start(url=url, loaded="weights")

    def _load_local(self, start: Start) -> None:
        """Load what this process holds for itself, where others hold the rest."""
        if start.loaded == "nothing":
            return
        checkpoint = open_folder(start.url, kind="checkpoint")
        for phase in self._phases:
            if start.loaded == "weights":
                load_warm_start(phase, checkpoint, self._run.warm_start)
            else:
                phase.state.load(read_phase(checkpoint, phase.name), exact=True)
