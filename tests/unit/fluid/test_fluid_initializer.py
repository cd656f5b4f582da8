"""First weights."""

import math

import pytest
import torch

from fleetrec.core.errors import ConfigError
from fleetrec.fluid import initializer
from fleetrec.fluid.initializer import first_values

SHAPE = (300, 100)


@pytest.mark.parametrize(
    ("initial", "mean", "deviation", "largest"),
    [
        (initializer.Constant(0.5), 0.5, 0, 0.5),
        (initializer.Uniform(0.0, 3.0), 1.5, math.sqrt(0.75), 3),
        (initializer.Normal(1.0, 0.5), 1, 0.5, math.inf),
        (initializer.TruncatedNormal(0.0, 1.0), 0, 0.88, 2),
        (initializer.Xavier(), 0, math.sqrt(2 / 400), math.sqrt(6 / 400)),
        (initializer.Xavier(uniform=False), 0, math.sqrt(2 / 400), math.inf),
        (initializer.MSRA(), 0, math.sqrt(2 / 300), math.sqrt(6 / 300)),
    ],
)
def test_values_have_the_distribution(initial, mean, deviation, largest):
    values = first_values(initial, SHAPE, torch.Generator().manual_seed(0))
    assert float(values.mean()) == pytest.approx(mean, abs=0.02 * max(deviation, 0.01))
    assert float(values.std()) == pytest.approx(deviation, rel=0.02)
    assert float(values.max()) <= largest + 1e-6


def test_a_seed_of_its_own_replaces_that_of_the_program():
    initial = initializer.Normal(seed=3)
    first, second = (
        first_values(initial, (4,), torch.Generator().manual_seed(seed)) for seed in (0, 1)
    )
    assert torch.equal(first, second)


def test_bounds_in_the_wrong_order_are_refused():
    with pytest.raises(ConfigError, match="high 0 is below low 1"):
        initializer.Uniform(1.0, 0.0)
