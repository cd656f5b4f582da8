"""Model classes learn planted tastes; the slow suite has all of them, with five seeds."""

import pytest

from fleetrec.models.pipeline_classes import pipeline_classes
from learning import best_auc, learned_auc
from making_pipelines import write_data


@pytest.mark.parametrize("name", ["RankModel", "DBMTL"])
def test_a_model_class_learns_what_was_planted(name, tmp_path):
    paths = write_data(tmp_path, num_train=3000)
    found = learned_auc(name, tmp_path, paths=paths, classes=pipeline_classes(), epochs=3)
    assert found >= 0.9 * best_auc(paths)
