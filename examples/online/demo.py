"""``make online-demo``: three days of drifting clicks in three minutes.

Folders of five minutes appear one after the other. ``fleetrec online`` trains on them, and a
follower applies the deltas that it publishes. Before anything is trained on a folder, it is
predicted by the followed model and by the base that is a day old.
"""

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from drift import DriftingClicks, Split, split_names, write_split

from fleetrec.core.env import environment_with
from fleetrec.export.follower import Follower
from fleetrec.export.predictor import Predictor

DAYS = ["20261116", "20261117", "20261118"]
MINUTES = 5
MARGIN = 0.03  # by which the followed model has to be better on the last day
BATCHES_AHEAD = 3  # folders that may be there before the trainer has come to them
DEADLINE_S = 900.0  # it takes one to two minutes on two cores that are not busy
HERE = Path(__file__).parent


def auc(labels: list[int], scores: np.ndarray) -> float:
    """Return the share of pairs in the right order, ties counting half."""
    is_positive = np.array(labels) == 1
    _, levels, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[levels]  # of equal scores, their mean
    num_positive, num_negative = is_positive.sum(), (~is_positive).sum()
    below = ranks[is_positive].sum() - num_positive * (num_positive + 1) / 2
    return float(below / (num_positive * num_negative))


class Watch:
    """Predicts every new folder with the followed model and with the one of a day before."""

    def __init__(self, model: Path) -> None:
        self._model = model
        self._follower = Follower(model)
        self._old: dict[str, Predictor] = {}
        self.labels: dict[str, list[int]] = {}
        self.scores: dict[str, dict[str, list[float]]] = {}
        self.num_versions = 0

    def predict(self, split: Split) -> None:
        """Predict a folder that nobody has been trained on."""
        self.num_versions += self._follower.poll()
        day = split.name.partition("/")[0]
        old = self._day_old(day)
        if self._follower.version is None or old is None:
            return
        self.labels.setdefault(day, []).extend(split.labels)
        for name, model in (("followed", self._follower), ("a day old", old)):
            scores = model.predict(split.feeds, ["predict"])["predict"]
            self.scores.setdefault(day, {}).setdefault(name, []).extend(scores.tolist())

    def aucs(self, day: str) -> dict[str, float]:
        """Return the AUC of both models over all folders of a day."""
        return {
            name: auc(self.labels[day], np.array(scores))
            for name, scores in self.scores.get(day, {}).items()
        }

    def _day_old(self, day: str) -> Predictor | None:
        """Return the base that was published at the beginning of the day before."""
        before = DAYS[DAYS.index(day) - 1] if day != DAYS[0] else None
        path = None if before is None else self._model / before / "base"
        if path is None or not (path / "MANIFEST.json").is_file():
            return None
        if str(path) not in self._old:
            self._old[str(path)] = Predictor(path)
        return self._old[str(path)]


def follow_along(watch: Watch, data: Path, model: Path, trainer: subprocess.Popen[bytes]) -> None:
    """Let folders appear as fast as the trainer follows, and predict each of them first."""
    clicks = DriftingClicks()
    names = split_names(DAYS, minutes=MINUTES)
    deadline = time.monotonic() + DEADLINE_S
    for index, name in enumerate(names):
        split = clicks.split(name, minutes=MINUTES)
        watch.predict(split)
        write_split(data, split)
        begun = max(0, index - BATCHES_AHEAD)
        day, number = names[begun].partition("/")[0], begun % (len(names) // len(DAYS)) + 1
        while not (model / "passes" / day / f"{number}.json").is_file():
            if trainer.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the trainer has not come to {names[begun]}; see its log above")
            time.sleep(0.005)


def main() -> None:
    """Run the demonstration; fails if the followed model is not better by the margin."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("online_demo"))
    folder = parser.parse_args().folder
    shutil.rmtree(folder, ignore_errors=True)
    data, model, logs = folder / "data", folder / "model", folder / "logs"
    data.mkdir(parents=True)
    command = [sys.executable, "-m", "fleetrec.online", "-m", str(HERE / "config.yaml")]
    for key, value in (("train_data_dir", data), ("model_save_path", model)):
        command += ["-o", f"runner.online.{key}={value}"]
    begin = time.monotonic()
    with (folder / "trainer.log").open("wb") as log:
        trainer = subprocess.Popen(
            [*command, "--log-dir", str(logs)],
            env=environment_with({"OMP_NUM_THREADS": "1"}, unless_set={}),  # small batches
            stdout=log,
            stderr=log,
        )
        try:
            watch = Watch(model)
            follow_along(watch, data, model, trainer)
            status = trainer.wait(DEADLINE_S)
        finally:
            trainer.kill()
            trainer.wait()
    if status != 0:
        raise SystemExit(f"the trainer failed; see {folder / 'trainer.log'}")
    print(
        f"{len(split_names(DAYS, minutes=MINUTES))} passes in {time.monotonic() - begin:.0f} s; ",
        end="",
    )
    print(f"the follower changed its version {watch.num_versions} times")
    print("day        AUC of the followed model   of the base that is a day old")
    for day in DAYS[1:]:
        found = watch.aucs(day)
        if found:
            print(f"{day}   {found['followed']:.4f}                      {found['a day old']:.4f}")
    print(f"report: {next(logs.glob('*.online'))}/report.html")
    last = watch.aucs(DAYS[-1])
    if last["followed"] < last["a day old"] + MARGIN:
        raise SystemExit(f"expected the followed model to be better by {MARGIN}")


if __name__ == "__main__":
    main()
