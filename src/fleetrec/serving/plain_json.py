"""Requests of ``POST /predict``: feeds by name, or one object per sample."""

import itertools
import math
from typing import Any

import numpy as np
import orjson

from fleetrec.features.values import FeatureValues, IdLists, to_offsets
from fleetrec.serving.inference_protocol import parse_json
from fleetrec.serving.request_error import RequestError
from fleetrec.serving.signature import LENGTHS, WEIGHTS, Signature
from fleetrec.serving.tensors import Array, shown, to_floats, to_ids

INSTANCES = "instances"


def decode_feeds(body: bytes, signature: Signature) -> FeatureValues:
    """Return the feeds of a request.

    Either ``{"user": [[1], [2]], "price": [0.3, 0.4]}`` or ``{"instances": [{"user": [1], "price":
    0.3}, ...]}``. Weights of ids are under ``<feed>.weights``.
    """
    parsed = parse_json(body)
    if INSTANCES in parsed and INSTANCES not in signature.feeds:
        parsed = _columns(parsed)
    lists = {name: _samples(name, values, signature) for name, values in parsed.items()}
    signature.check_names(lists)
    for name in signature.ids:
        if name + LENGTHS in lists and name + LENGTHS not in signature.feeds:
            raise RequestError(
                f"input {name + LENGTHS!r}: is for flat tensors; here {name!r} is one list per "
                "sample"
            )
    dense = {
        name: _numbers(f"input {name!r}", lists[name], shape)
        for name, shape in signature.dense.items()
    }
    ids = {
        name: _ids(name, lists[name], _weights(name, lists, signature)) for name in signature.ids
    }
    return signature.checked(dense, ids)


def encode_outputs(outputs: dict[str, Array], version: str) -> bytes:
    """Return outputs by name, and the version that computed them."""
    plain = {name: np.ascontiguousarray(values) for name, values in outputs.items()}
    return orjson.dumps({"version": version, **plain}, option=orjson.OPT_SERIALIZE_NUMPY)


def _columns(parsed: dict[str, Any]) -> dict[str, list[Any]]:
    """Return one list per feed from one object per sample."""
    instances = parsed[INSTANCES]
    if len(parsed) > 1:
        others = sorted(parsed.keys() - {INSTANCES})
        raise RequestError(f"the request: expected {INSTANCES!r} alone, got also {others}")
    if not isinstance(instances, list) or not instances:
        raise RequestError(f"{INSTANCES}: expected a list of objects, got {shown(instances)}")
    names = instances[0].keys() if isinstance(instances[0], dict) else ()
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for number, one in enumerate(instances):
        if not isinstance(one, dict):
            raise RequestError(f"{INSTANCES}[{number}]: expected an object, got {shown(one)}")
        if one.keys() != names:
            raise RequestError(
                f"{INSTANCES}[{number}]: expected the inputs of {INSTANCES}[0], {sorted(names)}, "
                f"got {sorted(one)}"
            )
        for name, value in one.items():
            columns[name].append(value)
    return columns


def _samples(name: str, values: object, signature: Signature) -> list[Any]:
    if not isinstance(values, list):
        raise RequestError(f"input {name!r}: expected a list of samples, got {shown(values)}")
    signature.check_num_samples(name, len(values))
    return values


def _numbers(where: str, samples: list[Any], shape: tuple[int, ...]) -> Array:
    """Return a dense feed; where a sample has one number it need not be in a list."""
    flat = samples
    if math.prod(shape) != 1 or isinstance(samples[0], list):
        for size in shape:
            for one in flat:
                if not isinstance(one, list) or len(one) != size:
                    raise RequestError(
                        f"{where}: expected numbers of the shape {list(shape)} per sample, got "
                        f"{shown(one)}"
                    )
            flat = list(itertools.chain.from_iterable(flat))
    return to_floats(where, flat).reshape(len(samples), *shape)


def _weights(name: str, lists: dict[str, list[Any]], signature: Signature) -> list[Any] | None:
    return None if name + WEIGHTS in signature.feeds else lists.get(name + WEIGHTS)


def _ids(name: str, samples: list[Any], weights: list[Any] | None) -> IdLists:
    flat, lengths = _flat(f"input {name!r}", samples)
    flat_numbers = None
    if weights is not None:
        where = f"input {name + WEIGHTS!r}"
        flat_weights, weight_lengths = _flat(where, weights)
        if weight_lengths != lengths:
            raise RequestError(f"{where}: expected one number per id of {name!r}")
        flat_numbers = to_floats(where, flat_weights)
    return IdLists(
        ids=to_ids(f"input {name!r}", flat),
        offsets=None if set(lengths) == {1} else to_offsets(np.array(lengths, np.int64)),
        weights=flat_numbers,
    )


def _flat(where: str, samples: list[Any]) -> tuple[list[Any], list[int]]:
    """Return the values of all samples, and how many each has; a single value counts as a list."""
    if not any(isinstance(one, list) for one in samples):
        return samples, [1] * len(samples)
    for one in samples:
        if not isinstance(one, list):
            raise RequestError(f"{where}: expected one list per sample, got {shown(one)}")
    return list(itertools.chain.from_iterable(samples)), [len(one) for one in samples]
