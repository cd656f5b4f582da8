"""Phases in one process, as a run builds them, and single steps with them."""

import torch

from fleetrec.core.progress import Progress
from fleetrec.parallel.solo import SoloGroup
from fleetrec.train.phase import Phase, build_phase


def phase_of(options, run) -> Phase:
    """Build a phase for this process alone."""
    return build_phase(options, run, SoloGroup(torch.device("cpu")))


def train(phase, batch, *, step=1):
    """Train on one batch; ``step`` seeds dropout."""
    return phase.stepper.train(batch, progress=Progress(step=step))


def evaluate(phase, batch):
    """Return the outputs of one batch."""
    with phase.stepper.evaluating():
        return phase.stepper.evaluate(batch).outputs


def dense_state(phase):
    """Return the tensors that a checkpoint holds of a phase, beside its tables."""
    cut = phase.state.cut(parent=None)
    cut.finish(published=False)
    return cut.dense
