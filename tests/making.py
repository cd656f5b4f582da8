"""Small things that many tests make: slot text, jobs, runs."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from ruamel.yaml import YAML
from safetensors.numpy import load_file

from fleetrec.checkpoint.folder import open_folder
from fleetrec.checkpoint.staging import Staging
from fleetrec.checkpoint.tables import stored_tables
from fleetrec.cli.job import load_job
from fleetrec.cli.run import run_job
from fleetrec.config.yaml_dialect.locate import ZOO
from fleetrec.core.storage import local_copy
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.record import Chain, StoredTable, WrittenTable
from fleetrec.embedding.snapshot import Columns, live_candidates, live_rows
from fleetrec.parallel.strategy import Strategy

SLOTS = "click 1 2 3"
DENSE = "dense_feature:2"


def make_slot_text(num_samples: int, *, seed: int = 0, num_ids: int = 50) -> str:
    """Lines with two numbers and three slots; clicks follow slot 1 and the first number."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, num_ids, (num_samples, 3))
    numbers = rng.random((num_samples, 2)).round(3)
    logits = (ids[:, 0] % 2) * 4 - 3 + 2 * numbers[:, 0]
    clicks = rng.random(num_samples) < 1 / (1 + np.exp(-logits))
    rows = zip(clicks.astype(int), numbers.tolist(), ids.tolist(), strict=True)
    return "".join(
        f"click:{c} dense_feature:{x} dense_feature:{y} 1:{a} 2:{b} 3:{d}\n"
        for c, (x, y), (a, b, d) in rows
    )


def make_data(folder: Path, *, num_samples: int, num_files: int = 2, seed: int = 0) -> Path:
    folder.mkdir(parents=True)
    lines = make_slot_text(num_samples, seed=seed).splitlines(keepends=True)
    for i, part in enumerate(np.array_split(np.array(lines), num_files)):
        (folder / f"part-{i}").write_text("".join(part))
    return folder


def make_job(data: Path, *, epochs: int = 2, batch_size: int = 32, **runner: Any) -> dict[str, Any]:
    """The small DNN with one training and one inference runner over the same data."""
    dataset = {
        "type": "DataLoader",
        "batch_size": batch_size,
        "data_path": str(data),
        "sparse_slots": SLOTS,
        "dense_slots": DENSE,
    }
    train = {"name": "train", "class": "train", "epochs": epochs, "phases": "learn", **runner}
    infer = {"name": "infer", "class": "infer", "init_model_path": "ckpt", "phases": "judge"}
    model = str(ZOO / "rank/dnn/model.py")
    return {
        "mode": "train",
        "runner": [{"save_checkpoint_path": "ckpt", **train}, infer],
        "phase": [
            {"name": "learn", "model": model, "dataset_name": "data"},
            {"name": "judge", "model": model, "dataset_name": "data"},
        ],
        "dataset": [{"name": "data", **dataset}],
        "hyper_parameters": {
            "optimizer": {"class": "Adam", "learning_rate": 0.01},
            "sparse_feature_dim": 4,
            "fc_sizes": [16, 8],
        },
    }


def write_job(job: dict[str, Any], path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as stream:
        YAML().dump(job, stream)
    return path


def run(job: Path | str, *overrides: str, resume: bool = False) -> None:
    """Run a job in this process; folders are made below the current directory."""
    loaded = load_job(str(job), overrides=overrides)
    run_job(loaded, backend=None, resume=resume, log_dir=Path("logs"))


def tensors_of(checkpoint: str | Path) -> dict[str, bytes]:
    """All tensors of a checkpoint and all columns of its tables, to the last bit."""
    with local_copy(open_folder(checkpoint, kind="checkpoint").url_of(".")) as folder:
        found = {
            f"{path.relative_to(folder)}:{name}": value
            for path in sorted(folder.rglob("*.safetensors"))
            for name, value in load_file(path).items()
        }
    for part, name, stored in tables_of(checkpoint):
        for column, value in columns_of(stored).items():
            found[f"{part}/tables/{name}:{column}"] = value
    return {name: value.tobytes() + str(value.dtype).encode() for name, value in found.items()}


def tables_of(checkpoint: str | Path) -> list[tuple[str, str, StoredTable]]:
    folder = open_folder(checkpoint, kind="checkpoint")
    return [
        (part, name, stored)
        for part in folder.meta["tables"]
        for name, stored in stored_tables(folder, part).items()
    ]


def write_tables(strategy: Strategy, folder: Path) -> dict[str, StoredTable]:
    """Let the tables of a strategy write themselves, as a checkpoint does."""
    staging = Staging.create(folder / "checkpoint")
    written = strategy.write_tables(staging, "tables", parent=None)
    tables = Path(staging.url) / "tables"
    return {
        name: stored_table(tables / name, name=name, written=it) for name, it in written.items()
    }


def stored_table(*directories: Path, name: str, written: WrittenTable) -> StoredTable:
    chain = Chain(urls=tuple(map(str, directories)), fingerprint=written.record.fingerprint)
    return StoredTable(name=name, record=written.record, chain=chain)


def save_store(store: NativeStore, folder: Path) -> StoredTable:
    """Write a store, and let its next delta build on this."""
    written = store.write(folder, parent=None)
    written.commit()
    return stored_table(folder, name="t", written=written)


def columns_of(stored: StoredTable) -> dict[str, np.ndarray]:
    """Rows and candidates as the files have them, ordered by id; and what was counted."""
    rows = _joined(live_rows(stored.chain))
    candidates = _joined(live_candidates(stored.chain))
    record = stored.record
    assert record.rows == len(rows.get("ids", ()))
    assert record.candidates == len(candidates.get("ids", ()))
    counts = np.array([record.created, record.evicted])
    return {**rows, **{f"candidate_{k}": v for k, v in candidates.items()}, "counts": counts}


def _joined(blocks: Iterable[Columns]) -> dict[str, np.ndarray]:
    blocks = list(blocks)
    if not blocks:
        return {}
    columns = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    order = np.argsort(columns["ids"])
    return {name: column[order] for name, column in columns.items()}
