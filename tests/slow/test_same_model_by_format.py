"""A million samples in five formats give the same batches and train the same model."""

import dataclasses
import hashlib
from pathlib import Path

import numpy as np
import pytest

from fleetrec.config.job import DatasetOptions, DenseSlot
from fleetrec.config.yaml_dialect.locate import ZOO
from fleetrec.data.convert import convert, single_valued
from fleetrec.data.loader import Loader
from making import run, tensors_of, write_job
from making_rows import to_example, to_record

pytestmark = pytest.mark.slow

NUM_ROWS = 1_000_000
NUM_PARTS = 2
SPARSE = ("click", "user", "tags")


@dataclasses.dataclass(frozen=True)
class Rows:
    """Columns: one click, one user, one to three tags, two numbers."""

    clicks: list[int]
    users: list[int]
    tags: list[list[int]]
    numbers: list[list[float]]


def draw_rows(rng: np.random.Generator, num_rows: int) -> Rows:
    lengths = rng.integers(1, 4, num_rows)
    tags = np.split(rng.integers(0, 1000, lengths.sum()), np.cumsum(lengths)[:-1])
    numbers = rng.normal(0, 1, (num_rows, 2)).astype(np.float32)
    return Rows(
        clicks=(rng.random(num_rows) < 0.3).astype(int).tolist(),
        users=rng.integers(0, 5000, num_rows).tolist(),
        tags=[tag.tolist() for tag in tags],
        numbers=numbers.tolist(),
    )


def write_slot_text(rows: Rows, path: Path) -> None:
    with path.open("w") as stream:
        for click, user, tags, (x, y) in zip(*dataclasses.astuple(rows), strict=True):
            words = " ".join(f"tags:{tag}" for tag in tags)
            stream.write(f"click:{click} user:{user} {words} d:{x!r} d:{y!r}\n")


def write_wire_text(rows: Rows, path: Path) -> None:
    """Slots in the order in which a model gets them: dense ones first."""
    with path.open("w") as stream:
        for click, user, tags, (x, y) in zip(*dataclasses.astuple(rows), strict=True):
            words = " ".join(map(str, (len(tags), *tags)))
            stream.write(f"2 {x!r} {y!r} 1 {click} 1 {user} {words}\n")


def write_tfrecord(rows: Rows, path: Path) -> None:
    with path.open("wb") as stream:
        for click, user, tags, numbers in zip(*dataclasses.astuple(rows), strict=True):
            sample = {"click": [click], "user": [user], "tags": tags, "d": numbers}
            stream.write(to_record(to_example(sample)))


def options_of(data: Path, **keys: object) -> DatasetOptions:
    return DatasetOptions(
        name="rows",
        data_path=data,
        batch_size=4096,
        sparse=SPARSE,
        dense=(DenseSlot(name="d", shape=(2,)),),
        **keys,
    )


def checksum(loader: Loader) -> str:
    digest = hashlib.sha256()
    with loader.epoch(0) as batches:
        for batch in batches:
            for tensor in (batch.ids.values_N, batch.ids.offsets, batch.dense["d"]):
                digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


def job_of(data: Path, keys: dict[str, object]) -> dict[str, object]:
    model = str(ZOO / "rank/dnn/model.py")
    dataset = {"name": "rows", "type": "DataLoader", "batch_size": 4096, "data_path": str(data)}
    return {
        "mode": "train",
        "runner": [
            {"name": "train", "class": "train", "epochs": 1, "save_checkpoint_path": "ckpt"}
        ],
        "phase": [{"name": "learn", "model": model, "dataset_name": "rows"}],
        "dataset": [dataset | {"sparse_slots": " ".join(SPARSE), "dense_slots": "d:2"} | keys],
        "hyper_parameters": {
            "optimizer": {"class": "Adam", "learning_rate": 0.001},
            "sparse_feature_number": 5000,
            "sparse_feature_dim": 4,
            "fc_sizes": [8],
        },
    }


def test_every_format_gives_the_same_batches_and_the_same_model(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    ways: dict[str, dict[str, object]] = {
        "slot_text": {},
        "csv": {"format": "csv"},
        "parquet": {"format": "parquet"},
        "tfrecord": {"format": "tfrecord"},
        "pipe": {"pipe_command": "cat"},
    }
    for way in ways:
        (tmp_path / way).mkdir()
    for part in range(NUM_PARTS):
        rows = draw_rows(rng, NUM_ROWS // NUM_PARTS)
        write_slot_text(rows, tmp_path / "slot_text" / f"{part}")
        write_wire_text(rows, tmp_path / "pipe" / f"{part}")
        write_tfrecord(rows, tmp_path / "tfrecord" / f"{part}")
        loader = Loader(options_of(tmp_path / "slot_text" / f"{part}"), seed=0)
        with loader.epoch(0) as batches:
            single = single_valued(batches, loader.inputs)
        for to in ("csv", "parquet"):
            with loader.epoch(0) as batches:
                target = tmp_path / to / f"{part}"
                convert(batches, target, to=to, inputs=loader.inputs, single=single)
    sums, models = {}, {}
    for way, keys in ways.items():
        given = {"format": "pipe", **keys} if way == "pipe" else keys
        sums[way] = checksum(Loader(options_of(tmp_path / way, **given), seed=0))
        folder = tmp_path / f"run_{way}"
        folder.mkdir()
        monkeypatch.chdir(folder)
        run(write_job(job_of(tmp_path / way, keys), folder / "config.yaml"))
        models[way] = tensors_of(folder / "ckpt" / "0")
    assert len(set(sums.values())) == 1, sums
    assert all(model == models["slot_text"] for model in models.values())
