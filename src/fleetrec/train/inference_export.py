"""Publishes inference models of the live weights of a run."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from fleetrec.config.job import RunOptions
from fleetrec.core import storage
from fleetrec.core.progress import Progress
from fleetrec.export.assets import ASSET_FILES, read_assets
from fleetrec.export.folding import FoldTables
from fleetrec.export.inference import SAVE_INFERENCE, InferenceModel, plan_inference
from fleetrec.parallel.group import Group
from fleetrec.parallel.on_chief import on_chief
from fleetrec.train.context import RunContext
from fleetrec.train.pass_plan import last_pass_index
from fleetrec.train.phase import Phase


def plan_inference_of(run: RunOptions, phases: Sequence[Phase]) -> dict[str, InferenceModel]:
    """Return the inference models that a run writes, by phase, with feed and fetch names checked.

    Empty if no rule of the run writes any.
    """
    if not any(rule.do in ("inference", "serving") for rule in run.rules):
        return {}
    is_written = any(rule.do == "inference" for rule in run.rules)
    options = run.inference
    fold = FoldTables(max_mib=options.fold_mib, is_required=False) if options.fold_mib else None
    assets = read_assets(options.assets, option=ASSET_FILES)
    return {
        phase.name: plan_inference(
            phase.model,
            phase.loader.inputs,
            feeds=options.feeds,
            fetches=options.fetches,
            rules=phase.loader.input_rules,
            row_type=options.rows,
            fold=fold,
            assets=assets,
            option=SAVE_INFERENCE if is_written else "a rule for serving models",
        )
        for phase in phases
    }


class InferenceExport:
    """Publishes inference models; every process of ``group`` makes the same calls."""

    def __init__(
        self,
        plans: Mapping[str, InferenceModel],
        phases: Sequence[Phase],
        group: Group,
        context: RunContext,
    ) -> None:
        self._plans = plans
        self._phases = phases
        self._group = group
        self._context = context

    def write(self, url: str, progress: Progress) -> None:
        """Publish the models of all phases, with the weights of this moment."""
        for phase in self._phases:
            target = url if len(self._phases) == 1 else storage.join(url, phase.name)
            with phase.stepper.evaluating():  # the weights of the group
                rows = phase.state.export_rows()
                self._write(phase, target, rows, progress)
            if self._group.is_chief:
                epoch = last_pass_index(progress)
                self._context.observer.saved("inference model", target, epoch=epoch)

    def _write(
        self,
        phase: Phase,
        target: str,
        rows: Mapping[str, Mapping[str, Tensor]],
        progress: Progress,
    ) -> None:
        def write() -> str:
            self._plans[phase.name].write(target, rows)
            return ""

        key = f"inference/{phase.name}/{progress.step}"
        on_chief(self._group, write, key=key, pass_index=progress.pass_index)
