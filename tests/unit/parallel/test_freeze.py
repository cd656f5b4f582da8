"""Parameters and tables that are not trained."""

import pytest

from fleetrec.core.errors import ConfigError
from fleetrec.parallel.freeze import freeze
from fleetrec.parallel.state import SavedModel
from making import write_tables
from making_groups import make_batch, make_model, solo

NAMES = ("out.weight", "t")


def test_named_parameters_have_no_gradient_and_named_tables_are_returned():
    model = make_model()
    assert freeze(model, ["t"], NAMES) == {"t"}
    assert not model.out.weight.requires_grad
    assert model.out.bias.requires_grad


def test_names_that_the_model_does_not_have_are_refused_with_those_it_has():
    with pytest.raises(ConfigError, match=r"has no inn\.weight, u; known: out\.bias, out\.weight"):
        freeze(make_model(), ["t"], ["u", "inn.weight"])


@pytest.mark.parametrize("frozen", [(), ("t",), ("out.weight",), NAMES])
def test_a_step_moves_what_is_not_frozen(frozen, tmp_path):
    with solo() as first, solo(frozen=frozen) as member:
        for _ in range(2):
            first.train(make_batch([1, 2, 3]))
        tables = write_tables(first.state, tmp_path)
        tensors = {"model": first.model.state_dict()}
        member.state.load(SavedModel(tensors=tensors, tables=tables), exact=False)
        before = _state(member)
        member.train(make_batch([1, 2, 3]))
        after = _state(member)
    assert {name for name in before if before[name] != after[name]} == {
        "out.weight",
        "out.bias",
        "t",
    } - set(frozen)


def _state(member):
    rows = member.state.export_rows()["t"]["rows"].tolist()
    return {name: value.tolist() for name, value in member.model.state_dict().items()} | {"t": rows}
