"""Where a process computes, as if this machine had some GPUs."""

import logging

import pytest
import torch

from fleetrec.config.job import DeviceOptions, RunOptions
from fleetrec.core.errors import UnavailableError
from fleetrec.parallel import device
from fleetrec.parallel.device import check_gpus, resolve_device

GPUS = DeviceOptions(kind="gpu", gpus=(0, 2))


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(device, "num_gpus", lambda: 2)


def make_run(name, options):
    return RunOptions(name=name, kind="train", phases=(), device=options)


def test_the_default_is_the_cpu():
    assert resolve_device(DeviceOptions()) == torch.device("cpu")


def test_processes_of_a_machine_share_its_gpus_in_turn(monkeypatch):
    monkeypatch.setattr(device, "num_gpus", lambda: 3)
    found = [resolve_device(GPUS, local_index=index).index for index in range(3)]
    assert found == [0, 2, 0]


def test_a_gpu_that_is_not_there_is_named_with_what_is_there(two_gpus):
    with pytest.raises(UnavailableError, match=r"asks for GPU 2, but PyTorch finds 2 GPU\(s\)"):
        resolve_device(GPUS, local_index=1)


def test_all_runs_are_checked_for_the_gpus_of_their_processes_on_this_machine(two_gpus):
    first = make_run("first", GPUS)
    check_gpus([(first, 1), (make_run("cpu", DeviceOptions()), 5)])
    with pytest.raises(UnavailableError, match="runner first: device: gpu asks for GPU 2"):
        check_gpus([(first, 2)])


@pytest.mark.parametrize(("has_tiles", "is_warned"), [(False, True), (True, False)])
def test_less_exact_products_need_tiles(monkeypatch, caplog, has_tiles, is_warned):
    monkeypatch.setattr(device, "uses_tiles", lambda: has_tiles)
    with caplog.at_level(logging.WARNING):
        resolve_device(DeviceOptions(matmul_precision="medium"))
    assert ("matmul_precision: medium changes nothing" in caplog.text) == is_warned
