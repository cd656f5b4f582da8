"""Saves checkpoints while training continues, and publishes serving models of them."""

import dataclasses
import json
import logging
import platform
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

import fleetrec
from fleetrec.checkpoint.folder import publish_folder
from fleetrec.checkpoint.staging import Staging
from fleetrec.checkpoint.tables import TABLES
from fleetrec.checkpoint.tensors import encode_tensors
from fleetrec.config.job import RunOptions
from fleetrec.core import storage
from fleetrec.core.background import yield_to_training
from fleetrec.core.errors import FleetRecError, LostRankError
from fleetrec.core.progress import Progress
from fleetrec.embedding.record import TableRecord
from fleetrec.export.done_files import CheckpointDone, add_checkpoint
from fleetrec.export.serving import ServingPublisher, ServingRequest
from fleetrec.parallel.group import Group
from fleetrec.parallel.on_chief import on_chief
from fleetrec.parallel.state import StateCut
from fleetrec.parallel.worker_payload import latest_progress, progress_within
from fleetrec.train.checkpoints import model_name
from fleetrec.train.context import RunContext
from fleetrec.train.delta_chain import DeltaChain, has_deltas, prune, prune_days
from fleetrec.train.pass_plan import PassPlan, last_pass, last_pass_index
from fleetrec.train.peer_counters import peer_counters
from fleetrec.train.phase import Phase
from fleetrec.train.resume_signature import resume_signature

logger = logging.getLogger(__name__)

METRICS = "metrics"  # the file of counters beside the tensors of a phase
PEER_TIMEOUT_S = 5.0  # for the thread of a process that has lost its peers


@dataclasses.dataclass(frozen=True, kw_only=True)
class SaveRequest:
    """One checkpoint that is due.

    ``metrics`` and ``rules`` go into the manifest: what was measured so far, and what the rules
    have to remember. A checkpoint that ``is_replaceable`` never becomes the parent of a delta. Of
    the checkpoints of the template ``prune_path`` the newest ``keep`` stay; 0: all. ``serving`` is
    the serving model to publish of it, ``done`` its entry in a done file. Then the folders of days
    before ``oldest_day`` are deleted.
    """

    url: str
    progress: Progress
    metrics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    rules: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    is_delta: bool = False
    is_replaceable: bool = False
    prune_path: str = ""
    keep: int = 0
    serving: ServingRequest | None = None
    done: CheckpointDone | None = None
    oldest_day: str | None = None


@dataclasses.dataclass(kw_only=True)
class _Write:
    """A checkpoint that is being written, or one that a serving model is being made of."""

    request: SaveRequest
    staging: Staging | None = None
    cuts: Mapping[str, StateCut] = dataclasses.field(default_factory=dict)
    tensors: Mapping[str, Mapping[str, Tensor]] = dataclasses.field(default_factory=dict)
    meta: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    error: BaseException | None = None
    thread: threading.Thread | None = None


