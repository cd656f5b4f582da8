"""The inputs and outputs of a model, as requests name them."""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from fleetrec.export.manifest import MODEL
from fleetrec.export.predictor import Predictor
from fleetrec.features.values import FeatureValues, IdLists, to_offsets
from fleetrec.serving.request_error import RequestError
from fleetrec.serving.tensors import Array

LENGTHS = ".lengths"
WEIGHTS = ".weights"
ID_TYPES = ("INT64", "UINT64")
MAX_POSITIONS = 1 << 22  # samples x longest list of a sequence: it is padded to that
ONNX_TYPES = MappingProxyType(
    {
        "tensor(bool)": "BOOL",
        "tensor(float)": "FP32",
        "tensor(double)": "FP64",
        "tensor(float16)": "FP16",
        "tensor(int32)": "INT32",
        "tensor(int64)": "INT64",
    }
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """An input tensor that a request may have; -1 in the shape is free."""

    datatypes: tuple[str, ...]
    shape: tuple[int, ...]
    is_optional: bool = False


class Signature:
    """Turns the tensors of a request into the feeds of a predictor, or says what is wrong."""

    def __init__(
        self, predictor: Predictor, *, max_samples: int, max_list: int, graph_name: str = MODEL
    ) -> None:
        graph = predictor.manifest.graph(graph_name)
        self.dense: dict[str, tuple[int, ...]] = {
            feed.name: tuple(feed.shape or ()) for feed in graph.feeds if feed.kind == "dense"
        }
        self.ids: list[str] = [feed.name for feed in graph.feeds if feed.kind == "ids"]
        self.fetches = tuple(graph.fetches)
        self.tensors = _tensors(self.dense, self.ids)
        self.feeds = [*self.dense, *self.ids]
        self._max_samples = max_samples
        self._max_list = max_list
        self._max_lengths = {
            one.feature: one.max_length for group in graph.groups for one in group.sequences
        }
        self._outputs = [
            {"name": name, "datatype": ONNX_TYPES.get(kind, kind), "shape": shape}
            for name, (kind, shape) in predictor.output_types.items()
            if name in self.fetches
        ]

    def metadata(self) -> dict[str, list[dict[str, Any]]]:
        """Return inputs and outputs as the protocol describes them."""
        inputs = [
            {"name": name, "datatype": spec.datatypes[0], "shape": list(spec.shape)}
            | ({"parameters": {"optional": True}} if spec.is_optional else {})
            for name, spec in self.tensors.items()
        ]
        return {"inputs": inputs, "outputs": self._outputs}

    def check_fetches(self, names: list[str]) -> tuple[str, ...]:
        """Return the outputs that a request names; all if it names none."""
        unknown = [name for name in names if name not in self.fetches]
        if unknown:
            raise RequestError(
                f"output {unknown[0]!r}: the model has no such output; expected some of "
                f"{list(self.fetches)}"
            )
        return tuple(dict.fromkeys(names)) or self.fetches

    def to_values(self, tensors: Mapping[str, Array]) -> FeatureValues:
        """Return the feeds of a request whose tensors have known names and datatypes."""
        self.check_names(tensors)
        dense = {
            name: self._numbers(name, tensors[name], shape) for name, shape in self.dense.items()
        }
        ids = {name: self._lists(name, tensors) for name in self.ids}
        return self.checked(dense, ids)

    def check_names(self, tensors: Mapping[str, object]) -> None:
        """Raise RequestError for inputs that are unknown or missing."""
        for name in tensors:
            if name not in self.tensors:
                raise RequestError(
                    f"input {name!r}: the model has no such input; expected {self.feeds}"
                )
        missing = [name for name in self.feeds if name not in tensors]
        if missing:
            raise RequestError(f"input {missing[0]!r}: is missing; expected {self.feeds}")

    def checked(self, dense: dict[str, Array], ids: dict[str, IdLists]) -> FeatureValues:
        """Return the feeds if all have the same number of samples, within the limits."""
        numbers = {name: len(values) for name, values in dense.items()}
        numbers |= {
            name: len(lists.ids if lists.offsets is None else lists.offsets[1:])
            for name, lists in ids.items()
        }
        first, num_samples = next(iter(numbers.items()))
        for name, number in numbers.items():
            if number != num_samples:
                raise RequestError(
                    f"input {name!r}: expected as many samples as {first!r}, {num_samples}, got "
                    f"{number}"
                )
        self.check_num_samples(first, num_samples)
        for name, limit in self._max_lengths.items():
            self._check_positions(name, ids[name], num_samples, limit)
        return FeatureValues(num_rows=num_samples, ids=ids, dense=dense, num_present={})

    def check_num_samples(self, name: str, number: int) -> None:
        """Raise RequestError for no samples, and for too many."""
        if not 0 < number <= self._max_samples:
            raise RequestError(
                f"input {name!r}: expected 1 to {self._max_samples} samples, got {number}"
            )

    def _check_positions(
        self, name: str, lists: IdLists, num_samples: int, limit: int | None
    ) -> None:
        """Refuse lists that would be padded to very much memory."""
        if lists.offsets is None:
            return
        longest = int(np.diff(lists.offsets).max(initial=0))
        if longest > self._max_list and limit is None:
            raise RequestError(
                f"input {name!r}: expected lists of at most {self._max_list} ids, got {longest}"
            )
        positions = num_samples * (longest if limit is None else min(longest, limit))
        if positions > MAX_POSITIONS:
            raise RequestError(
                f"input {name!r}: expected samples x longest list of at most {MAX_POSITIONS}, "
                f"got {positions}; send fewer samples"
            )

    def _numbers(self, name: str, values: Array, shape: tuple[int, ...]) -> Array:
        if values.shape[1:] != shape:
            raise RequestError(
                f"input {name!r}: expected the shape {[-1, *shape]}, got {list(values.shape)}"
            )
        return values

    def _lists(self, name: str, tensors: Mapping[str, Array]) -> IdLists:
        ids, lengths = tensors[name], tensors.get(name + LENGTHS)
        weights = tensors.get(name + WEIGHTS) if name + WEIGHTS not in self.feeds else None
        if weights is not None and weights.shape != ids.shape:
            raise RequestError(
                f"input {name + WEIGHTS!r}: expected the shape of {name!r}, {list(ids.shape)}, got "
                f"{list(weights.shape)}"
            )
        offsets = (
            self._even_offsets(name, ids)
            if lengths is None or name + LENGTHS in self.feeds
            else self._offsets(name, ids, lengths)
        )
        return IdLists(
            ids=ids.reshape(-1).view(np.int64),
            offsets=offsets,
            weights=None if weights is None else weights.reshape(-1),
        )

    def _even_offsets(self, name: str, ids: Array) -> Array | None:
        """Return the offsets of lists of equal length; None: one id each."""
        if ids.ndim != 2:
            raise RequestError(
                f"input {name!r}: expected the shape [samples, ids], or [ids] with "
                f"{name + LENGTHS!r}, got {list(ids.shape)}"
            )
        num_samples, length = ids.shape
        self.check_num_samples(name, num_samples)
        return None if length == 1 else np.arange(num_samples + 1, dtype=np.int64) * length

    def _offsets(self, name: str, ids: Array, lengths: Array) -> Array:
        if ids.ndim != 1 or lengths.ndim != 1:
            raise RequestError(
                f"input {name!r}: with {name + LENGTHS!r} expected the shapes [ids] and [samples], "
                f"got {list(ids.shape)} and {list(lengths.shape)}"
            )
        self.check_num_samples(name + LENGTHS, len(lengths))
        least, most = int(lengths.min()), int(lengths.max())
        if least < 0 or most > len(ids) or int(lengths.sum()) != len(ids):
            raise RequestError(
                f"input {name + LENGTHS!r}: expected lengths from 0 on whose sum is that of the "
                f"ids, {len(ids)}, got lengths from {least} to {most}"
            )
        return to_offsets(lengths)


def _tensors(dense: Mapping[str, tuple[int, ...]], ids: list[str]) -> dict[str, TensorSpec]:
    """Return all tensors by name; the name of a feed has precedence."""
    tensors = {
        name: TensorSpec(datatypes=("FP32",), shape=(-1, *shape)) for name, shape in dense.items()
    }
    tensors |= {name: TensorSpec(datatypes=ID_TYPES, shape=(-1, -1)) for name in ids}
    for name in ids:
        lengths = TensorSpec(datatypes=("INT64",), shape=(-1,), is_optional=True)
        weights = TensorSpec(datatypes=("FP32",), shape=(-1,), is_optional=True)
        tensors.setdefault(name + LENGTHS, lengths)
        tensors.setdefault(name + WEIGHTS, weights)
    return tensors
