"""How many ids each step of a sequence has."""

from collections.abc import Mapping

import numpy as np

from fleetrec.features.column import Column
from fleetrec.features.declared import DeclaredFeature
from fleetrec.features.steps import read_steps
from fleetrec.features.values import Numbers


class StepCountsFeature(DeclaredFeature, name="step_counts"):
    """The number of ids of each of the ``max_length`` steps; 0 after the last."""

    def transform(self, columns: Mapping[str, Column]) -> Numbers:
        """Return one number per step."""
        steps = read_steps(columns[self.options.columns[0]], self.options)
        lengths = np.diff(steps.offsets)
        values = np.zeros((len(lengths), self.options.width), np.float32)
        rows = np.repeat(np.arange(len(lengths)), lengths)
        places = np.arange(len(steps.counts)) - np.repeat(steps.offsets[:-1], lengths)
        values[rows, places] = steps.counts
        return Numbers(values=values, num_present=int(np.count_nonzero(lengths)))
