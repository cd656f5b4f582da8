"""A tower of a model as a model of its own, which is exported like any other."""

# Shape suffixes: B samples.

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from fleetrec.core.batch import Batch
from fleetrec.core.errors import ModelError
from fleetrec.embedding.collection import EmbeddingCollection
from fleetrec.models.base import Model
from fleetrec.models.towers import Tower


class TowerModel(Model):
    """Computes one tower of ``model``, whose weights it shares.

    Only the inputs that the tower declares are inputs of this model; the tower gets a batch in
    which the other looked-up vectors are zeros.
    """

    PREFIX = "model."  # of the names of variables

    def __init__(self, model: Model, name: str) -> None:
        super().__init__(tasks=model.tasks)
        self.model = model
        self.name = name
        tower = self.tower
        whole = model.embedding_collection()
        known = {feature.name for feature in whole.features}
        unknown = sorted(set(tower.embedded) - known)
        if unknown:
            raise ModelError(
                f"{self._where}: embedded: no vector is called {unknown[0]!r}; known: "
                f"{', '.join(sorted(known)) or 'none'}"
            )
        features = [one for one in whole.features if one.name in tower.embedded]
        used = {feature.table for feature in features}
        self.inputs = EmbeddingCollection(
            features=features, tables=[table for n, table in whole.tables.items() if n in used]
        )

    @property
    def tower(self) -> Tower:
        """The declaration of the tower; its method is that of this copy of the model."""
        return self.model.recall_towers()[self.name]

    @property
    def feeds(self) -> tuple[str, ...]:
        """The features that the tower needs."""
        looked_up = (feature.feature for feature in self.inputs.features)
        return tuple(dict.fromkeys((*self.tower.dense, *looked_up)))

    def embedding_collection(self) -> EmbeddingCollection:
        """Return the embeddings that the tower reads."""
        return self.inputs

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return the vectors of the tower."""
        tower = self.tower
        return {tower.output: tower.compute(self._widened(batch, fill=0.0))}

    def check(self, batch: Batch, outputs: Sequence[str]) -> None:
        """Raise ModelError if the tower reads inputs that it does not declare, or is no tower."""
        if self.tower.output not in outputs:
            raise ModelError(f"{self._where}: {self.tower.output!r} is no output of the model")
        undeclared = {
            name: torch.full_like(value, torch.nan)
            for name, value in batch.dense.items()
            if name not in self.tower.dense
        }
        probe = Batch(
            ids=batch.ids,
            dense={**batch.dense, **undeclared},
            cursor=batch.cursor,
            embedded=self.inputs.zeros(batch.num_samples, max_length=3),
        )
        tower = self.eval().tower
        with torch.no_grad():
            vectors = tower.compute(self._widened(probe, fill=torch.nan))
        if not bool(torch.isfinite(vectors).all()):
            raise ModelError(f"{self._where} reads inputs that it does not declare")
        if vectors.dim() not in (2, 3) or len(vectors) != batch.num_samples:
            raise ModelError(
                f"{self._where}: expected vectors [samples, width] or [samples, vectors, width], "
                f"got {list(vectors.shape)} for {batch.num_samples} samples"
            )

    @property
    def _where(self) -> str:
        return f"{type(self.model).__module__}: the tower {self.name!r}"

    def _widened(self, batch: Batch, *, fill: float) -> Batch:
        """Return a batch with all looked-up vectors of the model; ``fill`` where there is none."""
        own, embedded = self.inputs, dict[str, Tensor]()
        for key, group in self.model.embedding_collection().groups.items():
            if group.pooled:
                blank = torch.full((batch.num_samples, group.dim), fill)
                parts = [_pooled(own, f.name, batch.embedded, blank) for f in group.pooled]
                embedded[key] = torch.cat(parts, dim=1)
            for feature in group.sequences:
                if feature.name in own.sequences:
                    names = (feature.sequence_input, feature.lengths_input)
                    embedded |= {name: batch.embedded[name] for name in names}
                    continue
                embedded[feature.sequence_input] = torch.full(
                    (batch.num_samples, 1, group.dim), fill
                )
                embedded[feature.lengths_input] = torch.zeros(batch.num_samples, dtype=torch.int64)
        return batch.with_embedded(embedded)


def _pooled(
    collection: EmbeddingCollection, name: str, vectors: Mapping[str, Tensor], blank: Tensor
) -> Tensor:
    if name not in collection.pooled:
        return blank
    place = collection.columns[name]
    return vectors[place.group][:, place.begin : place.end]
