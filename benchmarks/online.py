"""How long it takes from the arrival of data to a model that can be loaded, and how steps suffer.

For the first, folders of five minutes are written one after the other, each when the model of the
one before it is published; the overhead of a pass is what remains without evaluation and training.
For the second, the folders are all there, so that steps are made while models are written.
"""

import contextlib
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.criteo_like import DENSE, LABEL, NUM_DENSE, SPARSE
from benchmarks.figure import Figure
from fleetrec.export.done_files import read_models

NUM_PASSES = 50
NUM_WARM = 3  # the first pass also starts the process
BATCH_SIZE = 1024
DAY = "20261118"
DONE = "to_be_done"
DEADLINE_S = 600.0
TARGET_S = 60.0
OVERHEAD_TARGET_S = 10.0
MODES = {
    "one process": {},
    "2 servers + 2 workers": {
        "worker_num": 2,
        "server_num": 2,
        "distribute_strategy": "async",
    },
}


def measure(parts: Sequence[Path], *, num_passes: int = NUM_PASSES) -> list[Figure]:
    """Measure all modes."""
    figures = []
    for mode, keys in MODES.items():
        with tempfile.TemporaryDirectory() as folder:
            figures += _measure(mode, Path(folder), parts, keys, num_passes)
    return figures


def _measure(
    mode: str, folder: Path, parts: Sequence[Path], keys: dict[str, object], num_passes: int
) -> list[Figure]:
    (folder / "config.yaml").write_text(json.dumps(_job(keys)), encoding="utf-8")
    latencies: list[float] = []
    with _training(folder) as trainer:
        for number in range(1, num_passes + 1):
            begin = _write(folder / "data", number, parts[number % len(parts)])
            _wait_for_model(folder, number, trainer)
            latencies.append(time.perf_counter() - begin)
    work = _work(_records(folder))
    overheads = [one - work[index] for index, one in enumerate(latencies)]
    for name in ("model", "logs"):
        shutil.rmtree(folder / name)
    with _training(folder, "print_interval=1") as trainer:
        _wait_for_model(folder, num_passes, trainer)
    steps = _steps(_records(folder))
    median_step = statistics.median(steps)
    return [
        _seconds(f"online: {mode}: data to model, median", latencies[NUM_WARM:], TARGET_S),
        _seconds(f"online: {mode}: data to model, longest", [max(latencies[NUM_WARM:])], TARGET_S),
        _seconds(f"online: {mode}: overhead, median", overheads[NUM_WARM:], OVERHEAD_TARGET_S),
        _seconds(
            f"online: {mode}: overhead, longest", [max(overheads[NUM_WARM:])], OVERHEAD_TARGET_S
        ),
        Figure(
            name=f"online: {mode}: median over longest step",
            unit="us",
            values=[median_step * 1e6],
            ratios=[median_step / max(steps)],
            target=1 / 3,
        ),
    ]


def _seconds(name: str, seconds: Sequence[float], limit: float) -> Figure:
    """Return times in milliseconds; the ratio is the limit over the longest of them."""
    return Figure(
        name=name,
        unit="ms",
        values=[one * 1e3 for one in seconds],
        ratios=[limit / max(seconds)],
        target=1.0,
    )


def _job(keys: dict[str, object]) -> dict[str, object]:
    return {
        "workspace": "fleetrec.models.rank.dnn",
        "mode": "online",
        "dataset": [
            {
                "name": "clicks",
                "type": "InMemoryDataset",
                "batch_size": BATCH_SIZE,
                "sparse_slots": " ".join([LABEL, *SPARSE]),
                "dense_slots": f"{DENSE}:{NUM_DENSE}",
            }
        ],
        "hyper_parameters": {
            "optimizer": {"class": "Adam", "learning_rate": 0.001},
            "sparse_feature_dim": 16,
            "fc_sizes": [400, 400, 400],
            "distributed_embedding": 1,
        },
        "runner": [
            {
                "name": "online",
                "class": "online_train",
                "train_data_dir": "data",
                "model_save_path": "model",
                "start_day": DAY,
                "checkpoint_per_pass": 1,
                "save_delta_frequency": 1,
                "data_donefile": DONE,
                "data_sleep_second": 0.2,
                "phases": "phase",
                **keys,
            }
        ],
        "phase": [{"name": "phase", "model": "{workspace}/model.py", "dataset_name": "clicks"}],
    }


@contextlib.contextmanager
def _training(folder: Path, *keys: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the trainer while the block runs."""
    words = [word for key in keys for word in ("-o", f"runner.online.{key}")]
    command = [sys.executable, "-m", "fleetrec.online", "-m", "config.yaml", *words]
    with (folder / "log").open("wb") as log:
        trainer = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        try:
            yield trainer
        finally:
            trainer.terminate()
            trainer.wait()


def _write(data: Path, number: int, part: Path) -> float:
    """Write the folder of a pass; returns when it was complete."""
    minute = (number - 1) * 5
    folder = data / DAY / f"{minute // 60:02d}{minute % 60:02d}"
    folder.mkdir(parents=True)
    shutil.copy(part, folder / "part-0")
    (folder / DONE).write_text("", encoding="utf-8")
    return time.perf_counter()


def _wait_for_model(folder: Path, number: int, trainer: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while sum(len(read_models(str(folder / "model"), kind)) for kind in ("base", "delta")) < number:
        if trainer.poll() is not None or time.monotonic() > deadline:
            raise SystemExit((folder / "log").read_text(encoding="utf-8")[-2000:])
        time.sleep(0.01)


def _records(folder: Path) -> list[dict[str, object]]:
    (path,) = (folder / "logs").glob("*/metrics.jsonl")
    records = []
    for line in path.read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(ValueError):  # the last line may be torn: the run was ended
            records.append(json.loads(line))
    return records


def _work(records: Sequence[dict[str, object]]) -> list[float]:
    """Return the seconds of evaluation and training of every pass."""
    seconds: dict[str, float] = {}
    for one in records:
        if one["event"] == "pass":
            name = str(one["epoch"])
            seconds[name] = seconds.get(name, 0.0) + float(str(one["seconds"]))
    return list(seconds.values())


def _steps(records: Sequence[dict[str, object]]) -> list[float]:
    """Return the seconds of every training step but the first two and the last one of passes.

    The first interval of a pass is two steps, and waits for the data; the last batch may be
    smaller. The first pass creates rows.
    """
    by_pass: dict[int, list[float]] = {}
    for one in records:
        if one["event"] == "interval" and one["kind"] == "train":
            seconds = BATCH_SIZE / float(str(one["samples_per_s"]))
            by_pass.setdefault(int(str(one["epoch"])), []).append(seconds)
    return [step for index, steps in by_pass.items() if index > 0 for step in steps[1:-1]]
