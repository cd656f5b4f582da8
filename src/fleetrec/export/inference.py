"""A trained model as files that need no model code: an ONNX graph, rows of tables, and names.

Tables are not part of the graph, because they grow and are large: the inputs of the graph are
looked-up vectors, and the manifest describes the lookups. docs/formats/inference.md has the format.
``export/serving.py`` publishes models that are made of checkpoints.
"""

# Shape suffixes: B samples.

import contextlib
import copy
import dataclasses
import functools
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fleetrec.checkpoint.folder import Folder, describe, publish_folder
from fleetrec.checkpoint.staging import Staging
from fleetrec.config.input_rules import InputRules
from fleetrec.config.rules import RowType
from fleetrec.core import storage
from fleetrec.core.batch import SAMPLE, Inputs
from fleetrec.core.errors import (
    CheckpointError,
    ConfigError,
    FleetRecError,
    UnavailableError,
)
from fleetrec.core.sides import NEGATIVES
from fleetrec.embedding.collection import LookupGroup
from fleetrec.embedding.table import TableConfig
from fleetrec.export.feature_rules import pack_rules
from fleetrec.export.feed_names import name_problems
from fleetrec.export.folding import FoldTables
from fleetrec.export.manifest import (
    MODEL,
    FeedEntry,
    GraphEntry,
    GroupEntry,
    ItemsEntry,
    ModelManifest,
    PooledEntry,
    SequenceEntry,
    TableEntry,
)
from fleetrec.export.opened import OpenModel
from fleetrec.export.row_files import RowWriter
from fleetrec.export.tower_model import TowerModel
from fleetrec.export.traced_graph import TracedGraph, exporting, sample_batch
from fleetrec.models.base import Model, predictions

GRAPH = "model.onnx"
NEEDED = ("onnx", "onnxscript")
SAVE_INFERENCE = "save_inference_path"

