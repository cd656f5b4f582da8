"""Log lines of both dialects, and the list of what was saved."""

import logging

import pytest

from fleetrec.cli.observers import OutputsObserver, log_observer
from fleetrec.config.job import RunOptions
from fleetrec.train.events import PassDone

DONE = PassDone(
    kind="infer",
    phase="eval",
    epoch="model.ckpt-5",
    seconds=1.0,
    samples_per_s=2.0,
    metrics={"auc": 0.5},
    tables={},
)


@pytest.mark.parametrize(
    ("style", "line"),
    [
        ("steps", "eval of model.ckpt-5: auc = 0.5, 1.00 s"),
        (
            "epochs",
            "Infer eval of epoch model.ckpt-5 done, use time: 1.00, global metrics: auc=[0.5], "
            "samples/s: 2",
        ),
    ],
)
def test_a_run_logs_in_the_words_of_its_dialect(caplog, style, line):
    caplog.set_level(logging.INFO, logger="fleetrec")
    run = RunOptions(name="run", kind="train", phases=(), log_style=style)
    log_observer(run).pass_done(DONE)
    assert caplog.messages == [line]


def test_the_newest_of_every_kind_is_listed(caplog):
    caplog.set_level(logging.INFO, logger="fleetrec")
    outputs = OutputsObserver()
    outputs.saved("inference model", "out/0", epoch=0)
    outputs.saved("checkpoint", "ckpt/0", epoch=0)
    outputs.saved("checkpoint", "ckpt/1", epoch=1)
    outputs.log()
    assert caplog.messages == ["checkpoint:      ckpt/1", "inference model: out/0"]
