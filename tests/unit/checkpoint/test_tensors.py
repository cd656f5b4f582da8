"""Tensors in the files of a published folder."""

import pytest
import torch

from fleetrec.checkpoint.folder import open_folder, write_folder
from fleetrec.checkpoint.tensors import encode_tensors, read_file, read_tensors
from fleetrec.core.errors import CheckpointError

WEIGHTS = {"w": torch.arange(6.0).reshape(2, 3), "step": torch.tensor(4)}


def publish(tmp_path, contents):
    write_folder(tmp_path / "c", contents=contents, meta={"kind": "checkpoint"})
    return open_folder(str(tmp_path / "c"), kind="checkpoint")


def test_groups_come_back_by_part_with_shapes_and_types(tmp_path):
    groups = {"learn/model": WEIGHTS, "learn/metrics": {}, "other/model": {"x": torch.ones(1)}}
    folder = publish(tmp_path, encode_tensors(groups))
    found = read_tensors(folder, "learn")
    assert found.keys() == {"model", "metrics"}
    assert found["metrics"] == {}
    for name, value in WEIGHTS.items():
        assert found["model"][name].dtype == value.dtype
        assert torch.equal(found["model"][name], value)


def test_views_and_tied_weights_are_written_whole(tmp_path):
    whole = torch.arange(6.0).reshape(2, 3)
    group = {"column": whole[:, 1], "transposed": whole.T, "tied": whole, "same": whole}
    folder = publish(tmp_path, encode_tensors({"p/model": group}))
    found = read_file(folder, "p/model")
    assert all(torch.equal(found[name], value) for name, value in group.items())


def test_a_file_that_is_not_of_tensors_is_named(tmp_path):
    folder = publish(tmp_path, {"p/model.safetensors": b"nonsense"})
    with pytest.raises(CheckpointError, match="c/p/model: damaged"):
        read_file(folder, "p/model")
