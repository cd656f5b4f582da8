"""Metrics by their names without the task."""

import math

from fleetrec.train.online_metrics import metrics_named, num_samples, why_undefined


def test_metrics_of_all_tasks_are_found_in_the_order_of_names():
    metrics = {"COPC_buy": 1.0, "AUC_click": 0.7, "AUC_buy": 0.6, "AUCX": 0.1, "GAUC": 0.5}
    assert list(metrics_named(metrics, ["AUC", "GAUC"])) == ["AUC_click", "AUC_buy", "GAUC"]


def test_a_reason_is_known_for_labels_of_one_class():
    def reason(key, **metrics):
        return why_undefined(key, {"SAMPLES": 5.0, "ACTUAL_CTR": 0.5, **metrics})

    assert reason("AUC", ACTUAL_CTR=0.0) == "no positive label"
    assert reason("GAUC", ACTUAL_CTR=1.0) == "no negative label"
    assert reason("COPC", SAMPLES=0.0, ACTUAL_CTR=math.nan) == "no sample"
    assert reason("AUC_buy", ACTUAL_CTR_buy=0.0, SAMPLES_buy=5.0) == "no positive label"
    assert reason("GAUC") == ""
    assert reason("LOSS", ACTUAL_CTR=0.0) == ""


def test_samples_of_several_tasks_are_those_of_one():
    assert num_samples({"SAMPLES_click": 7.0, "SAMPLES_buy": 7.0}) == 7
    assert num_samples({"LOSS": 1.0}) == 0
