"""Options of tables: rules that could never hold are refused before anything starts."""

from typing import get_args

import pytest
from pydantic import ValidationError

from fleetrec._native import optimizer_schema
from fleetrec.config.tables import AdmissionOptions, RowOptimizerName, SparseOptimizerOptions
from fleetrec.embedding.table import RowOptimizer, TableOptimizer
from fleetrec.models.table_options import build_admission, build_table_optimizer


@pytest.mark.parametrize(
    "options",
    [
        {"kind": "always", "threshold": 1e9},
        {"kind": "count", "threshold": 65535},
        {"kind": "probability", "threshold": 1},
        {"kind": "score", "threshold": 65535, "click_weight": 1},
        {"kind": "score", "threshold": 1e6, "show_weight": 20},
    ],
)
def test_a_threshold_that_can_be_reached_is_taken(options):
    assert build_admission(AdmissionOptions(**options)).threshold == options["threshold"]


@pytest.mark.parametrize(
    ("options", "highest"),
    [
        ({"kind": "count", "threshold": 65535.5}, "65535"),
        ({"kind": "probability", "threshold": 1.5}, "1"),
        ({"kind": "score", "threshold": 6554, "click_weight": 0.1}, "6553.5"),
        ({"kind": "score", "threshold": 1, "show_weight": -1, "click_weight": 0}, "0"),
    ],
)
def test_a_threshold_that_no_id_reaches_is_refused(options, highest):
    with pytest.raises(ValidationError, match=f"of at most {highest} for {options['kind']}, got"):
        AdmissionOptions(**options)


def test_the_optimizer_of_rows_has_its_settings_and_guards():
    options = {
        "class": "RMSProp",
        "learning_rate": 0.1,
        "settings": {"alpha": 0.5},
        "l2": 0.25,
        "clip_norm": 2,
        "weight_bounds": [0, 3],
    }
    assert build_table_optimizer(SparseOptimizerOptions.model_validate(options)) == TableOptimizer(
        rule=RowOptimizer(
            name="rmsprop",
            hyperparameters={"alpha": 0.5},
            guards={"l2": 0.25, "clip_norm": 2.0, "max_weight": 3.0},
        ),
        lr=0.1,
    )


@pytest.mark.parametrize("name", get_args(RowOptimizerName))
def test_every_setting_of_every_class_is_taken(name):
    options = {"class": name, "learning_rate": 1, "settings": optimizer_schema()[name]}
    assert build_table_optimizer(SparseOptimizerOptions.model_validate(options)).rule.name == name


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"class": "lion"}, "rowwise_adagrad"),
        ({"settings": {"beta1": 0.9}}, "adagrad has no beta1; it has initial_accumulator, eps"),
        ({"class": "sgd", "settings": {"eps": 1}}, "sgd has no eps; it has none"),
        ({"learning_rate": 0}, "greater than 0"),
        ({"learning_rate": float("nan")}, "finite"),
        ({"settings": {"eps": float("inf")}}, "finite"),
        ({"settings": {"eps": -1}}, "eps: expected a number of at least 0, got -1"),
        ({"class": "adam", "settings": {"beta1": 1}}, "beta1: expected a number from 0 to less"),
        ({"clip_value": -1}, "greater than or equal to 0"),
        ({"weight_bounds": [1, 1]}, "expected .min, max. with min < max"),
        ({"momentum": 1}, "Extra inputs"),
    ],
)
def test_an_optimizer_of_rows_that_cannot_be_is_refused(wrong, message):
    options = {"class": "adagrad", "learning_rate": 0.1} | wrong
    with pytest.raises(ValidationError, match=message):
        SparseOptimizerOptions.model_validate(options)
