"""Numbers below the least normal one are zero in training, in every thread, and only there."""

import threading

import torch

from fleetrec.nn.denormals import flushed_denormals

SIZE = 1 << 20  # enough for every thread to get some


def tiny_products():
    return torch.full((SIZE,), 1e-30) * 1e-10


def test_tiny_numbers_are_zero_inside_the_block_in_all_threads():
    assert torch.count_nonzero(tiny_products()) == SIZE
    with flushed_denormals():
        assert torch.count_nonzero(tiny_products()) == 0
        with flushed_denormals():
            pass
        assert torch.count_nonzero(tiny_products()) == 0
    assert torch.count_nonzero(tiny_products()) == SIZE


def test_threads_that_begin_inside_are_like_the_one_that_made_them():
    found = []
    with flushed_denormals():
        thread = threading.Thread(target=lambda: found.append(tiny_products()))
        thread.start()
        thread.join()
    assert torch.count_nonzero(found[0]) == 0


def test_an_error_leaves_no_trace():
    try:
        with flushed_denormals():
            raise ValueError
    except ValueError:
        pass
    assert torch.count_nonzero(tiny_products()) == SIZE
