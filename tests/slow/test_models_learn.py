"""Every model class that learns a label reaches its share of the best AUC, with every seed."""

import pytest

from fleetrec.models.pipeline_classes import pipeline_classes
from learning import best_auc, learned_auc
from making_models import MODELS
from making_pipelines import write_data

pytestmark = pytest.mark.slow
# These learn from all items of a batch, or from vectors, not from the label of a sample.
OTHERS = ("CoMetricLearningI2I", "DAT", "MatchModel")
# The groups of these lack the item, which decides half of the labels.
WITHOUT_ITEM = ("CMBF", "Uniter")
SHARE, SHARE_WITHOUT_ITEM = 0.93, 0.84
SEEDS = 5


@pytest.fixture(scope="module")
def classes():
    return pipeline_classes()


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"), num_train=8000, num_eval=2000)


@pytest.mark.parametrize("name", sorted(set(MODELS) - set(OTHERS)))
def test_a_model_class_learns_what_was_planted(name, tmp_path, paths, classes):
    found = [
        learned_auc(name, tmp_path, paths=paths, classes=classes, seed=seed, epochs=3)
        for seed in range(SEEDS)
    ]
    share = SHARE_WITHOUT_ITEM if name in WITHOUT_ITEM else SHARE
    assert min(found) >= share * best_auc(paths), found
    assert max(found) - min(found) <= 0.02, found
