"""A run in this process that saves checkpoints and publishes serving models of them."""

import dataclasses
import functools
import itertools

import numpy as np
import torch

from fleetrec.core.progress import Progress
from fleetrec.export.inference import plan_inference
from fleetrec.export.serving import ServingPublisher, ServingRequest
from fleetrec.parallel.solo import SoloGroup
from fleetrec.train.pass_plan import Epochs
from fleetrec.train.phase import build_phase
from fleetrec.train.saver import Saver, SaveRequest
from making_phases import evaluate
from making_training import RUN_ID, Recorder, decode_run, make_config, make_context

DAY_S = 86_400
GROWING = (
    "hyper_parameters.distributed_embedding=1",
    "hyper_parameters.admission={kind: count, threshold: 2}",
)
EVICTING = (*GROWING, "hyper_parameters.eviction={max_rows: 30}")
TABLE = "SparseFeatFactors"


class ServingRun:
    """Makes passes, of which each counts as a day; saves and publishes when the test says so."""

    def __init__(self, folder, *, place=None, overrides=EVICTING, run_id=RUN_ID, **options):
        folder.mkdir(parents=True, exist_ok=True)
        run = decode_run(make_config(folder), *overrides)
        group = SoloGroup(torch.device("cpu"))
        self.place = str(place or folder)
        self.phase = build_phase(run.phases[0], run, group)
        plan = Epochs(100, {self.phase.name: self.phase.loader.files})
        context = make_context(folder / "run", Recorder(), run_id=run_id)
        model = plan_inference(self.phase.model, self.phase.loader.inputs, feeds=(), fetches=())
        self._make_publisher = functools.partial(
            ServingPublisher, model, phase=self.phase.name, folder=self.place, **options
        )
        self.publisher = self._make_publisher()
        self.last_url = ""
        self.saver = Saver(run, [self.phase], group, plan, context, publisher=self.publisher)
        self.num_passes = 0
        with self.phase.loader.epoch(0) as batches:
            self.batches = list(batches)
        self._num_steps = 0

    def train_pass(self, *, num_batches=None):
        """Train on some batches, from another one each time, so that rows come and leave."""
        now = self.num_passes * DAY_S
        number = len(self.batches) if num_batches is None else num_batches
        order = itertools.islice(itertools.cycle(self.batches), self.num_passes, None)
        for batch in itertools.islice(order, number):
            self._num_steps += 1
            progress = Progress(step=self._num_steps)
            self.phase.stepper.train(_at(batch, now), progress=progress)
        self.phase.stepper.end_pass(self.num_passes, now=now, ends_day=True)
        self.num_passes += 1

    def save(self, name, *, is_delta=True):
        """Save a checkpoint; returns its URL."""
        url = f"{self.place}/{name}"
        progress = Progress(pass_index=self.num_passes, step=self._num_steps)
        self.saver.save(SaveRequest(url=url, progress=progress, is_delta=is_delta))
        self.saver.wait()
        return url

    def publish(self, checkpoint, name, **request):
        """Publish a serving model of a checkpoint; returns its manifest."""
        values = {"kind": "delta", "id": self.num_passes * DAY_S, **request}
        self.last_url = f"{self.place}/{name}"
        return self.publisher.publish(
            checkpoint, ServingRequest(url=f"{self.place}/{name}", **values)
        )

    def new_publisher(self):
        """Publish with another publisher from here on, as a restarted run does."""
        self.publisher = self._make_publisher()

    def make_version(self, *, num_batches=3, **request):
        """Train, save, publish: the next version."""
        self.train_pass(num_batches=num_batches)
        checkpoint = self.save(f"checkpoint-{self.num_passes}")
        return self.publish(checkpoint, f"model-{self.num_passes}", **request)

    @property
    def table(self):
        """The native table of the live model."""
        return self.phase.state.stores[TABLE].table

    def live_ids(self):
        """The ids that have rows now."""
        return set(self.table.snapshot()["ids"].view(np.uint64).tolist())

    def assert_answers(self, predictor):
        """Check that a predictor answers as the live model does, on all data."""
        for batch in self.batches:
            feeds = feeds_of(batch, ["dense_feature", "1", "2", "3"])
            found = predictor.predict(feeds)
            for name, value in evaluate(self.phase, batch).items():
                np.testing.assert_allclose(found[name], value.numpy(), atol=1e-6, rtol=0)


def feeds_of(batch, names):
    """Return a batch as a user would feed it."""
    return {name: _feed(batch, name) for name in names}


def _feed(batch, name):
    if name in batch.dense:
        return batch.dense[name].numpy()
    jagged = batch.ids[name]
    values = jagged.values.tolist()
    return [values[a:b] for a, b in itertools.pairwise(jagged.offsets.tolist())]


def _at(batch, event_time):
    return dataclasses.replace(batch, event_time=event_time)
