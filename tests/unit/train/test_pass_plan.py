"""Which passes a run makes."""

from fleetrec.core.cursor import Cursor
from fleetrec.core.event_time import SECONDS_PER_DAY
from fleetrec.core.progress import Progress
from fleetrec.data.files import fingerprint, list_files
from fleetrec.train.pass_plan import Epochs, last_pass, last_pass_index
from making import make_data

WITHIN = Progress(pass_index=2, batch=3, step=13, cursor=Cursor(samples=4))


def make_epochs(tmp_path, num_epochs):
    files = tuple(list_files(str(make_data(tmp_path / "data", num_samples=5))))
    return Epochs(num_epochs, {"learn": files}), files


def test_an_epoch_is_a_day_of_event_time_over_the_same_files(tmp_path):
    plan, files = make_epochs(tmp_path, 3)
    spec = plan.next(WITHIN)
    assert (spec.name, spec.index, spec.event_time) == ("2", 2, 2 * SECONDS_PER_DAY)
    assert spec.files == {"learn": files}
    assert spec.fingerprint == {"learn": fingerprint(files)}


def test_a_run_is_over_after_its_epochs(tmp_path):
    plan, _ = make_epochs(tmp_path, 3)
    assert plan.next(WITHIN) is not None
    assert plan.next(WITHIN.next_pass()) is None


def test_epochs_without_a_number_never_end(tmp_path):
    plan, _ = make_epochs(tmp_path, None)
    assert plan.next(Progress(pass_index=1000)).index == 1000


def test_the_last_pass_is_that_of_the_last_step(tmp_path):
    plan, _ = make_epochs(tmp_path, 3)
    assert last_pass_index(Progress()) == 0
    assert last_pass_index(WITHIN) == 2
    assert last_pass_index(WITHIN.next_phase()) == 2
    assert last_pass_index(WITHIN.next_pass()) == 2
    assert last_pass(plan, WITHIN.next_pass()).index == 2  # though no pass follows
