"""Predictions of a model of a checkpoint, and of data that only the data layer can read."""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fleetrec.checkpoint.folder import Folder
from fleetrec.config.job import DatasetOptions, PhaseOptions, RunOptions
from fleetrec.core.batch import SAMPLE, Batch
from fleetrec.core.cursor import Cursor
from fleetrec.core.errors import ConfigError
from fleetrec.core.sides import NEGATIVES
from fleetrec.data.columns import to_side
from fleetrec.data.files import DataFile
from fleetrec.data.loader import Loader
from fleetrec.data.source import build_source
from fleetrec.export.column_files import ColumnFiles
from fleetrec.export.feature_rules import restrict
from fleetrec.export.prediction import InputRows, column_rows
from fleetrec.features.feature_set import FeatureSet
from fleetrec.features.values import FeatureValues, IdLists
from fleetrec.models.base import predictions
from fleetrec.nn.denormals import flushed_denormals
from fleetrec.parallel.solo import SoloGroup
from fleetrec.train.checkpoints import matching_part, read_phase
from fleetrec.train.phase import build_phase

COLUMN_FORMATS = ("csv", "criteo", "parquet", "arrow")


class CheckpointModel:
    """The model of a checkpoint in memory, as it is evaluated."""

    def __init__(self, checkpoint: Folder, run: RunOptions, phase: PhaseOptions) -> None:
        self._phase = build_phase(phase, run, SoloGroup(torch.device("cpu")))
        self._phase.state.load(
            read_phase(checkpoint, matching_part(checkpoint, phase)), exact=False
        )
        model, inputs = self._phase.model, self._phase.loader.inputs
        groups = model.embedding_collection().groups.values()
        further = sorted({group.side for group in groups} - {SAMPLE, NEGATIVES})
        if further:
            raise ConfigError(
                [
                    f"{type(model).__module__} looks up vectors of the side {', '.join(further)}, "
                    "so it has no predictions for single samples"
                ]
            )
        self._labels = model.label_names()
        self._dense = dict(inputs.dense)
        embedded = model.embedding_collection().features
        looked_up = [feature.feature for feature in embedded if feature.side == SAMPLE]
        self._sparse = tuple(
            name for name in inputs.sparse if name in looked_up and name not in self._labels
        )
        dense = [name for name in inputs.dense if name not in self._labels]
        self.needed = (*self._sparse, *dense)

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """Enclose calls of ``score``."""
        with flushed_denormals(), self._phase.stepper.evaluating():
            yield

    def score(self, values: FeatureValues) -> dict[str, npt.NDArray[Any]]:
        """Return the outputs of some samples; labels are not used."""
        dense = [name for name in self._dense if name not in self._labels]
        zeros = {  # labels are numbers or ids, and the loss needs some
            name: IdLists(ids=np.zeros(values.num_rows, np.int64))
            for name in self._labels
            if name not in self._dense
        }
        labeled = dataclasses.replace(values, ids={**values.ids, **zeros})
        side = to_side([labeled], sparse=(*self._sparse, *zeros), dense=dense)
        labels = {
            name: torch.zeros(values.num_rows, *self._dense[name])
            for name in self._labels
            if name in self._dense
        }
        batch = Batch(ids=side.ids, dense={**side.dense, **labels}, cursor=Cursor())
        outputs = self._phase.stepper.predict(batch)
        return {name: value.cpu().numpy() for name, value in predictions(outputs).items()}


def job_rows(
    dataset: DatasetOptions,
    files: Sequence[DataFile],
    *,
    needed: Sequence[str],
    keep: Sequence[str],
    skip_rows: int,
) -> Iterator[InputRows]:
    """Yield the rows of some files as the data set of a job describes them."""
    source = build_source(dataset, files)
    if source.name not in COLUMN_FORMATS:
        if keep:
            raise ConfigError(
                [f"--keep: the format {source.name} has no columns; leave --keep out"]
            )
        yield from _loaded_rows(dataset, files, needed=needed, skip_rows=skip_rows)
        return
    table = source.options.text_table
    kind = "csv" if source.takes_text_table or source.name == "criteo" else source.name
    yield from column_rows(
        ColumnFiles(files=files, format=kind, text_table=table),
        FeatureSet(restrict(source.input_rules.features, needed)),
        keep=keep,
        batch_size=dataset.batch_size,
        skip_rows=skip_rows,
    )


def in_file_order(dataset: DatasetOptions, path: str, *, batch_size: int | None) -> DatasetOptions:
    """Return a data set that gives every row of its files once, in order."""
    return dataset.model_copy(
        update={
            "data_path": path,
            "more_paths": (),
            "kind": "DataLoader",
            "batch_size": batch_size or dataset.batch_size,
            "thread_num": None,
            "shuffle_files": False,
            "shuffle_rows": 0,
            "filters": (),
            "sample_ratio": 1.0,
            "bad_rows": type(dataset.bad_rows)(),
        }
    )


def _loaded_rows(
    dataset: DatasetOptions, files: Sequence[DataFile], *, needed: Sequence[str], skip_rows: int
) -> Iterator[InputRows]:
    """Yield rows that the loader decodes; those that were predicted before are decoded again."""
    with Loader(dataset, seed=0, files=files).epoch(0) as batches:
        for batch in batches:
            if batch.num_samples <= skip_rows:
                skip_rows -= batch.num_samples
                continue
            yield InputRows(values=_values(batch, needed, skip_rows), share=batch.progress)
            skip_rows = 0


def _values(batch: Batch, needed: Sequence[str], skip_rows: int) -> FeatureValues:
    ids: dict[str, IdLists] = {}
    for name in set(batch.ids.names) & set(needed):
        jagged = batch.ids[name]
        offsets = jagged.offsets.numpy()[skip_rows:]
        weights = jagged.weights
        ids[name] = IdLists(
            ids=jagged.values.numpy()[offsets[0] : offsets[-1]],
            offsets=offsets - offsets[0],
            weights=None if weights is None else weights.numpy()[offsets[0] : offsets[-1]],
        )
    dense = {name: value.numpy()[skip_rows:] for name, value in batch.dense.items()}
    num_rows = batch.num_samples - skip_rows
    return FeatureValues(num_rows=num_rows, ids=ids, dense=dense, num_present={})
