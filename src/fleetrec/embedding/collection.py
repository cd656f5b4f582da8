"""The embeddings of a model: which feature is looked up in which table, pooled or not."""

# Shape suffixes: B rows of a side (samples), F features, L longest list, D width of a row, E all
# widths together.

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn

from fleetrec.core.batch import SAMPLE, Batch
from fleetrec.core.sides import NEGATIVES
from fleetrec.embedding.layout import Columns, EmbeddingLayout
from fleetrec.embedding.layout import Combiner as Combiner
from fleetrec.embedding.layout import EmbeddedFeature as EmbeddedFeature
from fleetrec.embedding.layout import LookupGroup as LookupGroup
from fleetrec.embedding.table import TableConfig

T = TypeVar("T")


class EmbeddingCollection(nn.Module):
    """The embeddings of a model. Rows are kept in stores, not in the module.

    The vectors of a batch are looked up before the model runs (``Batch.embedded``), all features
    of one width together, so that they can be fetched early, from another process, or be the
    inputs of an exported graph. Their gradient goes back to the stores the same way.
    """

    def __init__(
        self, *, features: Iterable[EmbeddedFeature], tables: Iterable[TableConfig]
    ) -> None:
        super().__init__()
        self._set_layout(EmbeddingLayout(features=features, tables=tables))

    def replace_tables(self, tables: Iterable[TableConfig]) -> None:
        """Change the settings of tables; names and widths stay. Call it before rows are stored."""
        self._set_layout(EmbeddingLayout(features=self.features, tables=tables))

    def _set_layout(self, layout: EmbeddingLayout) -> None:
        self.layout = layout
        self.tables = self.layout.tables
        self.features = self.layout.features
        self.pooled = self.layout.pooled
        self.sequences = self.layout.sequences
        self.groups = self.layout.groups
        self.columns = self.layout.columns

    @property
    def out_dim(self) -> int:
        """Return the total width of the pooled vectors of a sample."""
        return sum(group.width for group in self.groups.values() if group.side == SAMPLE)

    def dim_of(self, feature: EmbeddedFeature) -> int:
        """Return the width of the rows of a feature."""
        return self.tables[feature.table].dim

    def zeros(self, num_samples: int, *, max_length: int) -> dict[str, Tensor]:
        """Return an example of ``Batch.embedded``, with lists of up to ``max_length`` ids.

        All sides have ``num_samples`` rows; sampled negatives are left out, as in a prediction.
        """
        inputs: dict[str, Tensor] = {}
        for key, group in self.groups.items():
            if group.side == NEGATIVES:
                continue
            if group.pooled:
                inputs[key] = torch.zeros(num_samples, group.width)
            for feature in group.sequences:
                length = min(max_length, feature.max_length or max_length)
                inputs[feature.sequence_input] = torch.zeros(num_samples, length, group.dim)
                inputs[feature.lengths_input] = torch.zeros(num_samples, dtype=torch.int64)
        return inputs

    def forward(self, batch: Batch) -> "Embedded":
        """Return the vectors of this batch."""
        sides = batch.sides
        groups = self.groups.items()
        needed = {key for key, group in groups if group.pooled and group.side in sides}
        needed |= {feature.sequence_input for feature in self.sequences.values()}
        missing = needed - batch.embedded.keys()
        if missing:
            raise ValueError(f"the batch was not looked up: no {sorted(missing)} in batch.embedded")
        return Embedded(collection=self, vectors=batch.embedded)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sequence:
    """The vectors of one list per sample, padded with zeros; L is at least 1."""

    x_BLD: Tensor
    lengths_B: Tensor

    @property
    def mask_BL(self) -> Tensor:
        """Return a mask of the ids."""
        places_L = torch.arange(self.x_BLD.shape[1], device=self.x_BLD.device)
        return places_L < self.lengths_B.unsqueeze(1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """The vectors of one batch; views where the layout allows it."""

    collection: EmbeddingCollection
    vectors: Mapping[str, Tensor]

    def pooled(self, name: str) -> Tensor:
        """Return x_BD of one pooled feature."""
        return self.cat([name])

    def sequence(self, name: str) -> Sequence:
        """Return the vectors of one sequence."""
        feature = _named(self.collection.sequences, name, "a sequence")
        return Sequence(
            x_BLD=self.vectors[feature.sequence_input],
            lengths_B=self.vectors[feature.lengths_input],
        )

    def cat(self, names: Iterable[str] | None = None) -> Tensor:
        """Concatenate pooled vectors, x_BE: all of the sample side, or the named ones."""
        parts = self._matrices() if names is None else self._slices(names)
        if not parts:
            raise ValueError("there are no pooled vectors to concatenate")
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def stack(self, names: Iterable[str] | None = None) -> Tensor:
        """Stack pooled vectors of equal width, x_BFD: all of the sample side, or the named ones."""
        chosen = self._sample_names() if names is None else list(names)
        columns = [_named(self.collection.columns, name, "pooled") for name in chosen]
        dims = {place.end - place.begin for place in columns}
        if len(dims) != 1:
            raise ValueError(
                f"stack() needs vectors of one width, got {sorted(dims)}; name those of one "
                "width, or use cat()"
            )
        return self.cat(chosen).reshape(-1, len(chosen), dims.pop())

    def _sample_names(self) -> list[str]:
        pooled = self.collection.pooled
        return [name for name in self.collection.columns if pooled[name].side == SAMPLE]

    def _matrices(self) -> list[Tensor]:
        groups = self.collection.groups.items()
        return [self.vectors[key] for key, group in groups if group.pooled and group.side == SAMPLE]

    def _slices(self, names: Iterable[str]) -> list[Tensor]:
        """Return views of the named vectors; neighbours share one."""
        runs: list[Columns] = []
        sides: set[str] = set()
        for name in names:
            place = _named(self.collection.columns, name, "pooled")
            sides.add(self.collection.groups[place.group].side)
            if runs and (runs[-1].group, runs[-1].end) == (place.group, place.begin):
                place = dataclasses.replace(place, begin=runs.pop().begin)
            runs.append(place)
        if len(sides) > 1:
            raise ValueError(
                f"expected vectors of one side, got those of {', '.join(sorted(sides))}"
            )
        return [self._columns(run) for run in runs]

    def _columns(self, run: Columns) -> Tensor:
        matrix_BE = self.vectors[run.group]
        is_whole = run.end - run.begin == self.collection.groups[run.group].width
        return matrix_BE if is_whole else matrix_BE[:, run.begin : run.end]


def _named(known: Mapping[str, T], name: str, what: str) -> T:
    if name not in known:
        raise ValueError(f"{name!r} is not {what}; known: {', '.join(known)}")
    return known[name]
