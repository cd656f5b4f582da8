"""Common parts of models over fields: from a batch to one vector per field.

A field is a part of a sample that has one vector. Data may come in two layouts:

- one sparse slot per field, the rows of its ids added up; a dense value is a field as well, a
  learned vector times the value;
- the slots ``feat_idx`` and ``feat_value`` with one id and one value for each field, whose vector
  is the row of the id times the value.
"""

# Shape suffixes: B samples, F fields, X dense values, D width.

import math
from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from fleetrec.core.batch import Batch, Inputs
from fleetrec.core.errors import DataError
from fleetrec.embedding.collection import Embedded, EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.table import Initializer
from fleetrec.models import base
from fleetrec.models.dense_values import DenseValues
from fleetrec.models.table_options import TableOptions
from fleetrec.nn.weights import scaled_weight
from fleetrec.tasks.binary import BinaryTask
from fleetrec.tasks.task import Outputs

IDS, VALUES = "feat_idx", "feat_value"
FACTORS, FIRST_ORDER = "factors", "first_order"


class FieldOptions(TableOptions):
    """Hyper-parameters of models over fields."""

    sparse_feature_number: int = Field(default=1086460, gt=0, description="ids in a table")
    num_field: int | None = Field(
        default=None, gt=0, description="if given, must equal the number of fields"
    )


class VectorOptions(FieldOptions):
    """Hyper-parameters of models over the vectors of fields."""

    sparse_feature_dim: int = Field(default=9, gt=0, description="width of an embedding")


class FactorOptions(VectorOptions):
    """Hyper-parameters of models over first-order weights and vectors of fields."""

    reg: float = Field(default=0.001, ge=0, description="L1 factor of the first-order weights")


