"""Makes inference models of checkpoints: only files are read, block by block."""

import dataclasses
import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType

from fleetrec.checkpoint.folder import Folder
from fleetrec.checkpoint.tables import stored_tables
from fleetrec.checkpoint.tensors import read_file
from fleetrec.config.input_rules import InputRules
from fleetrec.config.job import DatasetOptions, PhaseOptions, RunOptions
from fleetrec.core import storage
from fleetrec.core.batch import Inputs
from fleetrec.core.errors import CheckpointError, ConfigError, FleetRecError
from fleetrec.core.stream_url import is_stream
from fleetrec.core.tower_names import ITEM, USER
from fleetrec.data.files import DataFile, list_files
from fleetrec.data.source import Source, build_source
from fleetrec.embedding.snapshot import live_rows
from fleetrec.embedding.table import TableConfig
from fleetrec.export.assets import ASSET_FILES, read_assets
from fleetrec.export.folding import FoldTables
from fleetrec.export.inference import InferenceModel, hashed_into, plan_inference
from fleetrec.export.item_files import ItemWriter
from fleetrec.export.manifest import ModelManifest, SourceEntry, TableEntry, VersionEntry
from fleetrec.export.row_files import RowWriter
from fleetrec.models.base import Model
from fleetrec.models.load import load_model_class
from fleetrec.models.table_overrides import override_tables
from fleetrec.train.checkpoints import matching_part, progress_in

logger = logging.getLogger(__name__)

OPTION = "fleetrec export"


def export_checkpoint(
    checkpoint: Folder,
    run: RunOptions,
    url: str,
    *,
    assets: Mapping[str, bytes] = MappingProxyType({}),
    items: ItemWriter | None = None,
) -> list[str]:
    """Publish an inference model of every phase of a run; returns where they are.

    Rows are streamed from the files of the checkpoint, and of those that its deltas build on.
    """
    targets: list[str] = []
    for phase in run.phases:
        target = url if len(run.phases) == 1 else storage.join(url, phase.name)
        planned = _plan(phase, run)
        if items is not None:
            _check_towers(planned, phase)
        part = matching_part(checkpoint, phase)
        publish_export(planned, checkpoint, part, target, assets=assets, items=items)
        targets.append(target)
    return targets


def _plan(phase: PhaseOptions, run: RunOptions) -> InferenceModel:
    inputs, rules = _inputs(phase.dataset)
    model_class: Callable[..., Model] = load_model_class(phase.model_path)
    try:
        model = model_class(phase.model, inputs=inputs)
        override_tables(model, phase.tables)
    except ValueError as error:
        raise ConfigError([f"phase {phase.name}: {phase.model_path}: {error}"]) from error
    options = run.inference
    return plan_inference(
        model,
        inputs,
        feeds=options.feeds,
        fetches=options.fetches,
        rules=rules,
        row_type=options.rows,
        fold=FoldTables(max_mib=options.fold_mib) if options.fold_mib else None,
        assets=read_assets(options.assets, option=ASSET_FILES),
        option=OPTION,
    )


def _check_towers(planned: InferenceModel, phase: PhaseOptions) -> None:
    found = [tower.name for tower in planned.towers]
    if not {USER, ITEM} <= set(found):
        raise ConfigError(
            [
                f"--items: phase {phase.name}: {phase.model_path} has no towers user and item, "
                f"which models for retrieval declare; it has {', '.join(found) or 'none'}"
            ]
        )


def _inputs(dataset: DatasetOptions) -> tuple[Inputs, InputRules]:
    """Return the features of a data set, whose files may be gone."""
    source: Source = build_source(dataset, _files(dataset))
    dense = {n: shape for n, shape in source.inputs.dense.items() if n != dataset.sample_weight}
    return dataclasses.replace(source.inputs, dense=dense), source.input_rules


def _files(dataset: DatasetOptions) -> list[DataFile]:
    """Return the files; if they are gone, the path, whose suffix may name the format."""
    path = dataset.data_path
    if not is_stream(path):
        try:
            return list(list_files(path, dataset.stream_options))
        except FleetRecError:
            logger.info("%s: not there; the format of the data is taken from the job", path)
    return [DataFile(path=path, name=storage.name_of(path), num_bytes=0)]


def publish_export(
    planned: InferenceModel,
    checkpoint: Folder,
    part: str,
    target: str,
    *,
    assets: Mapping[str, bytes] = MappingProxyType({}),
    items: ItemWriter | None = None,
) -> None:
    """Publish an inference model of the weights in one phase of a checkpoint."""
    tables = stored_tables(checkpoint, part)
    missing = sorted(planned.model.embedding_collection().tables.keys() - tables.keys())
    if missing:
        raise CheckpointError(
            f"{checkpoint.name}: phase {part} has no table {missing[0]!r}; it has "
            f"{', '.join(tables) or 'none'}"
        )

    def fill(writer: RowWriter, table: TableConfig) -> TableEntry:
        for block in live_rows(tables[table.name].chain):
            writer.add(block["ids"], block["rows"])
        return writer.finish(content="all", hashed_into=hashed_into(table))

    step = progress_in(checkpoint).step
    manifest = ModelManifest(
        type="base",
        version=VersionEntry(id=step, key=step),
        source=SourceEntry(
            run_id=str(checkpoint.meta.get("run_id", "")),
            tables={name: table.record.fingerprint for name, table in tables.items()},
        ),
        graphs=(),
        tables={},
    )
    weights = read_file(checkpoint, f"{part}/model")
    made = planned.publish(
        target,
        manifest,
        fill=fill,
        weights=weights,
        assets=assets,
        add_items=None if items is None else items.add,
    )
    num_rows = sum(table.num_rows for table in made.tables.values())
    logger.info("exported %s: step %d, %d rows", storage.shown(target), step, num_rows)
