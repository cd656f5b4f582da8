"""Backbones in common shapes: they learn, and predict the same after their export."""

import pytest
import torch

from contract.test_inference_models import check
from contract.test_inference_models import torch_free_process as torch_free_process
from fleetrec.config.pipeline_dialect.decode import Changes, decode_pipeline
from fleetrec.models.pipeline_classes import pipeline_classes
from making_backbones import MULTI_TASKS, RANKS
from making_phases import evaluate, phase_of, train
from making_pipelines import write_data, write_pipeline

SHAPES = {**RANKS, **MULTI_TASKS}


@pytest.fixture(scope="module")
def classes():
    return pipeline_classes()


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"), num_train=128, num_eval=64)


def phase_for(name, folder, paths, classes):
    labels = '"label"' if name in RANKS else '["label", "like", "score"]'
    path = write_pipeline(folder, SHAPES[name], paths=paths, labels=labels)
    decoded = decode_pipeline(path, classes=classes, changes=Changes(), kind="train")
    (run,) = decoded.job.runs
    return phase_of(run.phases[0], run)


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_every_parameter_of_a_backbone_learns(name, tmp_path, paths, classes):
    phase = phase_for(name, tmp_path, paths, classes)
    before = {name: p.detach().clone() for name, p in phase.model.named_parameters()}
    with phase.loader.epoch(0) as found:
        batches = list(found)
    for batch in batches:
        train(phase, batch)
    still = [n for n, p in phase.model.named_parameters() if torch.equal(p, before[n])]
    assert still == []
    once, again = (evaluate(phase, batches[0]) for _ in range(2))
    assert all(torch.equal(once[name], again[name]) for name in once)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SHAPES))
def test_a_backbone_predicts_the_same_after_its_export(
    name, tmp_path, paths, classes, torch_free_process
):
    phase = phase_for(name, tmp_path, paths, classes)
    in_order = {"shuffle_rows": 0, "shuffle_files": False, "data_path": str(paths["eval"])}
    test_data = phase.options.dataset.model_copy(update=in_order)
    check(phase, test_data, torch_free_process, tmp_path / "model")
