import math

import pytest

from fleetrec.config.job import OptimizerOptions
from fleetrec.config.schedules import (
    CosineDecay,
    ExponentialDecay,
    ManualSteps,
    PolynomialDecay,
    Transformer,
)
from fleetrec.optim.schedule import learning_rate


def rates(lr, schedule, steps):
    options = OptimizerOptions(lr=lr, schedule=schedule)
    return [learning_rate(options, step) for step in steps]


def test_a_constant_rate_stays():
    assert rates(0.5, None, [0, 10**9]) == [0.5, 0.5]


def test_exponential_decay_goes_down_in_stairs():
    schedule = ExponentialDecay(decay_steps=10, factor=0.5)
    assert rates(1.0, schedule, [0, 9, 10, 19, 20]) == [1.0, 1.0, 0.5, 0.5, 0.25]


def test_exponential_decay_may_be_smooth_and_has_a_floor():
    schedule = ExponentialDecay(decay_steps=10, factor=0.25, staircase=False, min_lr=0.2)
    assert rates(1.0, schedule, [5, 10, 100]) == [0.5, 0.25, 0.2]


def test_burn_in_leads_in_a_line_to_the_first_rate():
    schedule = ExponentialDecay(decay_steps=10, factor=0.5, burnin_lr=0.1, burnin_steps=4)
    assert rates(0.5, schedule, [0, 1, 3, 4, 13, 14]) == pytest.approx(
        [0.1, 0.2, 0.4, 0.5, 0.5, 0.25]
    )


def test_burn_in_without_a_rate_is_the_first_rate():
    schedule = ExponentialDecay(decay_steps=10, factor=0.5, burnin_steps=4)
    assert rates(0.5, schedule, [0, 3, 4, 14]) == [0.5, 0.5, 0.5, 0.25]


def test_rates_by_hand_change_at_their_steps():
    schedule = ManualSteps(steps=(4, 6), rates=(0.4, 0.2))
    assert rates(0.8, schedule, [0, 3, 4, 5, 6, 100]) == [0.8, 0.8, 0.4, 0.4, 0.2, 0.2]


def test_rates_by_hand_may_warm_up():
    schedule = ManualSteps(steps=(4, 6), rates=(0.4, 0.2), warmup=True)
    assert rates(0.0, schedule, [0, 1, 2, 4]) == pytest.approx([0.0, 0.1, 0.2, 0.4])


def test_cosine_decay_warms_up_holds_and_ends_in_zero():
    schedule = CosineDecay(total_steps=20, warmup_lr=0.2, warmup_steps=4, hold_steps=6)
    found = rates(1.0, schedule, [0, 2, 4, 9, 10, 15, 20, 21])
    assert found == pytest.approx([0.2, 0.6, 1.0, 1.0, 1.0, 0.5, 0.0, 0.0])


def test_polynomial_decay_ends_in_its_last_rate():
    schedule = PolynomialDecay(total_steps=10, power=2, end_lr=0.1)
    assert rates(1.1, schedule, [0, 5, 10, 99]) == pytest.approx([1.1, 0.35, 0.1, 0.1])


def test_the_transformer_rate_peaks_after_its_warm_up():
    schedule = Transformer(hidden_size=4, warmup_steps=9)
    found = rates(2.0, schedule, [0, 8, 15])
    assert found == pytest.approx([1 / 27, 9 / 27, 1 / math.sqrt(16)])


def test_the_transformer_rate_may_count_faster():
    schedule = Transformer(hidden_size=4, warmup_steps=2, step_scale=4.0)
    assert rates(2.0, schedule, [0, 6]) == pytest.approx([8**-1.5, 25**-0.5])
