"""Requests and responses of the Open Inference Protocol v2, with the binary tensor extension.

A request is JSON. With the header ``Inference-Header-Content-Length`` only that number of bytes is
JSON, and the raw values of tensors follow, in the order of the inputs.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson

from fleetrec.serving.request_error import RequestError
from fleetrec.serving.signature import Signature
from fleetrec.serving.tensors import (
    OUTPUT_TYPES,
    Array,
    check_shape,
    from_bytes,
    from_json,
    shown,
)

HEADER_LENGTH = "Inference-Header-Content-Length"
REQUEST_KEYS = frozenset({"id", "inputs", "outputs", "parameters"})
INPUT_KEYS = frozenset({"name", "shape", "datatype", "data", "parameters"})
BINARY_SIZE = "binary_data_size"
MAX_TIMEOUT_US = 3_600_000_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InferRequest:
    """A decoded request: tensors by name, and which outputs in which form.

    ``is_binary`` has an entry for every output that the request names; ``all_binary`` is the form
    of the others.
    """

    id: str | None
    tensors: dict[str, Array]
    is_binary: dict[str, bool]
    all_binary: bool
    timeout_s: float | None


def parse_json(content: bytes | memoryview) -> dict[str, Any]:
    """Return a JSON object; raises RequestError."""
    try:
        parsed = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise RequestError(f"the request is not JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise RequestError(f"the request: expected a JSON object, got {shown(parsed)}")
    return parsed


def decode_request(body: bytes, header_length: str | None, signature: Signature) -> InferRequest:
    """Decode the body of a request; ``header_length`` is the HTTP header for binary tensors."""
    content = memoryview(body)
    num_json = _num_json(header_length, len(body))
    parsed = parse_json(content[:num_json])
    _check_keys("the request", parsed, REQUEST_KEYS)
    inputs = parsed.get("inputs")
    if not isinstance(inputs, list):
        raise RequestError(f"inputs: expected a list of tensors, got {shown(inputs)}")
    tensors: dict[str, Array] = {}
    position = num_json
    for one in inputs:
        name, array, size = _input(one, content[position:], signature)
        if name in tensors:
            raise RequestError(f"input {name!r}: is given twice")
        tensors[name] = array
        position += size
    if position != len(body):
        raise RequestError(
            f"the request has {len(body) - position} bytes more than its inputs name in "
            f"{BINARY_SIZE}"
        )
    parameters = _parameters("parameters", parsed.get("parameters"))
    return InferRequest(
        id=_id(parsed.get("id")),
        tensors=tensors,
        is_binary=_outputs(parsed.get("outputs")),
        all_binary=_flag("parameters", parameters, "binary_data_output"),
        timeout_s=_timeout_s(parameters),
    )


def encode_response(
    request: InferRequest,
    outputs: Mapping[str, Array],
    *,
    model: str,
    version: str,
    fingerprint: str,
) -> tuple[list[bytes], int | None]:
    """Return the parts of the body, and how many bytes of it are JSON if others follow."""
    described: list[dict[str, Any]] = []
    blobs: list[bytes] = []
    for name, values in outputs.items():
        entry: dict[str, Any] = {
            "name": name,
            "datatype": OUTPUT_TYPES[values.dtype.name],
            "shape": values.shape,
        }
        if request.is_binary.get(name, request.all_binary):
            blob = values.tobytes()
            entry["parameters"] = {BINARY_SIZE: len(blob)}
            blobs.append(blob)
        else:
            entry["data"] = np.ascontiguousarray(values).reshape(-1)
        described.append(entry)
    answer: dict[str, Any] = {
        "model_name": model,
        "model_version": version,
        "parameters": {"fingerprint": fingerprint},
        "outputs": described,
    }
    if request.id is not None:
        answer["id"] = request.id
    text = orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY)
    return [text, *blobs], len(text) if blobs else None


def _num_json(header_length: str | None, num_bytes: int) -> int:
    if header_length is None:
        return num_bytes
    is_number = header_length.isascii() and header_length.isdecimal() and len(header_length) < 20
    if not is_number or int(header_length) > num_bytes:
        raise RequestError(
            f"{HEADER_LENGTH}: expected a number up to the {num_bytes} bytes of the request, got "
            f"{shown(header_length)}"
        )
    return int(header_length)


def _input(one: object, rest: memoryview, signature: Signature) -> tuple[str, Array, int]:
    """Return name and values of an input tensor, and how many bytes of ``rest`` it has."""
    if not isinstance(one, dict) or not isinstance(one.get("name"), str):
        raise RequestError(f"inputs: expected tensors with a name, got {shown(one)}")
    name = one["name"]
    where = f"input {name!r}"
    _check_keys(where, one, INPUT_KEYS)
    spec = signature.tensors.get(name)
    if spec is None:
        signature.check_names({name: None})
    assert spec is not None
    datatype = one.get("datatype")
    if datatype not in spec.datatypes:
        raise RequestError(
            f"{where}: expected the datatype {' or '.join(spec.datatypes)}, got {shown(datatype)}"
        )
    shape = check_shape(where, one.get("shape"))
    parameters = _parameters(where, one.get("parameters"), frozenset({BINARY_SIZE}))
    size = parameters.get(BINARY_SIZE)
    if size is None:
        return name, from_json(where, one.get("data"), datatype, shape), 0
    if "data" in one:
        raise RequestError(f"{where}: expected data or {BINARY_SIZE}, got both")
    if type(size) is not int or not 0 <= size <= len(rest):
        raise RequestError(
            f"{where}: {BINARY_SIZE}: expected a number up to the {len(rest)} bytes that follow, "
            f"got {shown(size)}"
        )
    return name, from_bytes(where, rest[:size], datatype, shape), size


def _outputs(given: object) -> dict[str, bool]:
    """Return the outputs that a request names, and whether each is to be binary."""
    if given is None:
        return {}
    if not isinstance(given, list):
        raise RequestError(f"outputs: expected a list, got {shown(given)}")
    wanted: dict[str, bool] = {}
    for one in given:
        if not isinstance(one, dict) or not isinstance(one.get("name"), str):
            raise RequestError(f"outputs: expected objects with a name, got {shown(one)}")
        where = f"output {one['name']!r}"
        _check_keys(where, one, frozenset({"name", "parameters"}))
        parameters = _parameters(where, one.get("parameters"), frozenset({"binary_data"}))
        wanted[one["name"]] = _flag(where, parameters, "binary_data")
    return wanted


def _parameters(
    where: str, given: object, known: frozenset[str] = frozenset({"binary_data_output", "timeout"})
) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise RequestError(f"{where}: expected parameters as an object, got {shown(given)}")
    _check_keys(f"{where}: parameters", given, known)
    return given


def _check_keys(where: str, given: Mapping[str, Any], known: frozenset[str]) -> None:
    for key in given:
        if key not in known:
            raise RequestError(f"{where}: {key!r} is not supported; expected {sorted(known)}")


def _flag(where: str, parameters: Mapping[str, Any], key: str) -> bool:
    given = parameters.get(key, False)
    if not isinstance(given, bool):
        raise RequestError(f"{where}: {key}: expected true or false, got {shown(given)}")
    return given


def _timeout_s(parameters: Mapping[str, Any]) -> float | None:
    """Return the time limit that a request sets, in microseconds."""
    given = parameters.get("timeout")
    if given is None:
        return None
    if type(given) is not int or not 0 < given <= MAX_TIMEOUT_US:
        raise RequestError(f"parameters: timeout: expected microseconds, got {shown(given)}")
    return given / 1e6


def _id(given: object) -> str | None:
    if given is not None and not isinstance(given, str):
        raise RequestError(f"id: expected text, got {shown(given)}")
    return given
