"""What every model class of pipelines promises."""

import pytest
import torch

from fleetrec.config.pipeline_dialect.decode import Changes, decode_pipeline
from fleetrec.models.pipeline_classes import pipeline_classes
from making_models import MODELS, labels_of, metrics_of
from making_phases import evaluate, phase_of, train
from making_pipelines import write_data, write_pipeline


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"), num_train=256, num_eval=64)


@pytest.fixture(params=sorted(MODELS))
def phase(request, tmp_path, paths):
    name = request.param
    path = write_pipeline(
        tmp_path,
        MODELS[name],
        paths=paths,
        labels=labels_of(name),
        eval_config=metrics_of(name),
    )
    decoded = decode_pipeline(path, classes=pipeline_classes(), changes=Changes(), kind="train")
    (run,) = decoded.job.runs
    return phase_of(run.phases[0], run)


def batches(phase):
    with phase.loader.epoch(0) as found:
        return list(found)


def test_every_parameter_and_every_table_learns(phase):
    before = {name: p.detach().clone() for name, p in phase.model.named_parameters()}
    first, second = batches(phase)[:2]
    train(phase, first)
    rows = {name: table["rows"].clone() for name, table in phase.state.export_rows().items()}
    train(phase, first)
    train(phase, second)
    still = [n for n, p in phase.model.named_parameters() if torch.equal(p, before[n])]
    assert still == []
    after = phase.state.export_rows()
    assert [n for n in rows if torch.equal(rows[n], after[n]["rows"][: len(rows[n])])] == []


def test_evaluation_does_not_depend_on_the_batch_and_changes_nothing(phase):
    batch = batches(phase)[0]
    train(phase, batch)
    state = {name: value.clone() for name, value in phase.model.state_dict().items()}
    once, again = (evaluate(phase, batch) for _ in range(2))
    assert all(torch.equal(once[name], again[name]) for name in once)
    assert all(torch.equal(state[n], value) for n, value in phase.model.state_dict().items())


def test_outputs_have_one_row_per_sample_and_a_name_for_every_variable(phase):
    batch = batches(phase)[0]
    outputs = evaluate(phase, batch)
    assert all(len(value) == batch.num_samples for value in outputs.values())
    names = [phase.model.variable_name(name) for name in phase.state.variables()]
    assert len(set(names)) == len(names)