class Saver:
    """Publishes checkpoints; every process of ``group`` makes the same calls.

    ``save`` fixes the state and returns. A thread writes and publishes it while steps continue; the
    next call of ``save``, ``wait`` or ``close`` waits for it. An error of the thread is raised by
    the next call of any method.
    """

    def __init__(
        self,
        run: RunOptions,
        phases: Sequence[Phase],
        group: Group,
        plan: PassPlan,
        context: RunContext,
        *,
        publisher: ServingPublisher | None = None,
    ) -> None:
        self._run = run
        self._publisher = publisher  # on the chief of a run that publishes serving models
        self._phases = phases
        self._group = group
        self._plan = plan
        self._context = context
        self._chain = DeltaChain(run.checkpoint_base_interval)
        self._saved: dict[str, Progress] = {}
        self._served: tuple[str, str] | None = None  # the last serving model, its checkpoint
        self._served_url = ""
        self._last: str | None = None
        self._writing: _Write | None = None
        self._num_saves = 0
        self._first_progress: Sequence[Progress] = ()

    def set_first_progress(self, by_worker: Sequence[Progress]) -> None:
        """Remember where the workers of a resumed run start, if each has its own progress."""
        self._first_progress = by_worker if len(by_worker) > 1 else ()

    def begin_from(self, url: str, progress: Progress, *, chain: Sequence[str]) -> None:
        """Remember the checkpoint that was loaded, so that it is not saved again."""
        self._saved[url] = progress
        self._last = url
        self._chain.load(chain)

    def is_saved(self, url: str, progress: Progress) -> bool:
        """Return whether ``url`` is a checkpoint of this very progress."""
        return self._saved.get(url) == progress

    def last_saved(self, progress: Progress) -> str | None:
        """Return the last checkpoint if it is one of this very progress."""
        return self._last if self._last and self.is_saved(self._last, progress) else None

    def save(self, request: SaveRequest) -> None:
        """Fix the state of all phases, and let a thread write it."""
        self.wait()
        staging, parent = self._begin(request)
        cuts = {phase.name: phase.state.cut(parent=parent) for phase in self._phases}
        tensors = {
            f"{name}/{file}": group
            for name, cut in cuts.items()
            for file, group in cut.dense.items()
        }
        stored = zip(*(cut.worker_progress for cut in cuts.values()), strict=True)
        by_worker = [latest_progress(its) for its in stored]
        for phase in self._phases:
            merged = self._merged_metrics(phase, request.progress, by_worker)
            if merged:
                tensors[f"{phase.name}/{METRICS}"] = merged
        meta = self._meta(request) | self._worker_progress(by_worker, request.progress)
        writing = _Write(request=request, staging=staging, cuts=cuts, tensors=tensors, meta=meta)
        same = {url: p for url, p in self._saved.items() if p == request.progress}
        self._saved = {**same, request.url: request.progress}
        self._last = request.url
        self._start(writing)

    def serve(self, request: SaveRequest) -> None:
        """Save and let the thread publish the serving model of the request.

        If a checkpoint of this very progress is there, the serving model is made of that one.
        """
        self.wait()
        self._num_saves += 1
        saved = on_chief(
            self._group,
            lambda: self._parent_at(request.progress) or "",
            key=f"serve/{self._num_saves}",
            pass_index=request.progress.pass_index,
        )
        if not saved:
            self.save(request)
        elif request.serving is not None and self._served != (request.serving.url, saved):
            self._start(_Write(request=dataclasses.replace(request, url=saved)))

    def note(self, done: CheckpointDone | None) -> None:
        """Add a checkpoint that was saved before the run broke off to the done file."""
        if done is not None and self._group.is_chief:
            add_checkpoint(self._online_folder, done)

    def _parent_at(self, progress: Progress) -> str | None:
        """Return the checkpoint of this very progress that the next delta builds on."""
        saved = self.last_saved(progress)
        return saved if saved is not None and self._chain.ends_in(saved) else None

    def _start(self, writing: _Write) -> None:
        writing.thread = threading.Thread(
            target=self._write, args=(writing,), name="fleetrec-save", daemon=True
        )
        self._writing = writing
        writing.thread.start()

    def poll(self) -> None:
        """Report a checkpoint that has been published, or raise the error that prevented it."""
        if self._writing is not None and not _thread_of(self._writing).is_alive():
            self.wait()

    def wait(self) -> None:
        """Wait until the last checkpoint is published."""
        writing, self._writing = self._writing, None
        if writing is None:
            return
        _thread_of(writing).join()
        if writing.error is not None:
            self._saved.pop(writing.request.url, None)
            raise writing.error
        self._report(writing)

    def _report(self, writing: _Write) -> None:
        request = writing.request
        if request.serving is not None:
            self._served = (request.serving.url, request.url)
        if not self._group.is_chief:
            return
        epoch = last_pass_index(request.progress)
        if writing.staging is not None:
            what = "best checkpoint" if request.is_replaceable else "checkpoint"
            self._context.observer.saved(what, request.url, epoch=epoch)
        if request.serving is not None:
            self._context.observer.saved("serving model", self._served_url, epoch=epoch)

    def check_failed(self, *, timeout_s: float = PEER_TIMEOUT_S) -> None:
        """Raise the error of the thread, if it has failed and is not about a lost rank.

        A process that has lost its peers calls this: they may have ended because of that error. A
        thread that still waits for them is abandoned.
        """
        writing, self._writing = self._writing, None
        if writing is None:
            return
        _thread_of(writing).join(timeout_s)
        error = writing.error
        is_own = isinstance(error, FleetRecError | OSError) and not isinstance(error, LostRankError)
        if error is not None and is_own:  # others follow from the loss of the group
            raise error

    def close(self) -> None:
        """Wait for the thread; its error matters no more."""
        writing, self._writing = self._writing, None
        if writing is not None:
            _thread_of(writing).join()

    @property
    def _online_folder(self) -> str:
        assert self._run.online is not None, "only online runs have days"
        return self._run.online.save_path

    def _begin(self, request: SaveRequest) -> tuple[Staging, str | None]:
        """Let the chief decide where files are written, and which checkpoint is the parent."""
        self._num_saves += 1
        staging: Staging | None = None

        def begin() -> str:
            nonlocal staging
            parent = None
            if not request.is_replaceable:
                parent = self._chain.parent_of(request.url, must_be_delta=request.is_delta)
            staging = Staging.create(request.url)
            reference = parent and storage.relative(parent, to=request.url)
            return json.dumps([storage.absolute(staging.url), reference])

        pass_index = request.progress.pass_index
        sent = on_chief(self._group, begin, key=f"save/{self._num_saves}", pass_index=pass_index)
        url, reference = json.loads(sent)
        return staging or Staging.open(url), reference

    def _merged_metrics(
        self, phase: Phase, progress: Progress, by_worker: Sequence[bytes]
    ) -> dict[str, Tensor]:
        """Return the counters of all processes on the chief; nothing elsewhere."""
        own = phase.metrics.state_bytes()
        if self._group.size == 1:
            counted = peer_counters(self._phases, self._context, phase, progress, by_worker)
            return phase.metrics.merged_state([own], closed=counted)
        gathered = [
            self._group.all_gather(
                part, key=f"save/{self._num_saves}/{phase.name}/{index}", pass_index=None
            )
            for index, part in enumerate(own)
        ]
        if not self._group.is_chief:
            return {}
        return phase.metrics.merged_state(list(zip(*gathered, strict=True)))

    def _worker_progress(
        self, by_worker: Sequence[bytes], progress: Progress
    ) -> dict[str, list[dict[str, Any]]]:
        """Return the progress of every worker within a pass, if each has its own.

        A worker that has made no step is where it started.
        """
        first = [one.to_bytes() for one in self._first_progress]
        found = [
            progress_within(by_worker, rank, progress) or progress_within(first, rank, progress)
            for rank in range(len(by_worker))
        ]
        if not any(found):  # between two passes
            return {}
        return {"worker_progress": [(its or progress.pass_start()).to_dict() for its in found]}

    def _write(self, writing: _Write) -> None:
        """Write and publish; runs in a thread of its own."""
        yield_to_training()
        try:
            request = writing.request
            if writing.staging is not None:
                self._write_and_publish(writing, writing.staging)
            self.note(request.done)
            self._publish_serving(request)
            if request.oldest_day is not None and self._group.is_chief:
                prune_days(self._online_folder, before=request.oldest_day)
        except BaseException as error:  # noqa: BLE001 (raised again by the next call of the loop)
            writing.error = error

    def _publish_serving(self, request: SaveRequest) -> None:
        """Publish the serving model of a published checkpoint, on the chief."""
        if request.serving is not None and self._group.is_chief:
            assert self._publisher is not None, "a run with serving models has a publisher"
            made = self._publisher.publish(request.url, request.serving)
            self._served_url = request.serving.target(made.type)

    def _write_and_publish(self, writing: _Write, staging: Staging) -> None:
        request, errors = writing.request, []
        records: dict[str, Mapping[str, TableRecord]] = {}
        for name, cut in writing.cuts.items():  # all of them: other processes wait for each
            try:
                records[name] = cut.write(storage.join(staging.url, name, TABLES))
            except Exception as error:  # noqa: BLE001
                errors.append(error)
        if self._group.is_chief and not errors:
            try:
                self._publish(writing, staging, records)
            except Exception as error:  # noqa: BLE001
                errors.append(error)
        is_published = self._group.is_chief and not errors
        if self._group.is_chief and errors:
            staging.discard()
        for cut in writing.cuts.values():
            try:
                cut.finish(
                    published=is_published and not request.is_replaceable,
                    error=str(errors[0]) if errors else "",
                )
            except Exception as error:  # noqa: BLE001
                errors.append(error)
        if errors:
            raise errors[0]
        if is_published and request.keep:
            prune(request.prune_path, keep=request.keep)

    def _publish(
        self,
        writing: _Write,
        staging: Staging,
        records: Mapping[str, Mapping[str, TableRecord]],
    ) -> None:
        request = writing.request
        plain = {
            name: {table: record.to_plain() for table, record in tables.items()}
            for name, tables in records.items()
        }
        publish_folder(
            staging,
            contents=encode_tensors(writing.tensors),
            meta={**writing.meta, TABLES: plain},
        )
        if not request.is_replaceable:
            written = [record for tables in records.values() for record in tables.values()]
            self._chain.add(request.url, is_delta=has_deltas(written))

    def _meta(self, request: SaveRequest) -> dict[str, Any]:
        spec = last_pass(self._plan, request.progress)
        return {
            "kind": "checkpoint",
            "run_id": self._context.run_id,
            "runner": self._run.name,
            "progress": request.progress.to_dict(),
            "metrics": request.metrics,
            "rules": request.rules,
            "models": {phase.name: model_name(phase.options) for phase in self._phases},
            "names": {phase.name: phase.variable_names() for phase in self._phases},
            "data": {} if spec is None else dict(spec.fingerprint),
            "job": resume_signature(self._run),
            "config": self._run.to_plain(),
            "versions": {
                "fleetrec": fleetrec.__version__,
                "torch": torch.__version__,
                "python": platform.python_version(),
            },
        }


def _thread_of(writing: _Write) -> threading.Thread:
    assert writing.thread is not None
    return writing.thread
