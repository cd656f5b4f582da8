"""``fleetrec predict``: every row of some data through an inference model or a checkpoint."""

import contextlib
import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fleetrec.checkpoint.folder import Folder, published_kind
from fleetrec.cli.logs import console_logging
from fleetrec.config.job import DatasetOptions, PhaseOptions, RunOptions, TextTableOptions
from fleetrec.core import storage
from fleetrec.core.errors import ConfigError, DataError
from fleetrec.data.files import DataFile, list_files
from fleetrec.export.column_files import ColumnFiles
from fleetrec.export.column_files import format_of as data_format
from fleetrec.export.feature_rules import with_text_cells
from fleetrec.export.manifest import KIND
from fleetrec.export.prediction import (
    ALL_COLUMNS,
    Array,
    InputRows,
    Score,
    column_rows,
    predict_rows,
)
from fleetrec.export.prediction_files import PredictionWriter, format_of
from fleetrec.export.predictor import Predictor
from fleetrec.features.feature_set import FeatureSet
from fleetrec.features.values import FeatureValues

logger = logging.getLogger(__name__)

EASYREC_ALL = "ALL_COLUMNS"
EASYREC_SEPARATOR = "\x01"
BATCH_SIZE = 1024


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictRequest:
    r"""The arguments of the command.

    With ``has_flags`` the model was given as EasyRec's ``--saved_model_dir``, which has other
    defaults: all columns are kept, and cells are separated by ``\x01``.
    """

    model: str | None
    data: str | None
    out: str | None
    has_flags: bool = False
    source: str | None = None
    model_dir: str | None = None
    keep: str | None = None
    outputs: str | None = None
    separator: str | None = None
    batch_size: int | None = None
    rows_per_part: int = 100_000
    with_header: bool = False
    phase: str | None = None
    overrides: Sequence[str] = ()
    quiet: bool = False

    def check(self) -> None:
        """Raise ConfigError with all problems."""
        problems = [
            f"predict: {what}: required, but missing"
            for what, value in (
                ("MODEL (or --checkpoint_path, --model_dir, --saved_model_dir)", self.model),
                ("DATA (or --input_path)", self.data),
                ("OUT (or --output_path)", self.out),
            )
            if not value
        ]
        if problems:
            raise ConfigError(problems)

    @property
    def kept(self) -> tuple[str, ...]:
        """The columns to keep."""
        keep = self.keep if self.keep is not None else EASYREC_ALL if self.has_flags else ""
        if keep in (ALL_COLUMNS, EASYREC_ALL):
            return (ALL_COLUMNS,)
        return tuple(name.strip() for name in keep.split(",") if name.strip())

    @property
    def fetches(self) -> tuple[str, ...]:
        """The outputs to write, without the types that EasyRec has after the names; empty: all."""
        if self.outputs in (None, ALL_COLUMNS, EASYREC_ALL):
            return ()
        return tuple(one.split()[0] for one in (self.outputs or "").split(",") if one.strip())

    def writer(self, request: Mapping[str, Any]) -> PredictionWriter:
        """Open the output."""
        assert self.out is not None, "checked"
        form = format_of(self.out, default="csv" if self.has_flags else _default_format(self))
        separator = self.separator or (EASYREC_SEPARATOR if self.has_flags else ",")
        return PredictionWriter(
            self.out,
            format=form,
            request={**request, "keep": list(self.kept), "outputs": list(self.fetches)},
            rows_per_part=self.rows_per_part,
            separator=separator if form == "csv" else ",",
        )


def predict_data(request: PredictRequest) -> None:
    """Predict all rows; parts that are there already stay."""
    request.check()
    assert request.model is not None and request.data is not None, "checked"
    with contextlib.nullcontext() if request.quiet else console_logging():
        files = list(list_files(request.data))
        if not files:
            raise DataError(f"{request.data}: no files")
        model = newest_export(request.model)
        if published_kind(model) == KIND:
            _predict_with_export(request, model, files)
        else:
            _predict_with_checkpoint(request, model, files)


def _predict_with_export(request: PredictRequest, url: str, files: Sequence[DataFile]) -> None:
    predictor = Predictor(url)
    wanted = request.fetches or tuple(predictor.fetches)
    writer = request.writer({"model": predictor.fingerprint, "data": described(files)})
    if _is_done(writer, request):
        return

    def score(values: FeatureValues) -> Mapping[str, Array]:
        return predictor.predict_values(values, wanted)

    if request.source is None:
        rows = export_rows(
            request, predictor.rules, predictor.text_table, files, skip_rows=writer.num_rows
        )
    else:
        rows = rows_of_job(
            request, dataset_of(request), files, list(predictor.feeds), skip_rows=writer.num_rows
        )
    predict_rows(rows, score, writer)
    _report(writer, request)


