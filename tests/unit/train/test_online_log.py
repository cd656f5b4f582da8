"""Log lines of online runs."""

import logging
import math

import pytest

from fleetrec.train.events import Interval, PassDone, StepInfo
from fleetrec.train.online_log import OnlineLogObserver
from unit.train.making_passes import make_evaluated, make_table, make_trained


@pytest.fixture
def observer(caplog):
    caplog.set_level(logging.INFO, logger="fleetrec")
    return OnlineLogObserver(num_phases=1)


def test_an_evaluation_has_the_metrics_that_matter(observer, caplog):
    observer.pass_done(make_evaluated(1))
    assert caplog.messages == [
        "pass 20261118/0005 evaluated before training: AUC 0.75, GAUC 0.7, COPC 0.8, LOGLOSS 0.5"
    ]


def test_a_line_says_why_auc_is_undefined(observer, caplog):
    undefined = {"AUC": math.nan, "GAUC": math.nan, "COPC": 0.0, "ACTUAL_CTR": 0.0}
    observer.pass_done(make_evaluated(**undefined))
    observer.pass_done(make_evaluated(**{**undefined, "ACTUAL_CTR": 0.5}))
    assert (
        "AUC undefined (no positive label), GAUC undefined (no positive label), COPC 0,"
        in (caplog.messages[0])
    )
    assert "AUC undefined, GAUC undefined, COPC 0," in caplog.messages[1]


def test_a_trained_pass_has_changes_of_tables_and_its_delay(observer, caplog):
    observer.pass_done(make_trained(0, tables={"t": make_table(150, created=150)}))
    table = make_table(160, created=180, evicted=20, candidates=7)
    observer.pass_done(make_trained(1, delay_s=90.0, tables={"t": table}))
    observer.pass_done(make_trained(2, delay_s=None, AUC=math.nan, ACTUAL_CTR=1.0))
    assert caplog.messages == [
        "pass 20261118/0000 trained: 100 samples in 2.00 s, LOSS 0.5, AUC 0.75, t 150 rows, "
        "delay 30s",
        "pass 20261118/0005 trained: 100 samples in 2.00 s, LOSS 0.5, AUC 0.75, t 160 rows "
        "(+30 -20), 7 waiting, delay 1m30s",
        "pass 20261118/0010 trained: 100 samples in 2.00 s, LOSS 0.5, AUC undefined (no negative "
        "label)",
    ]


def test_what_is_saved_is_named_by_its_pass(observer, caplog):
    observer.saved("checkpoint", "model/20261118/3", epoch=2)  # of an earlier process
    observer.pass_done(make_trained(3))
    observer.saved("serving model", "model/20261118/delta-4", epoch=3)
    assert caplog.messages[0] == "checkpoint saved in model/20261118/3"
    assert caplog.messages[2] == (
        "pass 20261118/0015: serving model saved in model/20261118/delta-4"
    )


def test_progress_is_that_of_the_pass(observer, caplog):
    info = StepInfo(
        kind="train",
        phase="learn",
        epoch=1,
        batch=20,
        step=80,
        samples=640,
        fraction=0.0,
        pass_name="20261118/0005",
    )
    metrics = {"AUC": 0.7, "BATCH_AUC": 0.6, "LOSS": 0.51234}
    costs = {"reader_cost": 0.25}
    observer.interval(
        Interval(
            info=info,
            seconds=1.0,
            samples_per_s=640.0,
            eta_s=math.inf,
            metrics=metrics,
            costs=costs,
            tables={},
        )
    )
    assert caplog.messages == [
        "pass 20261118/0005, batch 20: LOSS 0.5123, AUC 0.7, reader_cost 0.25 s, 640 samples/s"
    ]


def test_phases_are_named_if_there_are_several(caplog):
    caplog.set_level(logging.INFO, logger="fleetrec")
    OnlineLogObserver(num_phases=2).pass_done(make_evaluated(phase="rank"))
    assert caplog.messages[0].startswith("pass 20261118/0000 rank evaluated")


def test_an_evaluation_that_is_not_of_a_pass_has_the_line_of_other_runs(observer, caplog):
    done = PassDone(
        kind="infer",
        phase="eval",
        epoch="3",
        seconds=1.0,
        samples_per_s=2.0,
        metrics={"AUC": 0.5},
        tables={},
    )
    observer.pass_done(done)
    assert caplog.messages[0].startswith("Infer eval of epoch 3 done")
