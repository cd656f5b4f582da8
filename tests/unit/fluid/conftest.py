"""Programs of Fluid that each test has for itself."""

import pytest

from fleetrec import fluid


@pytest.fixture(autouse=True)
def own_program():
    """Record layers in a new program."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        yield
