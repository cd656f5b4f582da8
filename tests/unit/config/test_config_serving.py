"""Which rows go to serving."""

import pytest
from pydantic import ValidationError

from fleetrec.config.serving import ServingOptions


@pytest.mark.parametrize("name", list(ServingOptions.model_fields))
def test_numbers_below_0_are_refused(name):
    with pytest.raises(ValidationError, match="greater than or equal to 0"):
        ServingOptions(**{name: -1})
