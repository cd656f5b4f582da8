"""Which rows go to serving."""

import pytest
from pydantic import ValidationError

from fleetrec.config.serving import ServingOptions, serving_problems


def test_a_threshold_of_changes_needs_a_table_that_counts_them():
    options = ServingOptions(delta_threshold=0.25)
    assert serving_problems(options, has_delta_score=True) == {}
    (problem,) = serving_problems(options, has_delta_score=False).values()
    assert "does not count changes since the last publication, got 0.25" in problem
    assert serving_problems(ServingOptions(), has_delta_score=False) == {}


@pytest.mark.parametrize("name", list(ServingOptions.model_fields))
def test_numbers_below_0_are_refused(name):
    with pytest.raises(ValidationError, match="greater than or equal to 0"):
        ServingOptions(**{name: -1})
