"""Names of Fluid that are not available."""

import importlib

import pytest

from fleetrec import fluid
from fleetrec.core.errors import UnavailableError

PLACES = (
    "fluid",
    "fluid.layers",
    "fluid.io",
    "fluid.initializer",
    "fluid.optimizer",
    "fluid.transpiler",
    "fluid.transpiler.distribute_transpiler",
    "fluid.incubate.fleet.base.role_maker",
    "fluid.incubate.fleet.parameter_server.distribute_transpiler",
    "fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy",
)


@pytest.mark.parametrize("place", PLACES)
def test_what_is_not_there_is_named_with_what_is(place):
    module = importlib.import_module(f"fleetrec.{place}")
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(UnavailableError, match=r"\.foo: not available; available: \w+"):
        _ = module.foo
    assert not hasattr(module, "__foo__")


def test_a_misspelt_layer_is_named():
    with pytest.raises(
        UnavailableError, match=r"fluid\.layers\.sequence_pol: .* mean 'sequence_pool'"
    ):
        _ = fluid.layers.sequence_pol


def test_objects_name_what_they_lack():
    objects = (
        fluid.layers.data("x", shape=[1]),
        fluid.Program(),
        fluid.Executor(fluid.CPUPlace()),
        fluid.DatasetFactory().create_dataset(),
        fluid.DatasetFactory().create_dataset("InMemoryDataset"),
    )
    for one in objects:
        with pytest.raises(UnavailableError, match=r"\.foo: not available; available: \w+"):
            _ = one.foo


def test_a_gpu_is_refused():
    with pytest.raises(UnavailableError, match=r"CUDAPlace\(0\): .* use fluid\.CPUPlace\(\)"):
        fluid.CUDAPlace(0)
