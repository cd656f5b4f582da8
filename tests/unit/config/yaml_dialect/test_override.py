"""``-o key=value`` changes any key of a job file; bad forms say what is wrong with them."""

from pathlib import Path

import pytest

from fleetrec.config.document import parse_document
from fleetrec.config.yaml_dialect.override import override
from fleetrec.core.errors import ConfigError

TEXT = """\
mode: train
runner:
- name: train
  epochs: 2
- name: 1
  epochs: 3
hyper_parameters:
  fc_sizes: [8, 4]
"""


def changed(*assignments):
    return override(parse_document(TEXT, path=Path("job.yaml")), assignments)


def problems(*assignments):
    with pytest.raises(ConfigError) as caught:
        changed(*assignments)
    return list(caught.value.problems)


def test_a_key_is_changed():
    assert changed("mode=infer").data["mode"] == "infer"


def test_an_element_of_a_list_goes_by_name():
    assert changed("runner.train.epochs=5").data["runner"][0] == {"name": "train", "epochs": 5}


def test_a_name_that_looks_like_a_number_goes_before_the_index():
    data = changed("runner.1.epochs=5").data
    assert [entry["epochs"] for entry in data["runner"]] == [2, 5]


def test_an_element_of_a_list_goes_by_index():
    assert changed("runner.0.epochs=5").data["runner"][0]["epochs"] == 5
    assert changed("hyper_parameters.fc_sizes.1=7").data["hyper_parameters"]["fc_sizes"] == [8, 7]


def test_a_new_key_is_added_with_its_parents():
    data = changed("train.strategy.mode.push_num=5").data
    assert data["train"] == {"strategy": {"mode": {"push_num": 5}}}


def test_a_value_is_read_as_yaml():
    data = changed("a=[x, 2]", "b={c: yes}", "d=1e-3", "e=", "f='1'").data
    assert data["a"] == ["x", 2]
    assert data["b"] == {"c": True}
    assert float(data["d"]) == 0.001
    assert data["e"] is None
    assert data["f"] == "1"


def test_a_value_may_hold_an_equals_sign():
    assert changed("a=b=c").data["a"] == "b=c"


def test_a_value_may_begin_with_the_workspace():
    assert changed("mode={workspace}/x").data["mode"] == "{workspace}/x"


def test_the_last_assignment_counts():
    assert changed("mode=a", "mode=b").data["mode"] == "b"


def test_assignments_may_build_on_each_other():
    assert changed("a={b: 1}", "a.c=2").data["a"] == {"b": 1, "c": 2}


def test_the_document_itself_does_not_change():
    document = parse_document(TEXT, path=Path("job.yaml"))
    override(document, ["runner.train.epochs=5"])
    assert document.data["runner"][0]["epochs"] == 2


def test_a_changed_value_is_blamed_on_the_command_line():
    document = changed("runner.train.epochs=5")
    assert document.where(("runner", 0, "epochs")) == "-o"
    assert document.where(("runner", 0, "name")) == "job.yaml:3"


def test_what_lies_below_a_changed_value_is_blamed_on_the_command_line():
    document = changed("runner.0={name: train, epochs: x}")
    assert document.where(("runner", 0, "epochs")) == "-o"
    assert document.where(("runner", 1, "epochs")) == "job.yaml:6"


@pytest.mark.parametrize("assignment", ["mode", "=5", "", ".=5", "a..b=5", ".a=5", "a.=5"])
def test_a_form_that_is_not_key_value_is_refused(assignment):
    assert problems(assignment) == [f"-o {assignment}: expected key=value"]


def test_an_unknown_element_is_refused_with_a_hint():
    assert problems("runner.trainn.epochs=5") == [
        "-o runner.trainn.epochs=5: no element is called 'trainn'; did you mean 'train'?"
    ]


@pytest.mark.parametrize("index", ["2", "-1", "99999999999999999999"])
def test_an_index_outside_the_list_is_refused(index):
    (problem,) = problems(f"runner.{index}.epochs=5")
    assert problem.startswith(f"-o runner.{index}.epochs=5: no element is called '{index}'")


def test_nothing_can_lie_below_a_number():
    assert problems("runner.train.epochs.x=5") == [
        "-o runner.train.epochs.x=5: 'x' would lie below the value 2"
    ]


def test_a_value_that_is_not_yaml_is_refused_with_its_assignment():
    (problem,) = problems("mode=[a")
    assert problem.startswith("-o mode=[a: not valid YAML: ")


def test_all_bad_assignments_are_told_at_once():
    assert len(problems("mode", "runner.x.epochs=1", "mode=ok")) == 2
