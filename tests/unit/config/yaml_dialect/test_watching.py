"""The keys of an online runner about watching it."""

import pytest

from fleetrec.config.document import read_document
from fleetrec.config.online import AlarmOptions, WatchOptions
from fleetrec.config.yaml_dialect.decode import decode
from fleetrec.core.errors import ConfigError
from fleetrec.models.load import model_options
from making import make_job, write_job
from making_online import make_online_job


def load(tmp_path, **runner):
    job = make_online_job(tmp_path / "data", **runner)
    document = read_document(write_job(job, tmp_path / "config.yaml"))
    return decode(document, assignments=(), model_options=model_options).runs[0].online.watch


def problems(tmp_path, **runner):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, **runner)
    return "\n".join(caught.value.problems)


def test_nothing_is_watched_by_default(tmp_path):
    assert load(tmp_path) == WatchOptions()
    assert WatchOptions().alarms == AlarmOptions()
    assert WatchOptions().metrics_port is None


def test_alarms_and_a_port_are_read(tmp_path):
    alarms = {
        "auc_drop": 0.02,
        "copc": [0.8, 1.2],
        "no_data_minutes": 30,
        "max_delay_minutes": 60,
        "command": "notify --to 'on call' --tag ctr",
    }
    watch = load(tmp_path, alarms=alarms, metrics_port=9100)
    assert watch.alarms == AlarmOptions(
        auc_drop=0.02,
        copc=(0.8, 1.2),
        no_data_minutes=30,
        max_delay_minutes=60,
        command=("notify", "--to", "on call", "--tag", "ctr"),
    )
    assert (watch.metrics_host, watch.metrics_port) == ("127.0.0.1", 9100)


def test_a_command_may_be_a_list_and_the_host_another_one(tmp_path):
    watch = load(
        tmp_path,
        alarms={"auc_drop": 0.1, "command": ["a b", "c"]},
        metrics_port=0,
        metrics_host="0.0.0.0",
    )
    assert watch.alarms.command == ("a b", "c")
    assert watch.metrics_host == "0.0.0.0"


@pytest.mark.parametrize(
    ("runner", "text"),
    [
        ({"alarms": {"auc_dorp": 0.1}}, "auc_dorp"),
        ({"alarms": {"auc_drop": 2}}, "auc_drop"),
        ({"alarms": {"no_data_minutes": 0}}, "no_data_minutes"),
        ({"alarms": {"copc": [1.2, 0.8]}}, "expected a range such as [0.8, 1.2], got [1.2, 0.8]"),
        ({"alarms": {"copc": [0.8]}}, "copc"),
        ({"alarms": {"auc_drop": 0.1, "command": "say 'hello"}}, "cannot be split into words"),
        ({"alarms": {"command": "say"}}, "command: given without an alarm"),
        ({"alarms": {"copc": [0.8, 1.2]}, "evaluate_first": False}, "need evaluate_first: true"),
        ({"alarms": {"auc_drop": 0.1}, "evaluate_first": False}, "need evaluate_first: true"),
        (
            {"alarms": {"no_data_minutes": 1}, "runner_class_path": "my_runner.py"},
            "no_data_minutes is not for a runner with runner_class_path",
        ),
        ({"metrics_port": 65536}, "metrics_port"),
        ({"metrics_host": "::1"}, "metrics_host: given without metrics_port"),
    ],
)
def test_wrong_keys_are_refused(tmp_path, runner, text):
    assert text in problems(tmp_path, **runner)


def test_only_online_runners_are_watched(tmp_path):
    job = make_job(tmp_path, metrics_port=9100)
    document = read_document(write_job(job, tmp_path / "config.yaml"))
    with pytest.raises(ConfigError, match="metrics_port: given without train_data_dir"):
        decode(document, assignments=(), model_options=model_options)