class FieldModel(base.Model):
    """A model that learns one click from fields; ``reg`` is its L1 factor."""

    def __init__(self, fields: "FieldEmbeddings", *, reg: float = 0.0) -> None:
        super().__init__(tasks=[BinaryTask(label=fields.label)])
        self.fields = fields
        self.reg = reg

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the mean log loss plus the penalty of the looked-up weights."""
        loss = super().loss(outputs, batch)
        return loss + self.reg * self.fields.penalty(batch) if self.reg else loss


def click_outputs(logit_B: Tensor) -> dict[str, Tensor]:
    """Return ``logit`` and ``predict``, the probability of a click."""
    return {"logit": logit_B, "predict": torch.sigmoid(logit_B)}


def label_of(inputs: Inputs) -> str:
    """Return the label, which is the first sparse slot."""
    if not inputs.sparse:
        raise ValueError("sparse_slots must begin with the label, but is empty")
    return inputs.sparse[0]


def num_fields(inputs: Inputs) -> int:
    """Return the number of fields if all dense values are fields."""
    widths = sum(math.prod(shape) for shape in inputs.dense.values())
    return widths if _is_indexed(inputs) else len(inputs.sparse[1:]) + widths


def _is_indexed(inputs: Inputs) -> bool:
    """Return whether one slot has the ids of all fields."""
    return IDS in inputs.sparse[1:] and VALUES in inputs.dense


class FieldEmbeddings(nn.Module):
    """The tables of a model over fields; maps a batch to vectors and weights."""

    def __init__(
        self,
        options: FieldOptions,
        *,
        inputs: Inputs,
        dim: int = 0,
        first_order: bool = False,
        dense: Literal["fields", "apart"] = "fields",
    ) -> None:
        """Create a table of vectors if ``dim`` is given, one of weights for ``first_order``.

        With ``dense="apart"`` dense values are no fields; ``dense`` returns them.
        """
        super().__init__()
        self.label = label_of(inputs)
        self.slots = inputs.sparse[1:]
        self._is_indexed = _is_indexed(inputs)
        if self._is_indexed and self.slots != (IDS,):
            raise ValueError(f"{IDS} has the ids of all fields; leave out the other sparse_slots")
        others = [name for name in inputs.dense if not (self._is_indexed and name == VALUES)]
        self._dense = DenseValues(inputs, others)
        self._has_dense_fields = dense == "fields" and self._dense.width > 0
        self.dense_dim = 0 if dense == "fields" else self._dense.width
        self._num_ids = math.prod(inputs.dense[VALUES]) if self._is_indexed else len(self.slots)
        of_dense = self._dense.value_names if self._has_dense_fields else ()
        self.names = (*((IDS,) * self._num_ids if self._is_indexed else self.slots), *of_dense)
        self.num_fields = len(self.names)
        self.dim = dim
        self.out_dim = self.num_fields * dim
        if self.num_fields == 0:
            raise ValueError("expected a slot for each field, but the data has the label only")
        if options.num_field not in (None, self.num_fields):
            raise ValueError(f"num_field says {options.num_field}, the data has {self.num_fields}")
        dims = {FIRST_ORDER: 1} if first_order else {}
        dims |= {FACTORS: dim} if dim else {}
        self.embeddings = EmbeddingCollection(
            features=[feature for table in dims for feature in self._features(table)],
            tables=[options.table(name, dims[name], _initializer(name)) for name in dims],
        )
        self.dense_rows = nn.ParameterDict(
            {name: self._dense_weight(width) for name, width in dims.items()}
            if self._has_dense_fields
            else {}
        )

    def vectors(self, batch: Batch) -> Tensor:
        """Return x_BFD."""
        return self._fields(batch, FACTORS)

    def first_order(self, batch: Batch) -> Tensor:
        """Return terms_BF: the weight of each field times its value."""
        return self._fields(batch, FIRST_ORDER).squeeze(2)

    def dense(self, batch: Batch) -> Tensor:
        """Return dense_BX of values that are no fields; there must be some."""
        return self._dense.of(batch)

    def places(self, names: Sequence[str]) -> list[int]:
        """Return the positions of the fields of these slots in ``vectors``."""
        unknown = [name for name in names if name not in self.names]
        if unknown:
            raise ValueError(f"no field is called {unknown[0]!r}; known: {', '.join(self.names)}")
        return [place for place, name in enumerate(self.names) if name in names]

    def penalty(self, batch: Batch) -> Tensor:
        """Return the mean L1 norm of a sample's first-order weights, or of its vectors if none."""
        table = FIRST_ORDER if FIRST_ORDER in self.embeddings.tables else FACTORS
        parts = []
        if self.slots:
            parts.append(self._looked_up(batch, table).abs().sum(dim=(1, 2)).mean())
        if self._has_dense_fields:
            parts.append(self.dense_rows[table].abs().sum())
        return torch.stack(parts).sum()

    def _fields(self, batch: Batch, table: str) -> Tensor:
        parts = []
        if self.slots:
            looked_up_BFD = self._looked_up(batch, table)
            if self._is_indexed:
                looked_up_BFD = looked_up_BFD * batch.dense[VALUES].flatten(1).unsqueeze(2)
            parts.append(looked_up_BFD)
        if self._has_dense_fields:
            parts.append(self.dense_rows[table] * self._dense.of(batch).unsqueeze(2))
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def _features(self, table: str) -> list[EmbeddedFeature]:
        if self._is_indexed:
            return [EmbeddedFeature(feature=IDS, table=table, combiner="none", name=table)]
        return [
            EmbeddedFeature(feature=slot, table=table, name=f"{table}.{slot}")
            for slot in self.slots
        ]

    def _looked_up(self, batch: Batch, table: str) -> Tensor:
        """Return rows_BFD of the sparse fields, without weights."""
        embedded: Embedded = self.embeddings(batch)
        if not self._is_indexed:
            return embedded.stack([f"{table}.{slot}" for slot in self.slots])
        sequence = embedded.sequence(table)
        num_ids = self._num_ids
        is_exporting = torch.compiler.is_exporting()
        if not is_exporting:
            _check_lengths(sequence.lengths_B, num_ids)
        if not is_exporting and sequence.x_BLD.shape[1] == num_ids:
            return sequence.x_BLD
        # A batch without any id has no vectors; the traced shape must not depend on that.
        return functional.pad(sequence.x_BLD, (0, 0, 0, num_ids))[:, :num_ids]

    def _dense_weight(self, dim: int) -> nn.Parameter:
        return scaled_weight(self._dense.width, dim, fan_in=100 * dim)


def _initializer(table: str) -> Initializer:
    if table == FIRST_ORDER:
        return Initializer(kind="constant", center=0.0)
    return Initializer(kind="normal", scale=0.1)


def _check_lengths(lengths_B: Tensor, num_ids: int) -> None:
    wrong = lengths_B[(lengths_B != 0) & (lengths_B != num_ids)]
    if len(wrong):
        raise DataError(
            f"slot {IDS!r}: expected {num_ids} ids per sample, as many as {VALUES!r} has values, "
            f"got {int(wrong[0])}"
        )
