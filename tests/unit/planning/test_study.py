"""What is found out about a run before it is planned."""

import itertools

import pytest

from fleetrec.cli.job import load_job
from fleetrec.planning.study import look_at_data, open_phase, study, table_loads
from making import make_data, make_job, write_job

BATCH_SIZE = 20
NUM_SAMPLES = 100


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = make_data(tmp_path / "data", num_samples=NUM_SAMPLES, num_files=1)
    job = make_job(data, batch_size=BATCH_SIZE)
    (found,) = load_job(str(write_job(job, tmp_path / "job.yaml")), overrides=()).runs
    return found


def clock():
    """Return a clock that a call advances by a second."""
    return itertools.count().__next__


def test_a_study_looks_at_the_data_and_writes_nothing(run, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    found = study(run, placement="sharded", max_samples=60, clock=clock())
    assert sorted(tmp_path.rglob("*")) == before
    assert 60 <= found.num_samples <= NUM_SAMPLES
    assert found.num_samples_of_all == pytest.approx(NUM_SAMPLES, rel=0.2)
    phase = open_phase(run)
    parameters = [p for p in phase.model.parameters() if p.requires_grad]
    assert found.workload.num_parameters == sum(p.numel() for p in parameters)
    assert found.workload.batch_size == BATCH_SIZE
    assert found.speeds.read_per_sample > 0
    assert found.speeds.scan_per_sample > 0


@pytest.mark.parametrize("placement", ["sharded", "replicated"])
def test_a_batch_asks_every_table_for_the_ids_of_its_samples(run, placement):
    phase = open_phase(run)
    sample = look_at_data(phase, max_samples=NUM_SAMPLES, clock=clock())
    (load,) = table_loads(phase, sample, placement=placement)
    assert load.is_replicated == (placement == "replicated")
    assert load.ids_per_batch == 3 * BATCH_SIZE  # three slots with one id each
    assert 0 < load.different_ids_per_batch <= load.ids_per_batch
    assert load.dim == 4
    assert load.num_state == 2 * load.dim + 1  # of Adam: the moments and the steps of a row


def test_a_phase_is_read_in_order_also_if_its_data_set_is_in_memory(run):
    (options,) = run.phases
    dataset = options.dataset.model_copy(update={"kind": "InMemoryDataset"})
    changed = run.model_copy(update={"phases": (options.model_copy(update={"dataset": dataset}),)})
    assert open_phase(changed).options.dataset.kind == "DataLoader"