def export_rows(
    request: PredictRequest,
    rules: FeatureSet,
    table: TextTableOptions | None,
    files: Sequence[DataFile],
    *,
    skip_rows: int,
) -> Iterator[InputRows]:
    """Yield rows as the rules of an inference model, or of one of its towers, describe them."""
    form = data_format(files) or ("csv" if table is not None else None)
    if form is None:
        raise DataError(
            f"{files[0].path}: expected a CSV, Parquet or Arrow file; for other formats give the "
            "job whose data set describes them by -m"
        )
    if table is None:  # the training data was no text
        table = TextTableOptions()
        if form == "csv":
            rules = FeatureSet(with_text_cells(rules.options, table))
    if request.with_header:
        table = table.model_copy(update={"columns": ()})
    return column_rows(
        ColumnFiles(files=files, format=form, text_table=table),
        rules,
        keep=request.kept,
        batch_size=request.batch_size or BATCH_SIZE,
        skip_rows=skip_rows,
    )


def _predict_with_checkpoint(request: PredictRequest, url: str, files: Sequence[DataFile]) -> None:
    from fleetrec.cli.trained import open_trained, run_of
    from fleetrec.train.prediction import CheckpointModel, in_file_order
    from fleetrec.train.stored_run import to_inference

    checkpoint = open_trained(url)
    run = to_inference(
        run_of(checkpoint, request.source, model_dir=request.model_dir, overrides=request.overrides)
    )
    phase = _phase(run, request.phase)
    writer = request.writer({"model": _identity(checkpoint, phase), "data": described(files)})
    if _is_done(writer, request):
        return
    assert request.data is not None, "checked"
    dataset = in_file_order(phase.dataset, request.data, batch_size=request.batch_size)
    model = CheckpointModel(checkpoint, run, phase.model_copy(update={"dataset": dataset}))
    rows = rows_of_job(request, dataset, files, model.needed, skip_rows=writer.num_rows)
    with model.evaluating():
        predict_rows(rows, _chosen(model.score, request.fetches), writer)
    _report(writer, request)


def rows_of_job(
    request: PredictRequest,
    dataset: DatasetOptions,
    files: Sequence[DataFile],
    needed: Sequence[str],
    *,
    skip_rows: int,
) -> Iterator[InputRows]:
    """Yield rows as the data set of a job describes them."""
    from fleetrec.train.prediction import in_file_order, job_rows

    assert request.data is not None, "checked"
    ordered = in_file_order(dataset, request.data, batch_size=request.batch_size)
    if request.with_header:
        table = ordered.text_table.model_copy(update={"columns": ()})
        ordered = ordered.model_copy(update={"text_table": table})
    return job_rows(ordered, files, needed=needed, keep=request.kept, skip_rows=skip_rows)


def dataset_of(request: PredictRequest) -> DatasetOptions:
    """Return the data set of a job, for an inference model."""
    from fleetrec.cli.job import load_job

    job = load_job(request.source or "", overrides=request.overrides)
    return _phase(job.runs[-1], request.phase).dataset


def _phase(run: RunOptions, name: str | None) -> PhaseOptions:
    phases = {phase.name: phase for phase in run.phases}
    if name is None and len(phases) == 1:
        return run.phases[0]
    if name not in phases:
        listed = ", ".join(phases)
        raise ConfigError([f"--phase: expected one of {listed}, got {name or 'none'}"])
    return phases[name]


def _chosen(score: Score, fetches: Sequence[str]) -> Score:
    def chosen(values: FeatureValues) -> Mapping[str, Array]:
        found = score(values)
        unknown = [name for name in fetches if name not in found]
        if unknown:
            raise ConfigError(
                [f"--outputs: no output is called {unknown[0]!r}; known: {', '.join(found)}"]
            )
        return {name: found[name] for name in fetches} if fetches else found

    return chosen


def newest_export(url: str) -> str:
    """Return the model itself, or the newest in a folder of exports that are named by time."""
    if published_kind(url) is not None or not storage.exists(url):
        return url
    names = [name for name in storage.list_names(url) if name.isdecimal()]
    for name in sorted(names, key=int, reverse=True):
        if published_kind(storage.join(url, name)) == KIND:
            return storage.join(url, name)
    return url


def _identity(checkpoint: Folder, phase: PhaseOptions) -> dict[str, Any]:
    progress = checkpoint.meta.get("progress", {})
    return {
        "run_id": checkpoint.meta.get("run_id"),
        "step": progress.get("step"),
        "phase": phase.name,
    }


def described(files: Sequence[DataFile]) -> list[list[Any]]:
    """Return files by name and size, to find out whether they are the same later."""
    return [[file.name, file.num_bytes] for file in files]


def _default_format(request: PredictRequest) -> str:
    """Return EasyRec's format for outputs of checkpoints if there is no suffix."""
    return "jsonl" if request.model_dir or request.source else "parquet"


def _is_done(writer: PredictionWriter, request: PredictRequest) -> bool:
    if writer.is_complete:
        logger.info("%s: complete already, %d rows", request.out, writer.num_rows)
    return writer.is_complete


def _report(writer: PredictionWriter, request: PredictRequest) -> None:
    logger.info(
        "written to %s: %d rows in %d parts", request.out, writer.num_rows, len(writer.parts)
    )
