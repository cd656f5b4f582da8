"""``fleetrec recall``: the items of an inference model that fit users best."""

import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from fleetrec.cli.logs import console_logging
from fleetrec.cli.predict import (
    PredictRequest,
    dataset_of,
    described,
    export_rows,
    newest_export,
    rows_of_job,
)
from fleetrec.config.job import TextTableOptions
from fleetrec.core.errors import ConfigError, DataError
from fleetrec.data.files import list_files
from fleetrec.export.feature_rules import with_text_cells
from fleetrec.export.prediction import ALL_COLUMNS, Array, InputRows, predict_rows
from fleetrec.export.predictor import Predictor
from fleetrec.export.retriever import Recalled, Retriever
from fleetrec.features.feature_set import FeatureSet
from fleetrec.features.values import FeatureValues

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecallRequest:
    """The arguments of the command."""

    model: str
    user: Sequence[str] = ()
    users: str | None = None
    topk: int = 10
    out: str | None = None
    keep: str | None = None
    measure: bool = False
    source: str | None = None
    phase: str | None = None
    with_header: bool = False
    batch_size: int = 1024
    overrides: Sequence[str] = ()

    def check(self) -> None:
        """Raise ConfigError with all problems."""
        problems = []
        if bool(self.user) == (self.users is not None):
            problems.append("recall: expected either --user name=value, or --users with a file")
        problems += [
            f"--user: expected name=value, got {pair!r}" for pair in self.user if "=" not in pair
        ]
        names = [pair.partition("=")[0] for pair in self.user]
        twice = sorted({name for name in names if names.count(name) > 1})
        problems += [f"--user: {name!r} is given twice" for name in twice]
        if self.out is not None and (self.measure or self.user):
            problems.append("--out: is for --users without --measure")
        if self.topk < 1:
            problems.append(f"--topk: expected 1 or more, got {self.topk}")
        if problems:
            raise ConfigError(problems)

    @property
    def reading(self) -> PredictRequest:
        """The same as a request to predict: the users are read like any data."""
        return PredictRequest(
            model=self.model,
            data=self.users,
            out=self.out,
            source=self.source,
            keep=self.keep,
            batch_size=self.batch_size,
            with_header=self.with_header,
            phase=self.phase,
            overrides=self.overrides,
        )


def recall_items(request: RecallRequest) -> None:
    """Print or write the best items of every user, or measure the index."""
    request.check()
    with console_logging():
        predictor = Predictor(newest_export(request.model))
        retriever = Retriever(predictor)
        if request.out is not None:
            _write(request, predictor, retriever)
            return
        rows = _rows(request, predictor, retriever)
        if request.measure:
            _measure(request, retriever, [some.values for some in rows])
            return
        _print(request, retriever, rows)


def _rows(
    request: RecallRequest, predictor: Predictor, retriever: Retriever, *, skip_rows: int = 0
) -> Iterator[InputRows]:
    """Yield the users."""
    tower, read = retriever.tower, request.reading
    if request.users is None:
        yield InputRows(values=_one_user(request.user, predictor, retriever), share=1.0)
        return
    files = list(list_files(request.users))
    if not files:
        raise DataError(f"--users {request.users}: no files")
    if request.source is None:
        yield from export_rows(read, tower.rules, predictor.text_table, files, skip_rows=skip_rows)
        return
    yield from rows_of_job(read, dataset_of(read), files, list(tower.feeds), skip_rows=skip_rows)


def _one_user(pairs: Sequence[str], predictor: Predictor, retriever: Retriever) -> FeatureValues:
    """Return the features of the user that is given as name=value: cells of text, as in a CSV."""
    cells = dict(pair.partition("=")[::2] for pair in pairs)
    rules = retriever.tower.rules
    known = ", ".join(retriever.columns)
    problems = [
        f"--user: the users of the model have no column {name!r}; known: {known}"
        for name in cells
        if not rules.split_columns([name])[0]
    ]
    if problems:
        raise ConfigError(problems)
    if predictor.text_table is None:  # the training data was no text
        rules = FeatureSet(with_text_cells(rules.options, TextTableOptions()))
    return rules.transform({name: [value] for name, value in cells.items()})


def _write(request: RecallRequest, predictor: Predictor, retriever: Retriever) -> None:
    read = request.reading
    files = list(list_files(request.users or ""))
    asked = {"model": predictor.fingerprint, "data": described(files), "topk": request.topk}
    writer = read.writer(asked)
    if writer.is_complete:
        logger.info("%s: complete already, %d users", request.out, writer.num_rows)
        return

    def score(values: FeatureValues) -> Mapping[str, Array]:
        return _columns(retriever.recall_values(values, topk=request.topk))

    rows = _rows(request, predictor, retriever, skip_rows=writer.num_rows)
    predict_rows(rows, score, writer)
    logger.info("written to %s: the items of %d users", request.out, writer.num_rows)


def _columns(found: Recalled) -> Mapping[str, Array]:
    """Return ids and scores of every user, as objects: users may have fewer items."""
    lists = {"items": found.ids, "scores": [scores_T.tolist() for scores_T in found.scores]}
    columns = {name: np.empty(len(some), object) for name, some in lists.items()}
    for name, some in lists.items():
        for place, one in enumerate(some):
            columns[name][place] = one
    return columns


def _measure(request: RecallRequest, retriever: Retriever, values: Sequence[FeatureValues]) -> None:
    recall, num_users = retriever.measure(values, topk=request.topk)
    print(
        f"recall@{request.topk} against brute force: {recall:.4f} ({num_users:,} users, "
        f"{retriever.num_items:,} items, index: {retriever.index_type})"
    )


def _print(request: RecallRequest, retriever: Retriever, rows: Iterator[InputRows]) -> None:
    """Print one line per item."""
    kept = request.reading.kept
    table = Table(box=None, pad_edge=False)
    is_named = False
    number = 0
    for some in rows:
        users = _names(some, number, kept)
        if not is_named:
            for head in (*(users[0] if users else {}), "rank", "item", "score"):
                table.add_column(head, justify="right")
            is_named = True
        found = retriever.recall_values(some.values, topk=request.topk)
        for user, ids, scores in zip(users, found.ids, found.scores, strict=True):
            for rank, (one, score) in enumerate(zip(ids, scores, strict=True), 1):
                table.add_row(*map(str, user.values()), str(rank), str(one), f"{score:.6g}")
        number += some.values.num_rows
    Console(width=_WIDTH if not Console().is_terminal else None).print(table)


_WIDTH = 200  # of a file or a pipe, which has none


def _names(rows: InputRows, number: int, kept: Sequence[str]) -> list[dict[str, Any]]:
    """Return what names each user: the kept columns, or the number of the row."""
    if rows.kept is not None and kept:
        names = rows.kept.schema.names if list(kept) == [ALL_COLUMNS] else list(kept)
        return [{name: row[name] for name in names} for row in rows.kept.to_pylist()]
    return [{"user": number + place} for place in range(1, rows.values.num_rows + 1)]
