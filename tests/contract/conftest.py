"""Many models are exported here."""

import pytest

from warm_start import keep_onnx_registry


@pytest.fixture(scope="session", autouse=True)
def onnx_registry():
    keep_onnx_registry()
