"""Decodes requests; what requests of the same form have in common is decoded once."""

import dataclasses
import threading
from collections.abc import Mapping

import numpy as np

from fleetrec.features.values import FeatureValues, IdLists
from fleetrec.serving.inference_protocol import InferRequest, decode_request
from fleetrec.serving.signature import LENGTHS, WEIGHTS, Signature
from fleetrec.serving.tensors import Array, check_finite

MAX_HEADER_BYTES = 1 << 14
MAX_FORMS = 64


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """Where the values of a tensor are in the body of a request."""

    begin: int
    length: int
    shape: tuple[int, ...]
    offsets: Array | None = None  # of ids: where the lists begin; None: one id each


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """A checked header, and where the values of its feeds are."""

    request: InferRequest  # without tensors
    num_bytes: int
    num_samples: int
    dense: Mapping[str, _Span]
    ids: Mapping[str, _Span]

    def values(self, body: bytes) -> FeatureValues:
        """Return the feeds of a body with this header."""
        dense: dict[str, Array] = {}
        for name, span in self.dense.items():
            floats = np.frombuffer(body, "<f4", span.length, span.begin)
            check_finite(f"input {name!r}", floats)
            dense[name] = floats.reshape(span.shape)
        ids = {
            name: IdLists(
                ids=np.frombuffer(body, "<i8", span.length, span.begin), offsets=span.offsets
            )
            for name, span in self.ids.items()
        }
        return FeatureValues(num_rows=self.num_samples, ids=ids, dense=dense, num_present={})


class RequestDecoder:
    """Decodes the requests of a model. Threads may share one.

    Clients send the same JSON header again and again, with other values behind it. A header whose
    tensors are all binary, and that says all about their shapes, is checked once.
    """

    def __init__(self, signature: Signature) -> None:
        self._signature = signature
        self._forms: dict[bytes, _Form] = {}
        self._changing = threading.Lock()

    def decode(self, body: bytes, header_length: str | None) -> tuple[InferRequest, FeatureValues]:
        """Return a request without its tensors, and its feeds; raises RequestError."""
        header = _header(body, header_length)
        form = None if header is None else self._forms.get(header)
        if form is not None and form.num_bytes == len(body):
            return form.request, form.values(body)
        decoded = decode_request(body, header_length, self._signature)
        values = self._signature.to_values(decoded.tensors)
        request = dataclasses.replace(decoded, tensors={})
        if header is not None:
            self._add(header, decoded, request, values, len(body))
        return request, values

    def _add(
        self,
        header: bytes,
        decoded: InferRequest,
        request: InferRequest,
        values: FeatureValues,
        num_bytes: int,
    ) -> None:
        tensors = decoded.tensors
        binary_bytes = sum(values.nbytes for values in tensors.values())
        has_own_lengths = any(
            name + suffix in tensors for name in values.ids for suffix in (LENGTHS, WEIGHTS)
        )
        is_empty = not all(values.size for values in tensors.values())
        if has_own_lengths or is_empty or len(header) + binary_bytes != num_bytes:
            return  # values are not all binary, or the shapes of lists depend on them
        begin = len(header)
        spans: dict[str, _Span] = {}
        for name, array in tensors.items():
            lists = values.ids.get(name)
            spans[name] = _Span(
                begin=begin,
                length=array.size,
                shape=array.shape,
                offsets=None if lists is None else lists.offsets,
            )
            begin += array.nbytes
        form = _Form(
            request=request,
            num_bytes=num_bytes,
            num_samples=values.num_rows,
            dense={name: spans[name] for name in values.dense},
            ids={name: spans[name] for name in values.ids},
        )
        with self._changing:
            while len(self._forms) >= MAX_FORMS:
                self._forms.pop(next(iter(self._forms)))
            self._forms[header] = form


def _header(body: bytes, header_length: str | None) -> bytes | None:
    """Return the JSON of a request with binary tensors; None: it has none, or is too large."""
    if header_length is None or not header_length.isascii() or not header_length.isdecimal():
        return None
    if len(header_length) > len(str(MAX_HEADER_BYTES)):
        return None
    num_json = int(header_length)
    return body[:num_json] if num_json <= min(MAX_HEADER_BYTES, len(body)) else None