FillTable = Callable[[RowWriter, TableConfig], TableEntry]  # writes the rows of a table
# Writes the items of a model that is not published yet; also returns the entries of their files.
AddItems = Callable[[Staging, OpenModel], tuple[ItemsEntry, dict[str, dict[str, Any]]]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class InferenceModel:
    """The content of an inference model, or of one of its towers; the names are checked."""

    model: Model
    inputs: Inputs
    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    rules: InputRules | None = None  # for raw columns
    row_type: RowType = "float32"
    fold: FoldTables | None = None
    assets: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
    option: str = SAVE_INFERENCE  # why the model is exported, for messages
    name: str = MODEL  # of the graph
    towers: tuple["InferenceModel", ...] = ()

    def write(
        self,
        url: str | Path,
        rows: Mapping[str, Mapping[str, Tensor]],
        *,
        add_items: AddItems | None = None,
    ) -> None:
        """Publish a base of the live weights; ``rows`` are ids and rows of every table."""

        def fill(writer: RowWriter, table: TableConfig) -> TableEntry:
            columns = {name: tensor.numpy() for name, tensor in rows[table.name].items()}
            writer.add(columns["ids"].view(np.uint64), columns["rows"])
            return writer.finish(content="all", hashed_into=hashed_into(table))

        manifest = ModelManifest(type="base", graphs=(), tables={})
        self.publish(url, manifest, fill=fill, add_items=add_items)

    def publish(
        self,
        url: str | Path,
        manifest: ModelManifest,
        *,
        fill: FillTable,
        weights: Mapping[str, Tensor] | None = None,
        assets: Mapping[str, bytes] = MappingProxyType({}),
        add_items: AddItems | None = None,
    ) -> ModelManifest:
        """Publish a model; returns its complete manifest.

        Args:
            url: Where it goes, in place of a folder that is there.
            manifest: Type, version, parent and source of the model.
            fill: Writes the rows of one table.
            weights: The dense network by name of the variable; None: as it is now.
            assets: Further files by name, besides those of the model.
            add_items: Writes the vectors of items, computed by the model.
        """
        rules, vocabularies = self._packed_rules if manifest.type == "base" else (None, {})
        graphs = self._encode_graphs(weights)
        every = {**self.assets, **assets} if manifest.type == "base" else {}
        contents = {**graphs, **{f"assets/{name}": one for name, one in every.items()}}
        contents |= vocabularies
        staging = Staging.create(url)
        try:
            tables: dict[str, TableEntry] = {}
            files = {name: describe(content) for name, content in contents.items()}
            for name, table in self.model.embedding_collection().tables.items():
                writer = RowWriter(staging, name, dim=table.dim, row_type=self.row_type)
                tables[name] = fill(writer, table)
                files |= writer.files
            if self.fold is not None and manifest.type == "base":
                written = Folder(url=staging.url, meta={}, files=files)
                folded = self.fold.fold(graphs[GRAPH], self.graph_entry(), written, tables)
                files |= {name: describe(content) for name, content in folded.items()}
                contents |= folded
            entries = tuple(one.graph_entry() for one in (self, *self.towers))
            complete = manifest.model_copy(
                update={"graphs": entries, "tables": tables, "input": rules}
            )
            if add_items is not None:
                for name, content in contents.items():
                    storage.write_bytes(storage.join(staging.url, name), content)
                written = Folder(url=staging.url, meta={}, files=files)
                items, of_items = add_items(staging, OpenModel(folder=written, manifest=complete))
                complete = complete.model_copy(update={"items": items})
                files |= of_items
            complete = complete.with_fingerprint(files)
            publish_folder(staging, contents=contents, meta=complete.to_plain(), written=files)
        except BaseException:
            with contextlib.suppress(FleetRecError):  # the first error is the one to show
                staging.discard()
            raise
        return complete

    def graph_entry(self) -> GraphEntry:
        """Return how the manifest describes this graph."""
        groups = self.model.embedding_collection().groups
        return GraphEntry(
            name=self.name,
            file=f"{self.name}.onnx",
            feeds=tuple(map(self._feed, self.feeds)),
            fetches=self.fetches,
            groups=tuple(
                _group(key, group) for key, group in groups.items() if group.side == SAMPLE
            ),
        )

    def _feed(self, name: str) -> FeedEntry:
        if name in self.inputs.dense:
            return FeedEntry(name=name, kind="dense", shape=tuple(self.inputs.dense[name]))
        return FeedEntry(name=name, kind="ids")

    def check_exportable(self) -> None:
        """Trace the model, so that a model that cannot be exported fails before training."""
        graph, names, example = self._traced()
        with exporting(self.model, self.option):
            torch.export.export(graph, example, dynamic_shapes=self._dynamic_shapes(names))
        for tower in self.towers:
            tower.check_exportable()

    def convert(self) -> None:
        """Convert the model to ONNX now, once: ``write`` then only fills in the weights.

        Conversion takes seconds. A process that writes calls this before the first step, so that
        a model that cannot be exported fails there. So does one whose vocabularies are gone.
        """
        _ = self._converted, self._packed_rules
        for tower in self.towers:
            tower.convert()

    @functools.cached_property
    def _packed_rules(self) -> tuple[InputRules | None, dict[str, bytes]]:
        return (None, {}) if self.rules is None else pack_rules(self.rules, self.feeds)

    @functools.cached_property
    def _converted(self) -> Any:  # an onnx.ModelProto; onnx is an extra
        """The ONNX model with the weights of the moment it was converted."""
        graph, names, example = self._traced()
        with exporting(self.model, self.option):
            program = torch.onnx.export(
                graph,
                example,
                input_names=names,
                output_names=list(self.fetches),
                dynamic_shapes=self._dynamic_shapes(names),
                dynamo=True,
                verbose=False,
                optimize=False,  # every weight keeps its name; runtimes optimize what they load
            )
        assert program is not None
        return program.model_proto

    def _encode_graphs(self, weights: Mapping[str, Tensor] | None) -> dict[str, bytes]:
        """Return the files of all graphs."""
        of_towers = weights and {f"{TowerModel.PREFIX}{n}": one for n, one in weights.items()}
        found = {self.graph_entry().file: self.encode_graph(weights)}
        return found | {one.graph_entry().file: one.encode_graph(of_towers) for one in self.towers}

    def encode_graph(self, weights: Mapping[str, Tensor] | None = None) -> bytes:
        """Return the ONNX model with some weights by name, or those of this moment."""
        import onnx
        import onnx.numpy_helper

        filled = onnx.ModelProto()  # threads may encode at the same time
        filled.CopyFrom(self._converted)
        variables = self.model.state_dict()
        for initializer in filled.graph.initializer:
            name = initializer.name.removeprefix(TracedGraph.PREFIX)
            if name == initializer.name or name not in variables:
                continue  # a constant of the network
            weight = (variables if weights is None else weights).get(name)
            if weight is None or weight.shape != variables[name].shape:
                found = "no such variable" if weight is None else f"{list(weight.shape)}"
                raise CheckpointError(
                    f"variable {name}: expected the shape {list(variables[name].shape)}, found "
                    f"{found}"
                )
            array = weight.detach().cpu().numpy()
            initializer.CopyFrom(onnx.numpy_helper.from_array(array, initializer.name))
        return bytes(filled.SerializeToString())

    def _traced(self) -> tuple["TracedGraph", list[str], tuple[Tensor, ...]]:
        """Return the model as a graph of plain tensors, their names, and an example of them."""
        dense = [name for name in self.feeds if name in self.inputs.dense]
        batch = sample_batch(self.model, self.inputs)
        embedded = list(batch.embedded)
        example = tuple({**batch.dense, **batch.embedded}[name] for name in (*dense, *embedded))
        graph = TracedGraph(self.model, dense, embedded, self.fetches)
        return graph.eval(), [*dense, *embedded], example

    def _dynamic_shapes(self, names: Sequence[str]) -> tuple[tuple[dict[int, Any], ...]]:
        """Return dynamic shapes: the number of samples and the lengths of sequences are free."""
        batch = torch.export.Dim("batch")
        sequences = self.model.embedding_collection().sequences.values()
        # Not one symbol per input: a model may require two inputs of equal length.
        free = {f.sequence_input: torch.export.Dim.DYNAMIC for f in sequences if f.max_length != 1}
        return (tuple({0: batch} | ({1: free[n]} if n in free else {}) for n in names),)


def plan_inference(  # noqa: PLR0913 (the model, and what of it is exported)
    model: Model,
    inputs: Inputs,
    *,
    feeds: Sequence[str],
    fetches: Sequence[str],
    rules: InputRules | None = None,
    row_type: RowType = "float32",
    fold: FoldTables | None = None,
    assets: Mapping[str, bytes] = MappingProxyType({}),
    option: str = SAVE_INFERENCE,
) -> InferenceModel:
    """Check the names of feeds and fetches; an empty list means all.

    ``rules`` are stored with the model, so that it takes raw columns. ``fold`` adds an ONNX file
    with the tables in it. ``assets`` are further files. ``option`` is why the model is exported.
    """
    _check_installed(option)
    _check_sides(model, option)
    outputs = list(_outputs(model, inputs))
    labels = model.label_names()
    embedded = model.embedding_collection().features
    looked_up = [feature.feature for feature in embedded if feature.side == SAMPLE]
    dense = [name for name in inputs.dense if name not in labels]
    needed = list(dict.fromkeys([*dense, *looked_up]))
    problems = name_problems(
        model, feeds=feeds, fetches=fetches, needed=needed, outputs=outputs, dense=dense
    )
    if problems:
        raise ConfigError(problems)
    return InferenceModel(
        model=model,
        inputs=inputs,
        feeds=tuple(name for name in feeds or needed if name in needed),
        fetches=tuple(fetches or outputs),
        rules=rules,
        row_type=row_type,
        fold=fold,
        assets=assets,
        option=option,
        towers=tuple(
            _plan_tower(TowerModel(model, name), inputs, outputs, option)
            for name in model.recall_towers()
        ),
    )


def _plan_tower(
    tower: TowerModel, inputs: Inputs, outputs: Sequence[str], option: str
) -> InferenceModel:
    copy.deepcopy(tower).cpu().check(sample_batch(tower.model, inputs), outputs)
    dense = {n: shape for n, shape in inputs.dense.items() if n in tower.feeds}
    own = dataclasses.replace(inputs, dense=dense)
    fetches = (tower.tower.output,)
    return InferenceModel(
        model=tower, inputs=own, feeds=tower.feeds, fetches=fetches, option=option, name=tower.name
    )


def _check_installed(option: str) -> None:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UnavailableError(
            f"{option} needs {' and '.join(missing)}: pip install 'fleetrec[onnx]', or leave "
            f"{option} out"
        )


def _check_sides(model: Model, option: str) -> None:
    """Refuse a model that needs more than the samples: a request of an inference model has no more.

    The graph has one batch dimension, and the feeds are those of samples.
    """
    groups = model.embedding_collection().groups.values()
    further = sorted({group.side for group in groups} - {SAMPLE, NEGATIVES})
    if further:
        raise ConfigError(
            [
                f"{option}: {type(model).__module__} looks up vectors of the side "
                f"{', '.join(further)}, but an inference model gets samples only; leave {option} "
                "out"
            ]
        )


def _outputs(model: Model, inputs: Inputs) -> dict[str, Tensor]:
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    was_training = model.training
    batch = sample_batch(model, inputs).to(device)
    with torch.no_grad():
        outputs: dict[str, Tensor] = model.eval()(batch)
    model.train(was_training)
    return predictions(outputs)


def hashed_into(table: TableConfig) -> int | None:
    """Return the number of rows that ids are hashed into; None: they are not hashed."""
    return table.num_rows if table.out_of_range == "hash" else None


def _group(key: str, group: LookupGroup) -> GroupEntry:
    return GroupEntry(
        input=key,
        dim=group.dim,
        features=tuple(
            PooledEntry(feature=f.feature, table=f.table, combiner=f.combiner) for f in group.pooled
        ),
        sequences=tuple(
            SequenceEntry(
                input=f.sequence_input,
                lengths=f.lengths_input,
                feature=f.feature,
                table=f.table,
                max_length=f.max_length,
            )
            for f in group.sequences
        ),
    )
