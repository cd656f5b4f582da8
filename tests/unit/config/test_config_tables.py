"""Options of tables that could never hold are refused."""

import pytest
from pydantic import ValidationError

from fleetrec.config.tables import AdmissionOptions, SparseOptimizerOptions, TableOverrides


def test_options_of_a_table_survive_a_round_trip():
    options = TableOverrides.model_validate(
        {
            "admission": {"kind": "ctr", "show_weight": 0.2},
            "eviction": {"max_rows": 5},
            "optimizer": {"class": "ctr_adagrad", "learning_rate": 0.1},
            "long_vector": {"threshold": 3},
        }
    )
    assert TableOverrides.model_validate(options.to_plain()) == options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "ctr", "threshold": 3}, "ctr has no threshold"),
        ({"kind": "ctr", "show_weight": 0, "click_weight": 0}, "ctr needs a show_weight or click"),
    ],
)
def test_a_rule_by_ctr_that_cannot_be_is_refused(options, message):
    with pytest.raises(ValidationError, match=message):
        AdmissionOptions(**options)


def test_a_sum_of_squares_that_begins_at_zero_is_refused():
    options = {"class": "ctr_adagrad", "learning_rate": 1, "settings": {"initial_g2sum": 0}}
    with pytest.raises(ValidationError, match="initial_g2sum: expected a number above 0"):
        SparseOptimizerOptions.model_validate(options)
