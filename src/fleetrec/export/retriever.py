"""Recall: the items of an inference model that fit users best. No torch."""

# Shape suffixes: B users, T best items.

import dataclasses
from collections.abc import Sequence
from typing import Any

from fleetrec.config.features import FeatureOptions
from fleetrec.core.errors import DataError, UnavailableError
from fleetrec.core.tower_names import USER
from fleetrec.export.answer import Answer
from fleetrec.export.id_lists import Array
from fleetrec.export.item_index import ItemIndex, load_brute_force, recall_at
from fleetrec.export.manifest import ModelManifest
from fleetrec.export.predictor import Predictor
from fleetrec.features.feature_set import AnyColumns
from fleetrec.features.values import FeatureValues


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """The best items of some users, and the version that found them.

    A user has fewer than asked for if there are not that many, or if the index found no more.
    """

    ids: list[list[Any]]
    scores: list[Array]  # inner products, which fall
    manifest: ModelManifest


class Retriever:
    """Finds items for users; every answer is of one version, index and network.

    Args:
        predictor: A model for retrieval that was exported with items; threads may share it.
    """

    def __init__(self, predictor: Predictor) -> None:
        items = predictor.items
        if items is None:
            raise DataError(
                "the model has no items to recall: export it with --items; the model needs the "
                f"towers user and item, and has {', '.join(predictor.towers) or 'none'}"
            )
        self._predictor = predictor
        self._items: ItemIndex = items
        self.tower = predictor.tower(USER)
        (self.output,) = self.tower.fetches

    @property
    def num_items(self) -> int:
        """The number of items."""
        return len(self._items.ids)

    @property
    def columns(self) -> list[str]:
        """The columns that users have."""
        names: dict[str, None] = {}
        for feature in self.tower.rules.options.features:
            made_of = feature.columns if isinstance(feature, FeatureOptions) else [feature.name]
            names |= dict.fromkeys(made_of)
        return list(names)

    @property
    def index_type(self) -> str:
        """The kind of the index."""
        assert self._predictor.opened.manifest.items is not None, "checked"
        return self._predictor.opened.manifest.items.index_type

    def recall(self, columns: AnyColumns, *, topk: int) -> Recalled:
        """Return the best items of users, given as raw columns; see ``Predictor.predict_raw``."""
        return self.recall_values(self.tower.rules.transform(columns), topk=topk)

    def recall_values(self, values: FeatureValues, *, topk: int) -> Recalled:
        """Return the best items of users, given as features that ``tower.rules`` have made."""
        return self.search(self.tower.answer_values(values, [self.output]), topk=topk)

    def search(self, answer: Answer, *, topk: int) -> Recalled:
        """Return the items for vectors that the tower of users has answered.

        Raises:
            UnavailableError: A delta was applied, and the items are older than the vectors.
        """
        if topk < 1:
            raise DataError(f"topk: expected 1 or more, got {topk}")
        self._check_version(answer)
        places_BT, scores_BT = self._items.search(answer.outputs[self.output], topk)
        return Recalled(
            ids=[self._items.ids_at(places_T) for places_T in places_BT],
            scores=[
                scores_T[places_T >= 0]
                for places_T, scores_T in zip(places_BT, scores_BT, strict=True)
            ],
            manifest=answer.manifest,
        )

    def measure(self, values: Sequence[FeatureValues], *, topk: int) -> tuple[float, int]:
        """Return the recall of the index against brute force, and for how many users."""
        opened = self._predictor.opened
        assert opened.manifest.items is not None, "checked"
        exact = dataclasses.replace(
            self._items, searched=load_brute_force(opened.folder, opened.manifest.items)
        )
        num_users, sum_recall = 0, 0.0
        for some in values:
            answer = self.tower.answer_values(some, [self.output])
            self._check_version(answer)
            users = answer.outputs[self.output]
            found, _ = self._items.search(users, topk)
            best, _ = exact.search(users, topk)
            sum_recall += recall_at(found, best) * len(users)
            num_users += len(users)
        if not num_users:
            raise DataError("expected at least one user, found none")
        return sum_recall / num_users, num_users

    def _check_version(self, answer: Answer) -> None:
        if answer.manifest.fingerprint != self._items.fingerprint:
            raise UnavailableError(
                f"the model was updated to {answer.manifest.name}, but its items are those of "
                f"fingerprint {self._items.fingerprint}; export the newest checkpoint with --items"
            )
