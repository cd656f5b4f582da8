import itertools

import pytest

from fleetrec.cli.job import load_job
from fleetrec.planning.measure import measure
from making import make_data, make_job, write_job
from making_phases import phase_of


@pytest.fixture
def phase(tmp_path):
    job = make_job(make_data(tmp_path / "data", num_samples=200))
    (run,) = load_job(str(write_job(job, tmp_path / "job.yaml")), overrides=()).runs
    return phase_of(run.phases[0], run)


def measured(phase, *, clock):
    with phase.loader.epoch(0) as batches:
        some = list(itertools.islice(batches, 3))
    return measure(phase.model, phase.stepper, phase.state, some, clock=clock), some


def test_times_are_those_of_the_clock(phase):
    ticks = itertools.count()
    found, _ = measured(phase, clock=lambda: float(next(ticks)))
    assert found.lookup_per_batch == 1.0  # from one look at the clock to the next
    assert found.compute_per_batch == 0.0  # a step took no longer than its lookup
    assert 0 < found.row < 1


def test_bytes_of_a_batch_are_what_layers_keep(phase):
    found, batches = measured(phase, clock=itertools.count().__next__)
    samples = batches[0].num_samples
    vectors = 2 * 4 * samples * phase.model.embedding_collection().out_dim
    hidden = 4 * samples * (16 + 8)  # outputs of the layers, for the way back
    assert vectors + hidden < found.batch_bytes < 2 * (vectors + hidden)
