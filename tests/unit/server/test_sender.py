"""When steps reach the servers, and as how many pushes."""

import contextlib

import numpy as np
import pytest

from fleetrec.config.job import CommunicatorOptions
from fleetrec.server.client import ServerError
from fleetrec.server.sender import BackgroundSender, DirectSender, build_sender
from unit.server.serving import MODEL, connected, make_step, serving


@pytest.fixture
def client(tmp_path):
    with serving(tmp_path) as endpoints, connected(endpoints) as client:
        client.set_up(np.zeros(MODEL.num_dense, np.float32))
        client.register()
        yield client


def step(grad):
    return make_step(grads_P=np.full(MODEL.num_dense, grad, np.float32))


def weight(client):
    """One dense weight; the learning rate is 1."""
    return client.admin.dense_state()["weights"][0]


def num_pushes(client):
    client.pull({}, sequence=0)
    return client.num_steps


def test_a_direct_sender_pushes_when_enough_steps_are_there(client):
    sender = DirectSender(client, num_merged=2, rule="mean")
    sender.send(step(1.0), sequence=1)
    assert (sender.num_pending(), weight(client)) == (1, 0.0)
    sender.send(step(3.0), sequence=2)
    assert (sender.num_pending(), weight(client)) == (0, -2.0)
    sender.send(step(4.0), sequence=3)
    sender.flush()
    assert (weight(client), num_pushes(client)) == (-6.0, 2)
    assert client.register().sequence == 3


def test_a_closed_direct_sender_drops_its_steps(client):
    sender = DirectSender(client, num_merged=2, rule="mean")
    sender.send(step(1.0), sequence=1)
    sender.close()
    sender.flush()
    assert weight(client) == 0.0


def test_a_background_sender_delivers_everything_it_accepted(client):
    sender = BackgroundSender(client, num_queued=4, num_merged=3, rule="sum")
    with contextlib.closing(sender):
        for sequence in range(1, 21):
            sender.send(step(1.0), sequence=sequence)
        sender.wait_for(20)
        assert sender.num_pending() <= 3
        sender.flush()
        assert sender.num_pending() == 0
    assert weight(client) == -20.0
    assert 20 / 3 <= num_pushes(client) <= 20


def test_steps_that_servers_may_have_are_not_merged(client):
    client.last_known_sequence = 2
    sender = DirectSender(client, num_merged=4, rule="mean")
    sender.send(step(1.0), sequence=1)
    sender.send(step(1.0), sequence=2)
    assert num_pushes(client) == 2
    sender.send(step(1.0), sequence=3)
    assert sender.num_pending() == 1


def test_an_error_of_the_background_reaches_the_worker(client):
    sender = BackgroundSender(client, num_queued=2, num_merged=1, rule="sum")
    with contextlib.closing(sender):
        sender.send(make_step(grads_P=np.zeros(0, np.float32)), sequence=1)
        with pytest.raises(ServerError, match="expected 5 dense gradients, got 0"):
            sender.flush()


def test_every_mode_has_its_sender(client):
    options = CommunicatorOptions(max_merge_var_num=3)
    with contextlib.closing(build_sender(client, "async", options, is_sgd=True)) as sender:
        assert isinstance(sender, BackgroundSender)
    for mode, num_pending in (("sync", 0), ("half_async", 1)):
        sender = build_sender(client, mode, options, is_sgd=True)
        sender.send(step(1.0), sequence=1)
        assert sender.num_pending() == num_pending
