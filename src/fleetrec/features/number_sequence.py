"""Sequences of numbers, padded."""

from collections.abc import Mapping

import numpy as np

from fleetrec.features.column import Column
from fleetrec.features.declared import DeclaredFeature
from fleetrec.features.steps import read_steps
from fleetrec.features.text_numbers import to_floats
from fleetrec.features.values import Numbers, to_offsets


class NumberSequenceFeature(DeclaredFeature, name="number_sequence"):
    """The number of steps, then ``step_width`` numbers for each of ``max_length`` steps."""

    def transform(self, columns: Mapping[str, Column]) -> Numbers:
        """Return the numbers; zeros where there is no step or a step has fewer numbers."""
        options = self.options
        column = columns[options.columns[0]]
        steps = read_steps(column, options)
        numbers = to_floats(steps.texts, column, reason="expected a finite number")
        if options.maximum > options.minimum:
            spread = np.float32(options.maximum - options.minimum)
            numbers = (numbers - np.float32(options.minimum)) / spread
        wide = np.flatnonzero(steps.counts > options.step_width)
        if len(wide):
            row = int(np.searchsorted(steps.offsets, wide[0], side="right")) - 1
            text = f"a step has {steps.counts[wide[0]]} numbers, expected {options.step_width}"
            raise column.bad(row, column.raw[row], text)
        lengths = np.diff(steps.offsets)
        values = np.zeros((len(lengths), options.width), np.float32)
        values[:, 0] = lengths
        within = np.arange(len(numbers)) - np.repeat(to_offsets(steps.counts)[:-1], steps.counts)
        places = 1 + steps.step_of_value() * options.step_width + within
        values[steps.row_of_value(), places] = numbers
        return Numbers(values=values, num_present=int(np.count_nonzero(lengths)))
