"""A follower keeps up with what a run publishes."""

import shutil
import time

import pytest

from fleetrec.core.errors import UnavailableError
from fleetrec.export.follower import Follower
from making_serving import DAY_S, ServingRun, feeds_of

NAMES = ("dense_feature", "1", "2", "3")
DEADLINE_S = 60.0


@pytest.fixture
def run(tmp_path):
    return ServingRun(tmp_path)


def test_nothing_answers_before_the_first_base(run, tmp_path):
    follower = Follower(tmp_path)
    assert (follower.version, follower.lag_s) == (None, None)
    with pytest.raises(UnavailableError, match="no serving model has been published yet"):
        follower.predict(feeds_of(run.batches[0], NAMES))
    assert not follower.poll()
    run.make_version()
    assert follower.poll()
    run.assert_answers(follower)


def test_the_lag_is_what_is_published_and_not_loaded(run, tmp_path):
    run.make_version()
    follower = Follower(tmp_path)
    assert follower.lag_s == 0
    run.make_version()
    shutil.move(tmp_path / "model-2", tmp_path / "hidden")
    follower.poll()
    assert follower.lag_s == DAY_S
    shutil.move(tmp_path / "hidden", tmp_path / "model-2")
    follower.poll()
    assert follower.lag_s == 0


def test_a_missing_delta_is_a_gap_until_the_next_base(run, tmp_path, caplog):
    run.make_version()
    follower = Follower(tmp_path)
    for _ in range(3):
        run.make_version()
    shutil.rmtree(tmp_path / "model-2")
    assert not follower.poll()
    assert follower.version.id == DAY_S
    assert "waiting for the next base" in caplog.text
    num_lines = len(caplog.records)
    follower.poll()
    assert len(caplog.records) == num_lines  # it is not logged at every poll
    run.make_version(kind="base")
    run.make_version()
    assert follower.poll()
    assert follower.version.id == 6 * DAY_S
    run.assert_answers(follower)


def test_a_run_that_has_lost_a_delta_builds_the_next_on_what_is_there(run, tmp_path):
    run.make_version()
    follower = Follower(tmp_path)
    run.make_version()
    shutil.rmtree(tmp_path / "model-2")
    made = run.make_version()
    assert made.parent.id == DAY_S
    assert follower.poll()
    run.assert_answers(follower)


def test_a_damaged_base_is_skipped_for_an_older_one(run, tmp_path, caplog):
    run.make_version()
    run.make_version(kind="base")
    (tmp_path / "model-2" / "model.onnx").write_bytes(b"")
    follower = Follower(tmp_path)
    assert follower.version.id == DAY_S
    assert "model.onnx: damaged" in caplog.text
    assert follower.lag_s == DAY_S


def test_the_last_base_counts_even_if_its_key_is_lower(run, tmp_path):
    for _ in range(3):
        run.make_version(kind="base")
    follower = Follower(tmp_path)
    other = ServingRun(tmp_path / "other", place=tmp_path, run_id="f" * 16)
    other.train_pass()
    other.publish(other.save("restarted"), "again", id=5, kind="base")
    assert follower.poll()
    assert (follower.version.id, follower.lag_s) == (5, 0)
    other.assert_answers(follower)


def test_a_torn_done_file_is_read_up_to_its_last_whole_line(run, tmp_path):
    for _ in range(3):
        run.make_version()
    path = tmp_path / "patch_donefile.txt"
    whole = path.read_text()
    path.write_text(whole[:-20])
    follower = Follower(tmp_path)
    assert follower.version.id == 2 * DAY_S
    path.write_text(whole)
    assert follower.poll()
    assert follower.version.id == 3 * DAY_S


def test_a_damaged_done_file_is_reported_and_the_loaded_model_answers_on(run, tmp_path, caplog):
    run.make_version()
    follower = Follower(tmp_path)
    path = tmp_path / "base_donefile.txt"
    path.write_text(f"{path.read_text()}nonsense\n")
    assert not follower.poll()
    assert "base_donefile.txt:2: damaged" in caplog.text
    run.assert_answers(follower)


def test_a_folder_that_was_moved_is_followed_where_it_is(run, tmp_path):
    for _ in range(2):
        run.make_version()
    shutil.copytree(tmp_path, tmp_path / "copy")
    for number in (1, 2):
        shutil.rmtree(tmp_path / f"model-{number}")
    run.assert_answers(Follower(tmp_path / "copy"))


def test_a_thread_polls_until_the_follower_is_closed(run, tmp_path):
    run.make_version()
    with Follower(tmp_path, poll_s=0.01) as follower:
        run.make_version()
        deadline = time.monotonic() + DEADLINE_S
        while follower.version.id != 2 * DAY_S:
            assert time.monotonic() < deadline, "the new version was never loaded"
            time.sleep(0.01)
        run.assert_answers(follower)
    run.make_version()
    assert follower.version.id == 2 * DAY_S
