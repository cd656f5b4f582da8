"""The items of ``fleetrec export --items``: read in any format that ``fleetrec predict`` takes."""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from fleetrec.cli.predict import PredictRequest, export_rows, rows_of_job
from fleetrec.config.features import IdListOptions, IdRule
from fleetrec.config.job import RunOptions
from fleetrec.core.errors import ConfigError, DataError
from fleetrec.data.files import DataFile, list_files
from fleetrec.export.column_files import format_of
from fleetrec.export.item_files import INDEX_TYPES, ItemRows, ItemWriter
from fleetrec.export.prediction import InputRows
from fleetrec.export.predictor import Predictor, TowerPredictor
from fleetrec.features.values import FeatureValues

BATCH_SIZE = 4096


@dataclasses.dataclass(frozen=True, kw_only=True)
class ItemsRequest:
    """The arguments of the command that concern items."""

    data: str | None
    item_id: str | None
    index: str | None = None
    with_header: bool = False

    def problems(self) -> list[str]:
        """Return what is wrong or missing."""
        found = []
        if self.data is None:
            found.append("--item-id, --index, --with_header: are for --items, which is missing")
        elif self.item_id is None:
            found.append("--items: expected --item-id, the column with the ids of items")
        if self.index not in (None, *INDEX_TYPES):
            found.append(f"--index: expected {', '.join(INDEX_TYPES)}, got {self.index!r}")
        return found


def items_request(
    data: str | None, item_id: str | None, index: str | None, *, with_header: bool
) -> ItemsRequest | None:
    """Return what was asked for; None: the model gets no items."""
    if data is None and item_id is None and index is None and not with_header:
        return None
    return ItemsRequest(data=data, item_id=item_id, index=index, with_header=with_header)


def item_writer(request: ItemsRequest, run: RunOptions) -> ItemWriter:
    """Return what adds the items to a model; files that are missing are reported now."""
    assert request.data is not None and request.item_id is not None, "checked"
    files = list(list_files(request.data))
    if not files:
        raise DataError(f"--items {request.data}: no files")
    read = PredictRequest(
        model=None,
        data=request.data,
        out=None,
        keep=request.item_id,
        batch_size=BATCH_SIZE,
        with_header=request.with_header,
    )
    item_id = request.item_id

    def rows_of(tower: TowerPredictor, predictor: Predictor) -> ItemRows:
        if format_of(files) is not None or predictor.text_table is not None:
            rows = export_rows(read, tower.rules, predictor.text_table, files, skip_rows=0)
            return _kept_ids(rows)
        return _rows_of_job(read, run, files, tower, item_id)

    writer = ItemWriter(rows_of=rows_of, id_column=item_id, index=request.index or "auto")
    writer.check()
    return writer


def _kept_ids(rows: Iterator[InputRows]) -> ItemRows:
    for some in rows:
        assert some.kept is not None, "asked for"
        yield some.values, some.kept.column(0)


def _rows_of_job(
    read: PredictRequest,
    run: RunOptions,
    files: Sequence[DataFile],
    tower: TowerPredictor,
    item_id: str,
) -> ItemRows:
    """Read a format that only the data set of the job describes."""
    from fleetrec.data.source import build_source
    from fleetrec.train.prediction import COLUMN_FORMATS

    dataset = run.phases[0].dataset
    source = build_source(dataset, files)
    if source.name in COLUMN_FORMATS:
        yield from _kept_ids(rows_of_job(read, dataset, files, list(tower.feeds), skip_rows=0))
        return
    plain = [
        feature.name
        for feature in source.input_rules.features.features
        if isinstance(feature, IdListOptions) and feature.rule == IdRule()
    ]
    if item_id not in plain:
        raise ConfigError(
            [
                f"--item-id: the format {source.name} has no columns, so expected a feature whose "
                f"ids are those of the data, got {item_id!r}; there is {', '.join(plain) or 'none'}"
            ]
        )
    needed = list(dict.fromkeys([*tower.feeds, item_id]))
    unkept = dataclasses.replace(read, keep=None)
    for some in rows_of_job(unkept, dataset, files, needed, skip_rows=0):
        yield some.values, _fed_ids(some.values, item_id)


def _fed_ids(values: FeatureValues, item_id: str) -> pa.Array:
    lists = values.ids[item_id]
    offsets = lists.offsets
    if offsets is not None and not bool((np.diff(offsets) == 1).all()):
        row = next(n for n, (a, b) in enumerate(itertools.pairwise(offsets), 1) if b - a != 1)
        raise DataError(f"--item-id: expected one id per item, row {row} of a batch has another")
    return pa.array(lists.ids)
