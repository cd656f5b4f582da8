"""A trained model as files that need no model code: an ONNX graph, frozen tables, and names.

Tables do not live in the graph, because they grow and are large: the graph takes looked-up
vectors, and the manifest says how to look them up. docs/formats/inference.md has the format.
"""

# Shape suffixes: B samples.

import contextlib
import copy
import dataclasses
import importlib.util
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fleetrec.checkpoint.folder import write_folder
from fleetrec.checkpoint.tensors import encode_tensors
from fleetrec.core.batch import Batch, Inputs
from fleetrec.core.cursor import Cursor
from fleetrec.core.errors import ConfigError, ModelError, UnavailableError
from fleetrec.core.jagged import KeyedJagged
from fleetrec.embedding.collection import EmbeddingCollection
from fleetrec.models.base import Model

KIND = "inference model"
GRAPH = "model.onnx"
NEEDED = ("onnx", "onnxscript")


@dataclasses.dataclass(frozen=True, kw_only=True)
class InferenceModel:
    """What an inference model will hold; the names are checked."""

    model: Model
    inputs: Inputs
    feeds: tuple[str, ...]
    fetches: tuple[str, ...]

    def write(self, directory: Path, rows: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Publish graph, tables and manifest; ``rows`` are ids and rows of every table."""
        collection = self.model.embedding_collection()
        tables = {f"tables/{name}": rows[name] for name in collection.tables}
        write_folder(
            directory,
            contents={GRAPH: self._onnx(), **encode_tensors(tables)},
            meta={
                "kind": KIND,
                "feeds": [self._feed(name) for name in self.feeds],
                "fetches": list(self.fetches),
                "groups": [_group(collection, name) for name in collection.groups],
            },
        )

    def _feed(self, name: str) -> dict[str, Any]:
        if name in self.inputs.dense:
            return {"name": name, "kind": "dense", "shape": list(self.inputs.dense[name])}
        return {"name": name, "kind": "ids"}

    def check_exportable(self) -> None:
        """Trace the model, so that one that cannot be exported fails before it is trained."""
        graph, names, example = self._traced()
        with _exporting(self.model):
            torch.export.export(graph, example, dynamic_shapes=_any_batch(names))

    def _onnx(self) -> bytes:
        graph, names, example = self._traced()
        with _exporting(self.model):
            program = torch.onnx.export(
                graph,
                example,
                input_names=names,
                output_names=list(self.fetches),
                dynamic_shapes=_any_batch(names),
                dynamo=True,
                verbose=False,
            )
        assert program is not None
        return bytes(program.model_proto.SerializeToString())

    def _traced(self) -> tuple["_Graph", list[str], tuple[Tensor, ...]]:
        """Return the model as a graph of plain tensors, their names, and an example of them."""
        groups = list(self.model.embedding_collection().groups)
        dense = [name for name in self.feeds if name in self.inputs.dense]
        batch = sample_batch(self.model, self.inputs)
        example = tuple({**batch.dense, **batch.embedded}[name] for name in (*dense, *groups))
        graph = _Graph(self.model, dense, groups, self.fetches)
        return graph.eval(), [*dense, *groups], example


def plan_inference(
    model: Model, inputs: Inputs, *, feeds: Sequence[str], fetches: Sequence[str]
) -> InferenceModel:
    """Check the names of feeds and fetches; empty lists mean all there are."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UnavailableError(
            f"save_inference_path needs {' and '.join(missing)}: pip install 'fleetrec[onnx]', "
            "or leave save_inference_path out"
        )
    outputs = list(_outputs(model, inputs))
    labels = {task.label for task in model.tasks}
    looked_up = [feature.feature for feature in model.embedding_collection().features]
    dense = [name for name in inputs.dense if name not in labels]
    needed = list(dict.fromkeys([*dense, *looked_up]))
    problems = [
        f"save_inference_fetch_varnames: the model has no output {name!r}; known: "
        f"{', '.join(outputs)}"
        for name in fetches
        if name not in outputs
    ]
    problems += [
        f"save_inference_feed_varnames: {name!r} is not an input of the model; known: "
        f"{', '.join(needed)}"
        for name in feeds
        if name not in needed and name not in labels
    ]
    lacking = [name for name in needed if feeds and name not in feeds]
    if lacking:
        problems.append(
            f"save_inference_feed_varnames: the model also needs {', '.join(lacking)} "
            "(leave the list empty to feed all)"
        )
    if problems:
        raise ConfigError(problems)
    planned = InferenceModel(
        model=model,
        inputs=inputs,
        feeds=tuple(name for name in feeds or needed if name in needed),
        fetches=tuple(fetches or outputs),
    )
    planned.check_exportable()
    return planned


def sample_batch(model: Model, inputs: Inputs, *, num_samples: int = 2) -> Batch:
    """Return a batch of zeros in the shape that the model expects."""
    collection = model.embedding_collection()
    return Batch(
        ids=_no_ids(num_samples),
        dense={name: torch.zeros(num_samples, *shape) for name, shape in inputs.dense.items()},
        cursor=Cursor(),
        embedded={
            group: torch.zeros(num_samples, len(features) * collection.group_dim(group))
            for group, features in collection.groups.items()
        },
    )


class _Graph(nn.Module):
    """The model as a function of plain tensors."""

    def __init__(
        self, model: Model, dense: Sequence[str], groups: Sequence[str], fetches: Sequence[str]
    ) -> None:
        super().__init__()
        self._model = copy.deepcopy(model).cpu()
        self._dense = dense
        self._groups = groups
        self._fetches = fetches

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        named = dict(zip([*self._dense, *self._groups], tensors, strict=True))
        batch = Batch(
            ids=_no_ids(tensors[0].shape[0]),
            dense={name: named[name] for name in self._dense},
            cursor=Cursor(),
            embedded={name: named[name] for name in self._groups},
        )
        outputs = self._model(batch)
        return tuple(outputs[name] for name in self._fetches)


def _any_batch(names: Sequence[str]) -> tuple[tuple[dict[int, Any], ...]]:
    batch = torch.export.Dim("batch")
    return (tuple({0: batch} for _ in names),)


@contextlib.contextmanager
def _exporting(model: Model) -> Iterator[None]:
    """Hush the exporter, and say in one line why a model cannot be exported."""
    exporter_logger = logging.getLogger("torch.onnx")
    level = exporter_logger.level
    exporter_logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the exporter's own insides
            yield
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise ModelError(
            f"{type(model).__module__}: the model cannot be exported for save_inference_path: "
            f"{reason}"
        ) from error
    finally:
        exporter_logger.setLevel(level)


def _outputs(model: Model, inputs: Inputs) -> dict[str, Tensor]:
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    was_training = model.training
    batch = sample_batch(model, inputs)
    vectors = {name: vector.to(device) for name, vector in batch.embedded.items()}
    with torch.no_grad():
        outputs: dict[str, Tensor] = model.eval()(batch.to(device).with_embedded(vectors))
    model.train(was_training)
    return outputs


def _group(collection: EmbeddingCollection, group: str) -> dict[str, Any]:
    features = [dataclasses.asdict(feature) for feature in collection.groups[group]]
    return {"input": group, "dim": collection.group_dim(group), "features": features}


def _no_ids(num_samples: int) -> KeyedJagged:
    """Return no feature at all, of so many samples."""
    nothing = torch.zeros(0, dtype=torch.int64)
    offsets = torch.zeros(1, dtype=torch.int64)
    return KeyedJagged(names=(), values_N=nothing, offsets=offsets, num_samples=num_samples)
