"""All problems of a file at once, each with its line, its path and what was probably meant."""

from typing import Literal

import pytest
from pydantic import Field, ValidationError

from fleetrec.config.document import read_document
from fleetrec.config.options import Options
from fleetrec.config.problems import Problems, hint, meant
from fleetrec.core.errors import ConfigError

TEXT = """\
runner:
  - name: train
    epochs: many
    clas: train
  - phases: []
    class: trainr
"""


class Saving(Options):
    """A part of a runner."""

    path: str = ""


class Runner(Options):
    """What the runners of the file should be."""

    name: str
    epochs: int = 1
    kind: Literal["train", "infer"] = Field(default="train", alias="class")
    phases: tuple[str, ...] = Field(default=("all",), min_length=1)
    saving: Saving = Saving()


@pytest.fixture
def document(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(TEXT)
    return read_document(path)


def problems_of(problems):
    with pytest.raises(ConfigError) as caught:
        problems.check()
    return [problem.rpartition("job.yaml:")[2] for problem in caught.value.problems]


def test_problems_come_in_the_order_of_their_lines_with_names_in_their_paths(document):
    problems = Problems(document)
    for index in (1, 0):
        with pytest.raises(ValidationError) as caught:
            Runner.model_validate(document.data["runner"][index])
        problems.note_validation(caught.value, at=("runner", index), want=Runner)
    found = problems_of(problems)
    assert [one.split(": ", 1)[1] for one in found if "name" not in one.split(": ")[1]] == [
        "runner.train.epochs: expected a valid integer, unable to parse string as an integer, "
        "got 'many'",
        "runner.train.clas: unknown key; did you mean 'class'?",
        "runner[1].phases: expected at least 1 entry, got []",
        "runner[1].class: expected 'train' or 'infer', got 'trainr'; did you mean 'train'?",
    ]
    assert any(one.endswith("runner[1].name: required, but missing") for one in found)
    lines = [int(one.split(":")[0]) for one in found]
    assert lines == sorted(lines)


def test_a_problem_that_is_noted_twice_is_reported_once(document):
    problems = Problems(document)
    for _ in range(2):
        problems.note(("runner", 0, "epochs"), "too many")
    (found,) = problems_of(problems)
    assert found.startswith("3:")
    assert found.endswith("runner.train.epochs: too many")


def test_a_file_without_problems_is_accepted(document):
    Problems(document).check()


def test_what_was_meant_is_proposed_and_otherwise_what_is_known():
    assert meant("epoch", ["epochs", "name"]) == "; did you mean 'epochs'?"
    assert meant("colour", ["epochs", "name"]) == ""
    assert hint("epoch", ["name", "epochs"]) == "; did you mean 'epochs'?"
    assert hint("colour", ["name", "epochs"]) == "; known: epochs, name"
    assert hint("colour", []) == ""
