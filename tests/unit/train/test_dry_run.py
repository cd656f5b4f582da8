"""A run that is tried without training finds what training would find."""

from pathlib import Path

import pytest

from fleetrec.core.errors import ConfigError, DataError, FleetRecError
from fleetrec.train.dry_run import dry_run
from making import make_data, make_job, write_job
from making_training import decode_run, make_config


def test_a_sound_run_writes_nothing(tmp_path):
    run = decode_run(make_config(tmp_path, eval_dataset="other"))
    before = sorted(tmp_path.rglob("*"))
    assert dry_run(run) == []
    assert sorted(tmp_path.rglob("*")) == before


def test_odd_slots_are_warned_of_with_the_data_set(tmp_path):
    job = make_job(make_data(tmp_path / "data", num_samples=10))
    job["dataset"][0]["dense_slots"] = "dense_var:2"
    warnings = dry_run(decode_run(write_job(job, tmp_path / "config.yaml")))
    assert all(warning.startswith("data set ") for warning in warnings)
    assert any(text.endswith("(they are all padding): dense_var") for text in warnings)


def empty(job) -> None:
    for path in Path(job["dataset"][0]["data_path"]).iterdir():
        path.write_bytes(b"")


def use_a_label_of_2(job) -> None:
    path = sorted(Path(job["dataset"][0]["data_path"]).iterdir())[0]
    path.write_text(path.read_text().replace("click:1", "click:2"))


def misspell_a_feed(job) -> None:
    job["runner"][0] |= {
        "save_inference_interval": 1,
        "save_inference_path": "inference",
        "save_inference_feed_varnames": ["usr"],
    }


@pytest.mark.parametrize(
    ("break_it", "error", "message"),
    [
        (empty, DataError, r"it has no samples .* check data_path"),
        (use_a_label_of_2, FleetRecError, r"must be 0 or 1, got 2"),
        (misspell_a_feed, ConfigError, r"usr"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_fails_in_a_run_fails_here(break_it, error, message, tmp_path):
    job = make_job(make_data(tmp_path / "data", num_samples=10))
    break_it(job)
    with pytest.raises(error, match=message):
        dry_run(decode_run(write_job(job, tmp_path / "config.yaml")))
