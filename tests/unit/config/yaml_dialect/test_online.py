"""The keys of an online runner."""

import pytest

from fleetrec.config.document import read_document
from fleetrec.config.yaml_dialect.decode import decode
from fleetrec.core.errors import ConfigError
from fleetrec.models.load import model_options
from making import make_job, write_job
from making_online import make_days, make_online_job


@pytest.fixture
def job(tmp_path):
    return make_online_job(make_days(tmp_path / "data", ("20261116",)))


def load(job, tmp_path, *overrides):
    document = read_document(write_job(job, tmp_path / "config.yaml"))
    return decode(document, assignments=overrides, model_options=model_options).runs[0]


def problems(job, tmp_path, *overrides):
    with pytest.raises(ConfigError) as caught:
        load(job, tmp_path, *overrides)
    return "\n".join(caught.value.problems)


def test_folders_and_days_are_followed(job, tmp_path):
    run = load(job, tmp_path, "runner.online.gauc_slot=1", "runner.online.late_files=skip")
    follow = run.online.follow
    assert (follow.start_day, follow.end_day) == ("20261116", "20261117")
    assert (follow.split_minutes, follow.passes_per_day) == (480, 3)
    assert (follow.done_file, follow.late_files) == ("to_be_done", "skip")
    assert (run.online.group_by, run.online.save_path) == ("1", "model")
    assert run.num_epochs is None
    assert run.engine == "single"


def test_numbers_of_processes_make_it_a_job_of_several(job, tmp_path):
    assert load(job, tmp_path, "runner.online.server_num=2").engine == "local_cluster"
    run = load(job, tmp_path, "runner.online.fleet_mode=collective", "runner.online.worker_num=2")
    assert (run.engine, run.cluster.fleet_mode) == ("local_cluster", "collective")
    run = load(job, tmp_path, "runner.online.class=local_cluster_train")
    assert (run.engine, run.online is not None) == ("local_cluster", True)


def test_the_older_form_counts_passes_of_a_day(job, tmp_path):
    older = ("start_day=~", "end_day=~", "split_interval=~", "days='{20191225..20191227}'")
    keys = [f"runner.online.{one}" for one in (*older, "pass_per_day=24")]
    follow = load(job, tmp_path, *keys).online.follow
    assert (follow.start_day, follow.end_day) == ("20191225", "20191227")
    assert (follow.split_minutes, follow.passes_per_day) == (60, 24)
    follow = load(job, tmp_path, *keys, "runner.online.days=20191225 20191226").online.follow
    assert (follow.start_day, follow.end_day) == ("20191225", "20191226")


def test_a_run_without_an_end_day_never_ends(job, tmp_path):
    assert load(job, tmp_path, "runner.online.end_day=~").online.follow.end_day is None


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("train_data_dir=~", "train_data_dir: required for online training"),
        ("model_save_path=~", "model_save_path: required for online training"),
        ("start_day=~", "start_day: required for online training, but missing (or days)"),
        ("start_day=2026111", "expected a day such as 20261118, got '2026111'"),
        ("start_day=20261131", "expected a day such as 20261118, got '20261131'"),
        ("start_day=20261120", "end_day: 20261117 is before start_day, 20261120"),
        ("days=20261116", "days: given together with start_day or end_day"),
        ("split_interval=7", "split_interval: expected minutes that divide a day, got 7"),
        ("split_per_pass=2", "split_per_pass: a day has 3 folders of 480 minutes"),
        ("pass_per_day=4", "pass_per_day: given together with split_interval"),
        ("epochs=3", "epochs: is for runners that make epochs"),
        ("save_checkpoint_path=x", "save_checkpoint_path: is for runners that make epochs"),
        ("data_donefile=a/b", "data_donefile: expected the name of a file"),
        ("on_data_timeout=stop", "on_data_timeout: expected 'fail' or 'skip'"),
        ("split_interva=5", "split_interva: unknown key; did you mean 'split_interval'?"),
    ],
)
def test_what_is_wrong_is_said(job, tmp_path, override, problem):
    assert problem in problems(job, tmp_path, f"runner.online.{override}")


def test_days_must_follow_each_other(job, tmp_path):
    keys = ("start_day=~", "end_day=~", "days=20261116 20261118")
    found = problems(job, tmp_path, *(f"runner.online.{key}" for key in keys))
    assert "expected days that follow each other" in found


def test_keys_of_online_training_need_data_to_follow(tmp_path):
    job = make_job(make_days(tmp_path / "data", ("20261116",)))
    assert "start_day: given without train_data_dir" in problems(
        job, tmp_path, "runner.train.start_day=20261116"
    )


def test_a_data_set_without_a_path_is_for_online_runners_only(job, tmp_path):
    job["runner"][0] = {"name": "online", "class": "train", "epochs": 1, "phases": "learn"}
    assert "data_path: required, but missing" in problems(job, tmp_path)


STREAM = ("start_day=~", "end_day=~", "split_interval=~", "data_donefile=~")


def of_stream(url, *more):
    return [f"runner.online.{key}" for key in (*STREAM, f"train_data_dir='{url}'", *more)]


def test_data_may_be_a_stream(job, tmp_path):
    keys = of_stream("nats://h:4222/CLICKS?start=latest", "pass_messages=5", "num_passes=2")
    follow = load(job, tmp_path, *keys).online.follow
    assert (follow.url, follow.messages) == ("nats://h:4222/CLICKS?start=latest", 5)
    assert (follow.num_passes, follow.seconds) == (2, 60)


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        (of_stream("kafka://h:1/t", "start_day=20261116"), "start_day: is for folders of days"),
        (of_stream("kafka://h:1/t?start=never"), "expected earliest, latest, seconds since 1970"),
        (of_stream("kafka://h:1/t?partition=0&begin=1&end=2"), "a stream without partition"),
        (["runner.online.pass_messages=5"], "pass_messages: is for a train_data_dir that is a"),
    ],
)
def test_what_is_wrong_with_a_stream_is_said(job, tmp_path, keys, problem):
    assert problem in problems(job, tmp_path, *keys)


@pytest.mark.parametrize("key", ["early_stop", "keep_best"])
def test_keys_of_evaluations_in_epochs_are_refused(job, tmp_path, key):
    found = problems(job, tmp_path, f"runner.online.{key}={{metric: AUC}}")
    assert f"{key}: is for runners that make epochs" in found


@pytest.mark.parametrize("key", ["late_files=skip", "data_timeout_second=5", "prefetch=true"])
def test_keys_of_folders_are_refused_for_a_stream(job, tmp_path, key):
    found = problems(job, tmp_path, *of_stream("kafka://h:1/t", key))
    assert f"{key.partition('=')[0]}: is for folders of days, not for a stream" in found


def test_verbs_that_look_at_data_find_what_the_runner_follows(job, tmp_path):
    assert load(job, tmp_path).phases[0].dataset.data_path == str(tmp_path / "data")
