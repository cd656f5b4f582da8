"""What servers store for a worker with every step."""

import torch
from torch import nn

from fleetrec.core.progress import Progress
from fleetrec.parallel.worker_payload import decode_payload, encode_payload, latest_progress

PROGRESS = Progress(pass_index=2, step=9).to_bytes()


def test_progress_and_buffers_come_back():
    model = nn.BatchNorm1d(2)
    model.running_mean.fill_(3)
    progress, buffers = decode_payload(encode_payload(PROGRESS, model))
    assert progress == PROGRESS
    assert buffers.keys() == dict(model.named_buffers()).keys()
    assert buffers["running_mean"].tolist() == [3, 3]


def test_a_model_without_buffers_stores_its_progress():
    assert decode_payload(encode_payload(PROGRESS, nn.Linear(1, 1))) == (PROGRESS, {})


def test_a_worker_that_has_made_no_step_has_stored_nothing():
    assert decode_payload(b"") == (b"", {})


def test_what_is_stored_does_not_follow_the_model():
    model = nn.BatchNorm1d(1)
    payload = encode_payload(PROGRESS, model)
    model.running_mean.fill_(7)
    assert torch.equal(decode_payload(payload)[1]["running_mean"], torch.zeros(1))


def test_the_latest_progress_is_that_of_the_highest_step():
    earlier, later = Progress(step=9).to_bytes(), Progress(step=10).to_bytes()
    assert latest_progress([earlier, later, b""]) == later
    assert latest_progress([later, earlier]) == later
    assert latest_progress([b"", b""]) == b""
