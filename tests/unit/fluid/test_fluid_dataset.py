"""Data sets of recorded variables."""

import pytest

from fleetrec import fleet, fluid
from fleetrec.core.errors import ConfigError


def test_variables_of_layers_become_inputs():
    dataset = fluid.DatasetFactory().create_dataset()
    price = fluid.layers.data("price", [3])
    item = fluid.layers.data("item", [1], dtype="int64", lod_level=1)
    dataset.set_use_var([price, item, fleet.data("click", [1], dtype="int64")])
    assert dataset.inputs.dense == {"price": (3,)}
    assert dataset.inputs.sparse == ("item", "click")


def test_other_variables_are_refused():
    dataset = fluid.DatasetFactory().create_dataset("InMemoryDataset")
    price = fluid.layers.data("price", [3])
    with pytest.raises(ConfigError, match="set_use_var: expected variables of fluid"):
        dataset.set_use_var([fluid.layers.relu(price)])
    with pytest.raises(ConfigError, match="no data set is called 'FileDataset'; known: Queue"):
        fluid.DatasetFactory().create_dataset("FileDataset")
