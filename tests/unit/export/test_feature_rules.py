"""Rules for raw columns that are stored with a model."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
import torch

from fleetrec.config.features import (
    BucketOptions,
    ColumnOptions,
    DenseOptions,
    FeatureOptions,
    FeatureSetOptions,
    IdListOptions,
    IdRule,
)
from fleetrec.config.input_rules import InputRules
from fleetrec.core.errors import CheckpointError, DataError
from fleetrec.core.progress import Progress
from fleetrec.export.feature_rules import pack_rules
from fleetrec.export.inference import plan_inference
from fleetrec.export.predictor import Predictor
from fleetrec.features.feature_set import FeatureSet
from fleetrec.parallel.solo import SoloGroup
from fleetrec.train.phase import build_phase
from making_training import decode_run, make_config

COLUMNS = {
    "dense_feature": [[0.5, 1.0], [0.0, 0.0], [1.0, 1.0]],
    "1": ["red", "blue", "no color"],
    "2": [["a", "b"], ["c"], []],
    "3": [7, 8, 9],
}


@pytest.fixture
def rules(tmp_path):
    (tmp_path / "colors.txt").write_text("red\nblue\ngreen\n")
    return InputRules(
        features=FeatureSetOptions(
            owner="data set clicks",
            features=(
                IdListOptions(name="1", rule=IdRule(vocabulary_path=str(tmp_path / "colors.txt"))),
                IdListOptions(name="2", rule=IdRule(buckets=10), padding=3),
                IdListOptions(name="3"),
                DenseOptions(name="dense_feature", shape=(2,)),
                DenseOptions(name="click", shape=(1,)),
            ),
        )
    )


@pytest.fixture
def model(tmp_path, rules):
    """A model folder, and what its rules make of the columns."""
    run = decode_run(make_config(tmp_path), "hyper_parameters.distributed_embedding=1")
    phase = build_phase(run.phases[0], run, SoloGroup(torch.device("cpu")))
    with phase.loader.epoch(0) as batches:
        for number, batch in enumerate(batches):
            phase.stepper.train(batch, progress=Progress(step=number + 1))
    planned = plan_inference(phase.model, phase.loader.inputs, feeds=(), fetches=(), rules=rules)
    planned.write(tmp_path / "model", phase.state.export_rows())
    return tmp_path / "model"


def ids_of(values, name):
    lists = values.ids[name]
    if lists.offsets is None:
        return [[one] for one in lists.ids.tolist()]
    bounds = zip(lists.offsets[:-1], lists.offsets[1:], strict=True)
    return [lists.ids[a:b].tolist() for a, b in bounds]


def test_raw_columns_get_the_answer_of_their_ids(model, rules):
    values = FeatureSet(rules.features).transform({**COLUMNS, "click": [0.0, 0.0, 0.0]})
    assert ids_of(values, "1") == [[1], [2], [0]]
    feeds = {name: ids_of(values, name) for name in ("1", "2", "3")}
    feeds["dense_feature"] = values.dense["dense_feature"]
    predictor = Predictor(model)
    expected = predictor.predict(feeds)
    for columns in (COLUMNS, pa.table(COLUMNS)):
        found = predictor.predict_raw(columns)
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value)
    assert list(predictor.predict_raw(COLUMNS, ["predict"])) == ["predict"]


def test_a_vocabulary_is_a_file_of_the_model(model, tmp_path):
    before = Predictor(model).predict_raw(COLUMNS)["predict"]
    (tmp_path / "colors.txt").unlink()
    assert (model / "vocabularies" / "00000.txt").read_text() == "red\nblue\ngreen\n"
    np.testing.assert_array_equal(Predictor(model).predict_raw(COLUMNS)["predict"], before)
    (model / "vocabularies" / "00000.txt").write_text("red\nblue\nviolet\n")
    with pytest.raises(CheckpointError, match=r"00000.txt: damaged"):
        Predictor(model)


def test_raw_columns_need_no_torch(model, tmp_path):
    expected = Predictor(model).predict_raw(COLUMNS)["predict"]
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import numpy as np\n"
        "from fleetrec.export.predictor import Predictor\n"
        f"found = Predictor({str(model)!r}).predict_raw({COLUMNS!r})['predict']\n"
        f"np.save({str(tmp_path / 'found.npy')!r}, found)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    np.testing.assert_array_equal(np.load(tmp_path / "found.npy"), expected)


@pytest.mark.parametrize("kind", ["flat", "lists"])
def test_raw_columns_take_ids_of_64_bits(model, kind):
    def raw(ids):
        column = ids if kind == "flat" else [[one] for one in ids]
        return Predictor(model).rules.transform({**COLUMNS, "3": column})

    assert ids_of(raw([2**63 + 5, 1, 2**64 - 1]), "3") == [[5 - 2**63], [1], [-1]]
    for refused in ([2**64, 1, 2], [2**63, -1, 2]):
        with pytest.raises(DataError, match="column '3': expected integers of 64 bits"):
            raw(refused)


def test_a_bad_value_is_named_with_its_row_and_column(model):
    with pytest.raises(DataError, match=r"data set clicks: row 2: .*dense_feature"):
        Predictor(model).predict_raw({**COLUMNS, "dense_feature": [[1.0] * 2, [1.0], [1.0] * 2]})


def test_only_the_rules_of_feeds_are_stored(rules):
    packed, contents = pack_rules(rules, {"1", "dense_feature"})
    assert [one.name for one in packed.features.features] == ["1", "dense_feature"]
    assert list(contents) == ["vocabularies/00000.txt"]


def test_features_of_one_vocabulary_share_its_file(tmp_path):
    (tmp_path / "words.txt").write_text("x\ny\n")
    buckets = BucketOptions(vocabulary_path=str(tmp_path / "words.txt"))
    features = [FeatureOptions(name=name, columns=(name,), buckets=buckets) for name in ("a", "b")]
    columns = tuple(ColumnOptions(name=name) for name in ("a", "b", "label"))
    options = FeatureSetOptions(columns=columns, features=tuple(features))
    packed, contents = pack_rules(InputRules(features=options), {"a", "b"})
    assert list(contents) == ["vocabularies/00000.txt"]
    assert [one.name for one in packed.features.columns] == ["a", "b"]


def test_a_feed_without_a_rule_is_refused(rules):
    with pytest.raises(DataError, match="data set clicks: no rule for the inputs 9"):
        pack_rules(rules, {"1", "9"})


def test_a_model_without_rules_says_so(model, rules, tmp_path):
    run = decode_run(make_config(tmp_path / "other"))
    phase = build_phase(run.phases[0], run, SoloGroup(torch.device("cpu")))
    planned = plan_inference(phase.model, phase.loader.inputs, feeds=(), fetches=())
    planned.write(tmp_path / "plain", phase.state.export_rows())
    with pytest.raises(DataError, match="the model has no rules for raw columns"):
        Predictor(tmp_path / "plain").predict_raw(COLUMNS)


def test_a_vocabulary_may_be_gone_after_the_conversion(rules, tmp_path):
    run = decode_run(make_config(tmp_path / "run"))
    phase = build_phase(run.phases[0], run, SoloGroup(torch.device("cpu")))
    planned = plan_inference(phase.model, phase.loader.inputs, feeds=(), fetches=(), rules=rules)
    planned.convert()
    (tmp_path / "colors.txt").unlink()
    planned.write(tmp_path / "model", phase.state.export_rows())
    assert Predictor(tmp_path / "model").predict_raw(COLUMNS)["predict"].shape[0] == 3
