"""Train, evaluate, export and predict from Python: the same engine as the command line.

``import fleetrec`` loads nothing of it until one of the functions is used.
"""

import dataclasses
import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import pyarrow as pa

from fleetrec.cli.jobs import FinishedRun, JobStart, run_job
from fleetrec.cli.run import RunRequest
from fleetrec.train.records import read_records

PathOrUrl = str | PathLike[str]
Overrides = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What one runner of a job has left.

    ``passes`` are the records of its epochs and evaluations, in order, as ``metrics.jsonl`` has
    them; ``metrics`` are those of the last one.
    """

    name: str
    kind: str
    metrics: dict[str, float]
    passes: tuple[dict[str, Any], ...]
    checkpoint: str | None
    inference_model: str | None
    report: str
    log: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TrainResult:
    """The results of a job, by runner."""

    runs: tuple[RunResult, ...]

    @property
    def metrics(self) -> dict[str, float]:
        """Return the metrics of the last evaluation; without one, those of the last epoch."""
        passes = [record for run in self.runs for record in run.passes]
        evaluations = [record for record in passes if record["kind"] == "infer"]
        last = (evaluations or passes)[-1:]
        return _metrics(last[0]) if last else {}

    @property
    def checkpoint(self) -> str | None:
        """Return the newest checkpoint that was saved."""
        return next((run.checkpoint for run in reversed(self.runs) if run.checkpoint), None)

    @property
    def inference_model(self) -> str | None:
        """Return the newest inference model that was saved."""
        found = (run.inference_model for run in reversed(self.runs))
        return next((url for url in found if url), None)

    @property
    def report(self) -> str:
        """Return the report of the last training run: a page for a browser."""
        trained = [run for run in self.runs if run.kind == "train"]
        return (trained or list(self.runs))[-1].report


def train(
    job: PathOrUrl,
    *,
    overrides: Overrides | None = None,
    resume: bool = False,
    only: str | None = None,
    log_dir: PathOrUrl | None = None,
    quiet: bool = False,
) -> TrainResult:
    """Run a job, as ``fleetrec run`` does; returns metrics and outputs of its runners.

    Args:
        job: A YAML job, a pipeline (``x.config``), a folder with one, or a model: ``rank/dnn``.
        overrides: Keys to change, such as ``{"runner.train.epochs": 2}``.
        resume: Continue from the last checkpoint of this run.
        only: Run this runner only.
        log_dir: Folder for run folders and logs of processes. None: ``logs``.
        quiet: Show neither log lines nor progress.

    Raises:
        FleetRecError: The job is wrong, or it failed; the message says where and what to do.
    """
    request = RunRequest(
        model=fspath(job),
        overrides=override_texts(overrides),
        log_dir=None if log_dir is None else Path(log_dir),
        only=only,
    )
    start = JobStart(
        command=request.command(),
        resume=resume,
        log_dir=request.log_dir,
        only=only,
        quiet=quiet,
        returns=True,
    )
    finished = run_job(request.job_request(), start)
    return TrainResult(runs=tuple(map(_result, finished)))


def evaluate(
    job: PathOrUrl,
    *,
    checkpoint: PathOrUrl | None = None,
    overrides: Overrides | None = None,
    quiet: bool = False,
) -> dict[str, float]:
    """Return the metrics of a checkpoint on the evaluation data of its job.

    Of several runners that infer, the names of metrics begin with that of the runner.

    Args:
        job: The job, as for ``train``.
        checkpoint: The checkpoint. None: the newest one of the job.
        overrides: Keys to change.
        quiet: Show neither log lines nor progress.
    """
    from fleetrec.cli.eval import EvalRequest, evaluate_checkpoint

    by_run = evaluate_checkpoint(
        EvalRequest(
            source=fspath(job),
            checkpoint=None if checkpoint is None else fspath(checkpoint),
            overrides=override_texts(overrides),
            quiet=quiet,
        )
    )
    if len(by_run) == 1:
        return next(iter(by_run.values()))
    return {f"{run}/{name}": v for run, found in by_run.items() for name, v in found.items()}


def export(
    checkpoint: PathOrUrl,
    out: PathOrUrl,
    *,
    job: PathOrUrl | None = None,
    rows: str | None = None,
    overrides: Overrides | None = None,
) -> str:
    """Write the inference model of a checkpoint, as ``fleetrec export`` does; returns ``out``.

    Args:
        checkpoint: A checkpoint, or a folder whose newest one is taken.
        out: The folder or URL to create.
        job: The job. None: the one that has saved the checkpoint.
        rows: ``float32``, ``float16`` or ``int8``.
        overrides: Keys of ``job`` to change.
    """
    from fleetrec.cli.export import ExportRequest, export_model

    export_model(
        ExportRequest(
            checkpoint=fspath(checkpoint),
            out=fspath(out),
            source=None if job is None else fspath(job),
            rows=rows,
            overrides=override_texts(overrides),
        )
    )
    return fspath(out)


def predict(
    model: PathOrUrl,
    data: Any,
    *,
    keep: Sequence[str] = (),
    outputs: Sequence[str] = (),
    job: PathOrUrl | None = None,
) -> Any:
    """Return the predictions for some rows: one column per output, after the kept columns.

    Args:
        model: An inference model or a checkpoint.
        data: Files (a path, a pattern or a URL), or columns in memory: an Arrow table, lists by
            name, or a DataFrame of pandas or another library that has the Arrow interface. Labels
            are not needed.
        keep: Columns of the data to keep.
        outputs: Outputs of the model. Empty: all.
        job: A job whose data set describes the files, if the model does not.

    Returns:
        A DataFrame with the same index for a DataFrame of pandas, otherwise an Arrow table.
    """
    if isinstance(data, str | PathLike):
        return _predict_files(fspath(model), fspath(data), keep=keep, outputs=outputs, job=job)
    is_pandas = hasattr(data, "to_records")
    table = pa.Table.from_pandas(data, preserve_index=False) if is_pandas else pa.table(data)
    found = _predict_table(fspath(model), table, keep=keep, outputs=outputs, job=job)
    return found.to_pandas().set_index(data.index) if is_pandas else found


def override_texts(overrides: Overrides | None) -> list[str]:
    """Return overrides as the command line has them: ``key=value``, values as JSON."""
    return [f"{key}={json.dumps(value)}" for key, value in (overrides or {}).items()]


def _predict_files(
    model: str, data: str, *, keep: Sequence[str], outputs: Sequence[str], job: PathOrUrl | None
) -> pa.Table:
    import pyarrow.parquet as pq

    from fleetrec.cli.predict import PredictRequest, predict_data

    with tempfile.TemporaryDirectory(prefix="fleetrec-predict-") as folder:
        out = Path(folder) / "predictions.parquet"
        predict_data(
            PredictRequest(
                model=model,
                data=data,
                out=str(out),
                source=None if job is None else fspath(job),
                keep=",".join(keep) or None,
                outputs=",".join(outputs) or None,
                quiet=True,
            )
        )
        parts = sorted(out.glob("*.parquet"))
        return pa.concat_tables([pq.read_table(part) for part in parts])


def _predict_table(
    model: str,
    table: pa.Table,
    *,
    keep: Sequence[str],
    outputs: Sequence[str],
    job: PathOrUrl | None,
) -> pa.Table:
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory(prefix="fleetrec-predict-") as folder:
        path = Path(folder) / "rows.parquet"
        pq.write_table(table, path)
        return _predict_files(model, str(path), keep=keep, outputs=outputs, job=job)


def _result(finished: FinishedRun) -> RunResult:
    records = list(read_records(finished.folder.metrics))
    passes = tuple(record for record in records if record["event"] == "pass")
    return RunResult(
        name=finished.options.name,
        kind=finished.options.kind,
        metrics=_metrics(passes[-1]) if passes else {},
        passes=passes,
        checkpoint=_newest(records, "checkpoint"),
        inference_model=_newest(records, "inference model"),
        report=finished.folder.report,
        log=str(finished.folder.log),
    )


def _metrics(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics of a record; null in JSON stands for nan."""
    return {name: math.nan if v is None else float(v) for name, v in record["metrics"].items()}


def _newest(records: Sequence[Mapping[str, Any]], what: str) -> str | None:
    found = [r["path"] for r in records if r["event"] == "saved" and r["what"] == what]
    return str(found[-1]) if found else None
