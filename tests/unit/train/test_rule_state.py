"""What rules remember."""

import math

from fleetrec.config.rules import Rule
from fleetrec.train.rule_state import RuleState, RuleStateFile

STOP = Rule(when="passes", do="early_stop", metric="AUC", patience=2)


def evaluated(*values, minimize=False):
    state = RuleState()
    for step, value in enumerate(values, start=1):
        state = state.evaluated({"AUC": value}, step=step, tracked={"AUC": minimize})
    return state


def test_the_best_value_counts_the_evaluations_since():
    best = evaluated(0.6, 0.7, 0.7, 0.65).best["AUC"]
    assert (best.value, best.step, best.num_since) == (0.7, 2, 2)


def test_lower_is_better_where_the_metric_is_minimized():
    assert evaluated(0.6, 0.5, 0.7, minimize=True).best["AUC"].step == 2


def test_only_an_improvement_is_the_best():
    assert evaluated(0.6, 0.7).is_best("AUC")
    assert not evaluated(0.7, 0.7).is_best("AUC")


def test_patience_is_over_after_that_many_evaluations():
    assert not evaluated(0.7, 0.6).is_exhausted(STOP)
    assert evaluated(0.7, 0.6, 0.7).is_exhausted(STOP)
    assert not evaluated(0.7, 0.6, 0.8).is_exhausted(STOP)


def test_a_value_that_is_undefined_is_never_the_best():
    state = evaluated(math.nan, 0.5, math.nan)
    assert (state.best["AUC"].step, state.best["AUC"].num_since) == (2, 1)
    assert not evaluated(math.nan).is_best("AUC")


def test_a_state_is_the_same_after_a_manifest_which_has_no_nan():
    state = evaluated(0.6, 0.7, 0.65)
    assert RuleState.from_dict(state.to_dict()) == state
    plain = evaluated(0.6, math.nan).to_dict() | {"metrics": {"AUC": None}}
    assert math.isnan(RuleState.from_dict(plain).metrics["AUC"])
    assert RuleState.from_dict({}) == RuleState()


def test_the_file_keeps_the_state_for_the_next_process(tmp_path):
    file = RuleStateFile(tmp_path / "state" / "rules")
    assert file.read() == RuleState()
    file.write(evaluated(0.6))
    assert RuleStateFile(tmp_path / "state" / "rules").read() == evaluated(0.6)
    file.clear()
    assert file.read() == RuleState()
