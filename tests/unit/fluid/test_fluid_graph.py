"""What layers record."""

import copy

import pytest

from fleetrec import fluid
from fleetrec.core.errors import ConfigError


def dense(name="x", width=4):
    return fluid.layers.data(name, shape=[width])


def test_shapes_and_dtypes_follow_from_the_layers():
    x = dense()
    assert (x.name, x.shape, x.dtype, x.lod_level) == ("x", (-1, 4), "float32", 0)
    hidden = fluid.layers.fc(x, size=3, act="relu")
    assert hidden.shape == (-1, 3)
    assert fluid.layers.mean(hidden).shape == (1,)
    assert fluid.layers.reshape(hidden, [-1]).shape == (-1,)
    assert fluid.layers.concat([x, hidden], axis=1).shape == (-1, 7)
    assert fluid.data("n", [None, 1], dtype="int64", lod_level=1).lod_level == 1


def test_variables_and_weights_have_the_names_of_fluid():
    first, second = (fluid.layers.fc(dense(name), size=2) for name in "xy")
    assert (first.name, second.name) == ("fc_0.tmp_0", "fc_1.tmp_0")
    assert list(fluid.default_main_program().weights) == [
        "fc_0.w_0",
        "fc_0.b_0",
        "fc_1.w_0",
        "fc_1.b_0",
    ]


def test_weights_and_tables_of_one_name_are_shared_if_they_fit():
    x, y = dense(), dense("y", width=5)
    fluid.layers.fc(x, size=2, param_attr="shared", bias_attr=False)
    fluid.layers.fc(x, size=2, param_attr="shared", bias_attr=False)
    assert list(fluid.default_main_program().weights) == ["shared"]
    with pytest.raises(ConfigError, match=r"parameter shared: has shape \[4, 2\], not \[5, 2\]"):
        fluid.layers.fc(y, size=2, param_attr="shared")
    ids = fluid.layers.data("ids", [1], dtype="int64", lod_level=1)
    fluid.layers.embedding(ids, [10, 4], param_attr="rows")
    with pytest.raises(ConfigError, match=r"table rows: has size \[10, 4\], not \[10, 5\]"):
        fluid.layers.embedding(ids, [10, 5], param_attr="rows")


def test_what_does_not_fit_is_an_error_at_the_layer():
    x, y = dense(), dense("y", width=5)
    with pytest.raises(ConfigError, match=r"elementwise_add: does not fit .* x \[-1, 4\], y"):
        fluid.layers.elementwise_add(x, y)
    with pytest.raises(ConfigError, match=r"elementwise_mul: does not fit"):
        x * y
    with pytest.raises(ConfigError, match=r"fluid\.layers\.relu: expected a variable, got a list"):
        fluid.layers.relu([x])
    with pytest.raises(ConfigError, match="a variable has this name already"):
        dense()
    with fluid.program_guard(fluid.Program()):
        other = dense()
    with pytest.raises(ConfigError, match="x is a variable of another program"):
        x + other


def test_lists_of_ids_are_looked_up_and_pooled_first():
    ids = fluid.layers.data("ids", [1], dtype="int64", lod_level=1)
    with pytest.raises(ConfigError, match=r"ids is a list of ids; look it up with"):
        fluid.layers.cast(ids, "float32")
    rows = fluid.layers.embedding(ids, [10, 4])
    with pytest.raises(ConfigError, match=r"is a sequence; pool it with"):
        fluid.layers.fc(rows, size=2)


def test_copies_describe_the_same_variables():
    x = dense()
    assert copy.deepcopy([x])[0] is x
    assert copy.deepcopy(x.program) is x.program
