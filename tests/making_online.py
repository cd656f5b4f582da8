"""Days of data in folders, and jobs that follow them."""

from pathlib import Path
from typing import Any

from making import make_job, make_slot_text, write_job

DONE = "to_be_done"
DAYS = ("20261116", "20261117")
SPLIT_MINUTES = 480  # three folders a day
NUM_SAMPLES = 120  # of a folder


def split_names(minutes: int = SPLIT_MINUTES) -> list[str]:
    """Return the names of the folders of a day."""
    return [f"{m // 60:02d}{m % 60:02d}" for m in range(0, 24 * 60, minutes)]


def make_split(
    folder: Path, *, seed: int, done: bool = True, num_samples: int = NUM_SAMPLES
) -> Path:
    """Write two files of samples; slot 3 of a sample is an id that no other sample has."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = make_slot_text(num_samples, seed=seed).splitlines()
    own = [
        f"{line.rpartition(' ')[0]} 3:{1_000_000 + seed * num_samples + number}\n"
        for number, line in enumerate(lines)
    ]
    half = len(own) // 2
    for index, part in enumerate((own[:half], own[half:])):
        (folder / f"part-{index}").write_text("".join(part))
    if done:
        (folder / DONE).write_text("")
    return folder


def make_days(root: Path, days: tuple[str, ...] = DAYS, *, minutes: int = SPLIT_MINUTES) -> Path:
    """Write all folders of some days."""
    seed = 0
    for day in days:
        for name in split_names(minutes):
            make_split(root / day / name, seed=seed)
            seed += 1
    return root


def make_online_job(data: Path, **runner: Any) -> dict[str, Any]:
    """A job that follows folders of eight hours for two days."""
    job = make_job(data, batch_size=20)
    job["mode"] = "online"
    job["runner"] = [
        {
            "name": "online",
            "class": "online_train",
            "phases": "learn",
            "train_data_dir": str(data),
            "model_save_path": "model",
            "start_day": DAYS[0],
            "end_day": DAYS[-1],
            "split_interval": SPLIT_MINUTES,
            "checkpoint_per_pass": 1,
            "save_delta_frequency": 1,
            "data_donefile": DONE,
            "data_sleep_second": 0.1,
            **runner,
        }
    ]
    job["phase"] = job["phase"][:1]
    job["dataset"][0] |= {"type": "InMemoryDataset"}
    del job["dataset"][0]["data_path"]
    job["hyper_parameters"]["distributed_embedding"] = 1
    job["hyper_parameters"]["optimizer"]["learning_rate"] = 0.05
    return job


def write_online_job(folder: Path, data: Path, **runner: Any) -> Path:
    return write_job(make_online_job(data, **runner), folder / "config.yaml")
