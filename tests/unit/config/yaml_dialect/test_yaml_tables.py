"""``table_parameters`` of a job file."""

import copy
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from fleetrec.config.document import read_document
from fleetrec.config.serving import ServingOptions
from fleetrec.config.tables import (
    AdmissionOptions,
    EvictionOptions,
    LongVectorOptions,
    SparseOptimizerOptions,
    TableOverrides,
)
from fleetrec.config.yaml_dialect.decode import decode
from fleetrec.core.errors import ConfigError
from unit.config.yaml_dialect.test_decode import BASE, fake_model_options

# As in PaddleRec.
PADDLE = """
table_class: MemorySparseTable
shard_num: 10
accessor:
  accessor_class: CtrCommonAccessor
  fea_dim: 11
  embedx_dim: 8
  embedx_threshold: 10
  embed_sgd_param: &rule
    name: SparseAdaGradSGDRule
    adagrad: {learning_rate: 0.04, initial_g2sum: 2, initial_range: 0.001, weight_bounds: [-5, 5]}
  embedx_sgd_param: *rule
  ctr_accessor_param:
    nonclk_coeff: 0.2
    click_coeff: 2
    base_threshold: 1.25
    delta_threshold: 0.5
    delta_keep_days: 8
    show_click_decay_rate: 0.9
    delete_threshold: 0.7
    delete_after_unseen_days: 20
    ssd_unseenday_threshold: 1
"""


@pytest.fixture
def tables(tmp_path):
    """A function that decodes a job with ``table_parameters``: tables of its phase, and notices."""
    (tmp_path / "model.py").write_text("")
    (tmp_path / "data").mkdir()

    def decode_tables(**parameters):
        job = copy.deepcopy(BASE) | {"table_parameters": parameters}
        path = tmp_path / "job.yaml"
        YAML().dump(job, path)
        decoded = decode(read_document(path), model_options=fake_model_options)
        return decoded.runs[0].phases[0].tables, list(decoded.notices)

    return decode_tables


def parsed(text):
    return YAML(typ="safe").load(text)


def test_the_keys_of_an_accessor_become_options(tables):
    found, notices = tables(items=parsed(PADDLE))
    weights = {"show_weight": 0.2, "click_weight": 2}
    assert found == {
        "items": TableOverrides(
            admission=AdmissionOptions(kind="ctr", **weights),
            eviction=EvictionOptions(max_unseen_days=20, min_score=0.7, decay=0.9, **weights),
            optimizer=SparseOptimizerOptions.model_validate(
                {
                    "class": "ctr_adagrad",
                    "learning_rate": 0.04,
                    "settings": {"initial_g2sum": 2},
                    "weight_bounds": (-5, 5),
                }
            ),
            initial_range=0.001,
            long_vector=LongVectorOptions(threshold=10, **weights),
            width=9,
            serving=ServingOptions(
                nonclk_coeff=0.2,
                click_coeff=2,
                base_threshold=1.25,
                delta_threshold=0.5,
                delta_keep_days=8,
            ),
        )
    }
    (notice,) = notices
    assert notice.endswith(
        "table_parameters.items: table_class, shard_num, fea_dim, accessor_class, "
        "ssd_unseenday_threshold have no effect here"
    )


def test_what_is_not_written_stays_as_the_model_has_it(tables):
    found, notices = tables(default={"eviction": {"max_rows": 5}})
    assert found == {"default": TableOverrides(eviction=EvictionOptions(max_rows=5))}
    assert notices == []


@pytest.mark.parametrize(
    ("name", "section", "optimizer", "settings"),
    [
        ("SparseNaiveSGDRule", "naive", "sgd", {}),
        ("StdAdaGradSGDRule", "adagrad", "ctr_std_adagrad", {"initial_g2sum": 3}),
        ("SparseAdamSGDRule", "adam", "adam", {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8}),
    ],
)
def test_rules_of_paddle_are_optimizers(tables, name, section, optimizer, settings):
    rule = {"name": name, section: {"learning_rate": 0.5, "initial_range": 0.25}}
    found, _ = tables(items={"accessor": {"embedx_sgd_param": rule}})
    made = found["items"].optimizer
    assert (made.optimizer_class, made.learning_rate, made.settings) == (optimizer, 0.5, settings)
    assert (made.weight_bounds, found["items"].initial_range) == ((-10, 10), 0.25)


def test_given_rules_replace_those_of_the_accessor(tables):
    entry = {
        "accessor": {"ctr_accessor_param": {"delete_threshold": 0.5}},
        "entry": "count_filter_entry:3",
        "eviction": {"max_rows": 100, "decay": 0.5},
    }
    found, _ = tables(items=entry)
    assert found["items"].admission == AdmissionOptions(kind="count", threshold=3)
    assert found["items"].eviction == EvictionOptions(
        max_unseen_days=30, min_score=0.5, decay=0.5, max_rows=100
    )


def test_an_entry_of_shows_and_clicks_names_the_label(tables):
    found, _ = tables(items={"entry": {"class": "ShowClickEntry", "show": "s", "click": "c"}})
    assert found == {"items": TableOverrides(click_label="c")}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"shard_nums": 1}, "items.shard_nums: unknown key; did you mean 'shard_num'?"),
        ({"accessor": {"embedx_dims": 8}}, "embedx_dims: unknown key; did you mean 'embedx_dim'?"),
        (
            {"accessor": {"ctr_accessor_param": {"click_coef": 1}}},
            "click_coef: unknown key; did you mean 'click_coeff'?",
        ),
        ({"accessor": {"embedx_sgd_param": {"name": "SparseAdaGradRule"}}}, "did you mean"),
        (
            {"accessor": {"embedx_sgd_param": {"name": "SparseAdamSGDRule", "naive": {}}}},
            "the settings of SparseAdamSGDRule are in adam, not in naive",
        ),
        (
            {
                "accessor": {
                    "embed_sgd_param": {"name": "SparseNaiveSGDRule"},
                    "embedx_sgd_param": {"name": "SparseAdamSGDRule"},
                }
            },
            "embed_sgd_param and embedx_sgd_param differ",
        ),
        ({"entry": "count_filter:3"}, "items.entry: no entry is called 'count_filter'"),
        (
            {"entry": "probability_entry:0.5", "admission": {"kind": "count"}},
            "entry and admission both say which ids get a row",
        ),
        ({"admission": {"kind": "counts"}}, "did you mean 'count'?"),
        (7, "expected a mapping, got 7"),
    ],
)
def test_mistakes_are_found_with_their_place(tables, entry, message):
    with pytest.raises(ConfigError) as caught:
        tables(items=entry)
    (problem,) = caught.value.problems
    assert message in problem
    assert Path(problem.split(":")[0]).name == "job.yaml"
