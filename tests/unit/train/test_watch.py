"""What watches an online run: alarms, their command and the metrics page."""

import socket
import sys
import urllib.request

import pytest

from fleetrec.config.job import RunOptions
from fleetrec.config.online import AlarmOptions, FollowOptions, OnlineOptions, WatchOptions
from fleetrec.core.errors import ConfigError
from fleetrec.train.events import Observers
from fleetrec.train.watch import Watch, open_watch
from unit.train.making_passes import make_evaluated, make_trained


def make_run(**watch):
    follow = FollowOptions(folders=("data",), start_day="20261118")
    online = OnlineOptions(follow=follow, save_path="model", watch=WatchOptions(**watch))
    return RunOptions(name="online", kind="train", phases=(), online=online)


def read(page):
    with urllib.request.urlopen(f"http://127.0.0.1:{page.port}/metrics", timeout=10) as answer:
        return answer.read().decode()


def test_a_run_of_epochs_is_not_watched():
    run = RunOptions(name="run", kind="train", phases=())
    with open_watch(run, now=lambda: 0.0, on_alarm=print) as watch:
        assert watch == Watch()
        with watch.serving():
            pass


def test_an_alarm_is_logged_reported_and_shown_on_the_page(tmp_path, caplog):
    path = tmp_path / "alarms"
    code = "import os, sys; open(sys.argv[1], 'w').write(os.environ['FLEETREC_ALARM_NAME'])"
    alarms = AlarmOptions(copc=(0.9, 1.1), command=(sys.executable, "-c", code, str(path)))
    reported = []
    run = make_run(alarms=alarms, metrics_port=0)
    with open_watch(run, now=lambda: 1100.0, on_alarm=reported.append) as watch, watch.serving():
        observer = Observers(*watch.observers)
        observer.pass_done(make_evaluated(0, COPC=1.0))
        assert 'fleetrec_alarm_active{alarm="copc"} 0.0' in read(watch.page)
        observer.pass_done(make_evaluated(1, COPC=2.0))
        observer.pass_done(make_trained(1))
        text = read(watch.page)
        assert 'fleetrec_alarm_active{alarm="copc"} 1.0' in text
        assert "# TYPE fleetrec_alarms_total counter" in text
        assert 'fleetrec_alarms_total{alarm="copc"} 1.0' in text
        assert 'fleetrec_eval_copc{phase="learn"} 2.0' in text
        assert "fleetrec_pass_index 1.0" in text
    assert [alarm.name for alarm in reported] == ["copc"]
    assert "ALARM copc: COPC is 2 in pass 20261118/0005" in caplog.text
    assert path.read_text() == "copc"


def test_earlier_alarms_are_not_reported_again():
    earlier = [{"event": "alarm", "name": "copc", "message": "COPC is 2", "is_over": False}]
    reported = []
    run = make_run(alarms=AlarmOptions(copc=(0.9, 1.1)))
    with open_watch(run, now=lambda: 0.0, on_alarm=reported.append, earlier=earlier) as watch:
        assert watch.page is None
        for copc in (2.0, 1.0):
            Observers(*watch.observers).pass_done(make_evaluated(COPC=copc))
    assert [alarm.is_over for alarm in reported] == [True]


def test_a_port_that_is_taken_is_a_mistake_in_the_config():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(ConfigError, match=rf"runner online: metrics_port: .*127.0.0.1:{port}"),
            open_watch(make_run(metrics_port=port), now=lambda: 0.0, on_alarm=print),
        ):
            pass


def test_the_port_is_free_again_after_a_run_that_did_not_start():
    with open_watch(make_run(metrics_port=0), now=lambda: 0.0, on_alarm=print) as watch:
        port = watch.page.port
    with open_watch(make_run(metrics_port=port), now=lambda: 0.0, on_alarm=print) as watch:
        assert watch.page.port == port
