"""Registration, setup, all-gathers and admin requests, across restarts."""

import numpy as np
import pytest

from fleetrec.server.service_options import FINISHED, START
from fleetrec.server.wire import Kind, Message, WireError, json_array
from unit.server.serving import MODEL, SYNC, RunningService, make_service


def test_a_server_without_a_model_asks_for_it(tmp_path):
    service, durable = make_service(tmp_path)
    with pytest.raises(WireError, match="worker 0 sends it with SETUP"):
        service.handle(Message(kind=Kind.STATS))
    assert service.metrics()["steps_total"] == 0.0
    durable.close()


def test_an_answer_is_not_a_request(tmp_path):
    running = RunningService(tmp_path)
    for kind in (Kind.OK, Kind.WAIT, Kind.APPLY):
        with pytest.raises(WireError, match=f"{kind.name} is not a request"):
            running.call(kind)


def test_a_model_is_set_up_once(tmp_path):
    running = RunningService(tmp_path)
    running.push(1)
    dense_P = np.ones(MODEL.num_dense, np.float32)
    running.call(Kind.SETUP, arrays=[json_array(MODEL.to_plain()), dense_P])
    assert running.dense() == [-1.0] * MODEL.num_dense
    other = MODEL.model_copy(update={"seed": 1})
    with pytest.raises(WireError, match="the server holds another model: seed differ"):
        running.call(Kind.SETUP, arrays=[json_array(other.to_plain()), dense_P])


def test_a_model_with_too_few_dense_weights_is_refused(tmp_path):
    service, durable = make_service(tmp_path)
    arrays = [json_array(MODEL.to_plain()), np.zeros(4, np.float32)]
    with pytest.raises(WireError, match="expected 5 dense weights, got 4"):
        service.handle(Message(kind=Kind.SETUP, arrays=arrays))
    durable.close()


def test_a_gather_survives_a_restart(tmp_path):
    running = RunningService(tmp_path, num_workers=2)
    waiting = running.gather(0, b"a")
    assert (waiting.kind, waiting.arrays[0].tolist()) == (Kind.WAIT, [1])
    running.restart()
    assert [part.tobytes() for part in running.gather(1, b"b").arrays] == [b"a", b"b"]
    assert [part.tobytes() for part in running.gather(0, b"c").arrays] == [b"a", b"b"]


def test_a_gather_that_is_refused_is_not_in_the_journal(tmp_path):
    running = RunningService(tmp_path)
    name = np.frombuffer(b"epoch", np.uint8)
    for arrays in ([name], [name, np.zeros(3, np.float32)]):
        with pytest.raises(WireError):
            running.call(Kind.GATHER, sequence=1, arrays=arrays)
    running.restart()
    running.push(1)


def test_a_restarted_worker_gets_its_initial_progress(tmp_path):
    running = RunningService(tmp_path, num_workers=2)
    assert running.gather(0, b"epoch 3", name=START, number=0).kind == Kind.WAIT
    running.restart()
    answers = [running.call(Kind.HELLO, worker=worker) for worker in (0, 1)]
    assert [answer.array(2, np.uint8).tobytes() for answer in answers] == [b"epoch 3", b""]
    assert answers[0].json(1) == {"is_set_up": True, "num_passes": 0}


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_server_is_finished_when_all_workers_are(tmp_path, is_restarted):
    running = RunningService(tmp_path, num_workers=2)
    assert running.gather(0, b"", name=FINISHED).kind == Kind.OK
    if is_restarted:
        running.restart()
    assert not running.service.is_finished.is_set()
    running.gather(1, b"", name=FINISHED)
    assert running.service.is_finished.is_set()


def progress_at_cut(running, token):
    """Return the progress of two workers that a cut at this moment has."""
    request = json_array({"token": token, "least": {}})
    answer = running.call(Kind.CUT, worker=0, incarnation=1, arrays=[request])
    return [answer.array(index, np.uint8).tobytes() for index in (1, 2)]


def test_the_progress_of_workers_is_that_of_applied_pushes(tmp_path):
    running = RunningService(tmp_path, model=SYNC, num_workers=2)
    running.push(1, worker=0)
    running.push(1, worker=1)
    assert running.service.num_pending() == 2
    assert progress_at_cut(running, "before") == [b"", b""]
    running.call(Kind.END_PASS, worker=0, incarnation=1)
    running.call(Kind.END_PASS, worker=1, incarnation=1)
    assert progress_at_cut(running, "after") == [b"1", b"1"]


def test_tables_cannot_be_replaced_while_a_step_is_pending(tmp_path):
    running = RunningService(tmp_path, model=SYNC)
    running.push(1)
    with pytest.raises(WireError, match="a step is pending"):
        running.call(Kind.CLEAR)


def test_cleared_tables_stay_empty_after_a_restart(tmp_path):
    running = RunningService(tmp_path)
    running.push(1)
    running.call(Kind.CLEAR)
    assert running.rows() == []
    running.restart()
    assert running.rows() == []
    assert running.dense() == [-1.0] * MODEL.num_dense
