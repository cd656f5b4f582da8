"""Bases, deltas and what may be deleted."""

from pathlib import Path

import pytest

from fleetrec.config.rules import Rule
from fleetrec.core.errors import CheckpointError
from fleetrec.train.delta_chain import DeltaChain, chain_of, prune
from making_training import decode_run, make_config, train


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def publish(*names):
    for name in names:
        Path(name).mkdir(parents=True)
        Path(name, "MANIFEST.json").write_text("{}")


def test_every_nth_checkpoint_is_a_base():
    publish(*"abcd")
    chain = DeltaChain(3)
    parents = []
    for url in "abcd":
        parents.append(chain.parent_of(url))
        chain.add(url, is_delta=parents[-1] is not None)
    assert parents == [None, "a", "b", None]


def test_a_delta_may_be_asked_for_though_a_base_is_due():
    publish("a")
    chain = DeltaChain(1)
    assert chain.parent_of("a", must_be_delta=True) is None  # there is nothing before it
    chain.add("a", is_delta=False)
    assert chain.parent_of("b") is None
    assert chain.parent_of("b", must_be_delta=True) == "a"


def test_a_checkpoint_that_replaces_one_it_would_build_on_is_a_base():
    publish("a", "b")
    chain = DeltaChain(9)
    chain.load(["a", "b"])
    assert chain.parent_of("c") == "b"
    assert chain.parent_of("a") is None


def test_a_chain_with_a_missing_part_is_not_continued():
    publish("b")
    chain = DeltaChain(9)
    chain.load(["a", "b"])
    assert chain.parent_of("c") is None


@pytest.fixture
def deltas(tmp_path):
    """Checkpoints 2, 4, 6, 8, 10; bases are 2 and 8."""
    config = make_config(tmp_path, epochs=2, save_checkpoint_path="")
    rule = Rule(when="steps", every=2, do="checkpoint", path="c/ckpt-{step}")
    update = {"rules": (rule,), "checkpoint_base_interval": 3}
    train(decode_run(config).model_copy(update=update), Path("run"))


def names():
    return sorted((path.name for path in Path("c").iterdir()), key=lambda n: int(n[5:]))


@pytest.mark.usefixtures("deltas")
def test_a_chain_leads_from_the_base_to_the_checkpoint():
    chain = [Path(url).name for url in chain_of("c/ckpt-6")]
    assert chain == ["ckpt-2", "ckpt-4", "ckpt-6"]
    assert chain_of("c/ckpt-8") == ["c/ckpt-8"]


@pytest.mark.usefixtures("deltas")
@pytest.mark.parametrize(
    ("keep", "left"), [(1, [8, 10]), (2, [8, 10]), (3, [2, 4, 6, 8, 10]), (9, [2, 4, 6, 8, 10])]
)
def test_pruning_keeps_what_a_delta_that_stays_needs(keep, left):
    prune("c/ckpt-{step}", keep=keep)
    assert names() == [f"ckpt-{step}" for step in left]


@pytest.mark.usefixtures("deltas")
def test_a_delta_without_its_parent_is_an_error():
    for path in Path("c/ckpt-4").rglob("*"):
        if path.is_file():
            path.unlink()
    with pytest.raises(CheckpointError):
        chain_of("c/ckpt-6")
