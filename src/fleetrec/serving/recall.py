"""Requests of ``POST /recall``: users as raw columns in, items and scores out."""

import dataclasses
from typing import Any

import numpy as np
import orjson

from fleetrec.core.errors import DataError, UnavailableError
from fleetrec.export.answer import Answer
from fleetrec.export.predictor import Predictor
from fleetrec.export.retriever import Retriever
from fleetrec.features.values import FeatureValues
from fleetrec.serving.inference_protocol import parse_json
from fleetrec.serving.options import Limits
from fleetrec.serving.request_error import RequestError
from fleetrec.serving.signature import Signature
from fleetrec.serving.tensors import shown

USERS, TOPK = "users", "topk"
DEFAULT_TOPK = 10
MAX_ANSWERS = 1 << 20  # users x topk of one request


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RecallUsers:
    """The users of a request."""

    values: FeatureValues
    topk: int


class RecallModel:
    """Decodes users, and answers with items; both of one loaded model.

    Args:
        predictor: A model that was exported with items.
        limits: What is accepted.
    """

    def __init__(self, predictor: Predictor, limits: Limits) -> None:
        self._retriever = Retriever(predictor)
        self._limits = limits
        self.tower = self._retriever.tower
        self.fetches = (self._retriever.output,)
        self._rules = self.tower.rules
        self._signature = Signature(
            predictor,
            max_samples=limits.max_samples,
            max_list=limits.max_list,
            graph_name=self.tower.name,
        )

    def decode(self, body: bytes) -> RecallUsers:
        """Return the users of a request; raises RequestError.

        They are columns, ``{"users": {"user": ["u1", "u2"], "age": [30, 41]}, "topk": 20}``, or one
        object per user, ``{"users": [{"user": "u1", "age": 30}]}``.
        """
        parsed = parse_json(body)
        unknown = sorted(parsed.keys() - {USERS, TOPK})
        if unknown:
            raise RequestError(f"the request: expected {USERS!r} and {TOPK!r}, got {unknown[0]!r}")
        columns = self._columns(parsed.get(USERS))
        topk = self._topk(parsed.get(TOPK, DEFAULT_TOPK))
        num_users = len(next(iter(columns.values())))
        self._signature.check_num_samples(USERS, num_users)
        if num_users * topk > MAX_ANSWERS:
            raise RequestError(
                f"the request: expected users x {TOPK} of at most {MAX_ANSWERS}, got "
                f"{num_users * topk}"
            )
        try:
            made = self._rules.transform(columns)
        except DataError as error:
            raise RequestError(str(error)) from None
        ids = {name: made.ids[name] for name in self._signature.ids}
        dense = {name: made.dense[name] for name in self._signature.dense}
        return RecallUsers(values=self._signature.checked(dense, ids), topk=topk)

    def encode(self, answer: Answer, topk: int, version: str) -> bytes:
        """Return the response for vectors of users; raises RequestError.

        ``version`` is the name of the version that has made the vectors.
        """
        try:
            found = self._retriever.search(answer, topk=topk)
        except UnavailableError as error:
            raise RequestError(str(error), status=503) from None
        content = {
            "version": version,
            "ids": found.ids,
            "scores": [np.ascontiguousarray(scores) for scores in found.scores],
        }
        return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)

    def _columns(self, users: object) -> dict[str, list[Any]]:
        if isinstance(users, list) and users and all(isinstance(one, dict) for one in users):
            names = users[0].keys()
            for number, one in enumerate(users):
                if one.keys() != names:
                    raise RequestError(
                        f"{USERS}[{number}]: expected the columns of {USERS}[0], {sorted(names)}, "
                        f"got {sorted(one)}"
                    )
            users = {name: [one[name] for one in users] for name in names}
        if not isinstance(users, dict) or not users:
            raise RequestError(
                f"{USERS}: expected an object of columns, or a list of objects, got {shown(users)}"
            )
        for name, values in users.items():
            if not isinstance(values, list):
                raise RequestError(
                    f"column {name!r}: expected a list with one value per user, got {shown(values)}"
                )
        known, _ = self._rules.split_columns(list(users))
        for name in users:
            if name not in known:
                raise RequestError(
                    f"column {name!r}: the users of the model have no such column; expected "
                    f"{self._retriever.columns}"
                )
        return users

    def _topk(self, given: object) -> int:
        limit = self._limits.max_topk
        if type(given) is not int or not 1 <= given <= limit:
            raise RequestError(f"{TOPK}: expected 1 to {limit}, got {shown(given)}")
        return given
