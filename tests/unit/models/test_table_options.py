"""Options of tables: rules that could never hold are refused before anything starts."""

import pytest
from pydantic import ValidationError

from fleetrec.models.table_options import AdmissionOptions


@pytest.mark.parametrize(
    "options",
    [
        {"kind": "always", "threshold": 1e9},
        {"kind": "count", "threshold": 65535},
        {"kind": "probability", "threshold": 1},
        {"kind": "score", "threshold": 65535, "click_weight": 1},
        {"kind": "score", "threshold": 1e6, "show_weight": 20},
    ],
)
def test_a_threshold_that_can_be_reached_is_taken(options):
    assert AdmissionOptions(**options).build().threshold == options["threshold"]


@pytest.mark.parametrize(
    ("options", "highest"),
    [
        ({"kind": "count", "threshold": 65535.5}, "65535"),
        ({"kind": "probability", "threshold": 1.5}, "1"),
        ({"kind": "score", "threshold": 6554, "click_weight": 0.1}, "6553.5"),
        ({"kind": "score", "threshold": 1, "show_weight": -1, "click_weight": 0}, "0"),
    ],
)
def test_a_threshold_that_no_id_reaches_is_refused(options, highest):
    with pytest.raises(ValidationError, match=f"of at most {highest} for {options['kind']}, got"):
        AdmissionOptions(**options)
