"""Jobs for clusters: a workspace with config.yaml, backend.yaml and a model, and stand-ins."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch  # noqa: F401 (else every job is loaded by a process of its own)
from ruamel.yaml import YAML

from fleetrec.config.yaml_dialect.locate import ZOO

SLOTS = "click 1 2 3"
SECRETS = {"ak": "AK-4711", "sk": "SK-0815", "fs_ugi": "usr,pwd-3141"}
CLIENT = """#!/bin/sh
for word in "$@"; do printf '%s\\n' "$word"; done > "$ARGUMENTS"
echo 'Start checking your job configuration, please be patient.'
echo 'Congratulations! Job configuration check passed!'
echo 'Congratulations! The new job is ready for training.'
printf '{\\n    "groupName": "g",\\n    "jobId": "job-1a2b3c",\\n    "userId": "u"\\n}\\n'
"""


def make_workspace(folder: Path, *, fleet_mode: str = "ps", device: str = "cpu") -> Path:
    """A cluster job as PaddleRec documents it: everything lies in one folder."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(ZOO / "rank/dnn/model.py", folder / "model.py")
    runner = {
        "name": "cluster",
        "class": "cluster_train",
        "epochs": 2,
        "device": device,
        "fleet_mode": fleet_mode,
        "save_checkpoint_interval": 1,
        "save_checkpoint_path": "increment_dnn",
        "init_model_path": "",
        "print_interval": 1,
        "phases": ["phase1"],
    }
    dataset = {
        "name": "dataloader_train",
        "batch_size": 2,
        "type": "DataLoader",
        "data_path": "{workspace}/train_data",
        "sparse_slots": SLOTS,
        "dense_slots": "dense_feature:2",
    }
    phase = {
        "name": "phase1",
        "model": "{workspace}/model.py",
        "dataset_name": "dataloader_train",
        "thread_num": 1,
    }
    write_yaml(
        folder / "config.yaml",
        {
            "workspace": "./",
            "mode": ["cluster"],
            "dataset": [dataset],
            "runner": [runner],
            "phase": [phase],
            "hyper_parameters": {"sparse_feature_number": 100, "fc_sizes": [8]},
        },
    )
    return folder


def make_backend(
    cluster_type: str, config: Mapping[str, Any] = {}, submit: Mapping[str, Any] = {}
) -> dict[str, Any]:
    """The keys of a complete backend.yaml for PaddleCloud."""
    paths = {"train_data_path": "/user/train", "test_data_path": "", "thirdparty_path": ""}
    mount = {"afs_remote_mount_point": "/user/mount"}
    return {
        "backend": "PaddleCloud",
        "cluster_type": cluster_type,
        "config": {
            "fs_name": "afs://example",
            "fs_ugi": SECRETS["fs_ugi"],
            "output_path": "/user/output",
            **(paths if cluster_type == "mpi" else mount),
            **config,
        },
        "submit": {
            "ak": SECRETS["ak"],
            "sk": SECRETS["sk"],
            "priority": "high",
            "job_name": "PaddleRec_CTR",
            "group": "ctr",
            "start_cmd": "python -m paddlerec.run -m ./config.yaml",
            "files": "./*.py ./*.yaml",
            **submit,
        },
    }


def write_yaml(path: Path, data: Any) -> Path:
    with path.open("w", encoding="utf-8") as stream:
        YAML().dump(data, stream)
    return path


def add_client(folder: Path, monkeypatch) -> Path:
    """Put a stand-in for PaddleCloud's client on PATH; returns the file with its arguments."""
    folder.mkdir()
    client = folder / "paddlecloud"
    client.write_text(CLIENT)
    client.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    arguments = folder / "arguments"
    monkeypatch.setenv("ARGUMENTS", str(arguments))
    return arguments


def readable_by_others(folder: Path) -> dict[Path, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path: path.read_bytes() for path in files if path.stat().st_mode & 0o077}
