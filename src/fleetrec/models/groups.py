"""From a batch to the vectors of groups of features."""

# Shape suffixes: B samples, F features, L longest list, D width of a row, X width of a group.

import math
from collections.abc import Callable, Collection, Sequence

import torch
from torch import Tensor, nn

from fleetrec.config.groups import EmbeddedOptions, GroupFeature, GroupOptions
from fleetrec.core.batch import Batch
from fleetrec.embedding.collection import Embedded, EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.table import Admission, Initializer, TableConfig
from fleetrec.models.towers import Tower
from fleetrec.nn.sequence_attention import SequenceAttention


class GroupEmbeddings(nn.Module):
    """The tables of all groups; maps a batch to one vector per feature.

    Groups do not share tables unless their features name the same one.
    """

    def __init__(
        self,
        groups: Sequence[GroupOptions],
        *,
        wide_dim: int = 1,
        second_optimizer: Collection[str] = (),
    ) -> None:
        """Declare the tables; ``second_optimizer`` names groups with another optimizer."""
        super().__init__()
        self._groups = {group.name: group for group in groups}
        tables: dict[str, TableConfig] = {}
        features: list[EmbeddedFeature] = []
        attention: dict[str, nn.Module] = {}
        for group in groups:
            for feature in group.features:
                if feature.embedded is None:
                    continue
                dim = wide_dim if group.is_wide else feature.embedded.dim
                optimizer_group = int(group.name in second_optimizer)
                table = _table(feature.embedded, dim=dim, optimizer_group=optimizer_group)
                if tables.setdefault(table.name, table) != table:
                    raise ValueError(
                        f"feature {feature.name}: table {table.name!r} is shared by features that "
                        "differ in width, size or first rows"
                    )
                features.append(_lookup(group, feature))
                if feature.is_sequence:
                    attention[_module_name(group, feature)] = SequenceAttention(dim)
        self._wide_dim = wide_dim
        self.embeddings = EmbeddingCollection(features=features, tables=tables.values())
        self.attention = nn.ModuleDict(attention)

    def __contains__(self, group: str) -> bool:
        return group in self._groups

    def names(self, group: str) -> tuple[str, ...]:
        """Return the features of a group."""
        return tuple(feature.name for feature in self._group(group).features)

    def tower(self, group: str, *, output: str, compute: Callable[[Batch], Tensor]) -> Tower:
        """Return a tower that reads one group."""
        found = self._group(group)
        return Tower(
            output=output,
            embedded=tuple(_vector_name(found, one) for one in found.features if one.embedded),
            dense=tuple(one.name for one in found.features if one.embedded is None),
            compute=compute,
        )

    def dims(self, group: str) -> tuple[int, ...]:
        """Return the widths of the vectors of a group."""
        found = self._group(group)
        return tuple(self._dim(found, feature) for feature in found.features)

    def dim(self, group: str) -> int:
        """Return the width of a whole group."""
        return sum(self.dims(group))

    def common_dim(self, group: str) -> int:
        """Return the width of the vectors of a group; raise an error if they differ."""
        dims = set(self.dims(group))
        if len(dims) != 1:
            raise ValueError(
                f"group {group}: expected features of one embedding_dim, got {sorted(dims)}"
            )
        return dims.pop()

    def cat(self, batch: Batch, group: str) -> Tensor:
        """Return the concatenated vectors of a group, x_BX."""
        found = self._group(group)
        if all(feature.embedded and not feature.is_sequence for feature in found.features):
            embedded: Embedded = self.embeddings(batch)
            return embedded.cat([_vector_name(found, feature) for feature in found.features])
        return torch.cat(self.vectors(batch, group), dim=1)

    def stack(self, batch: Batch, group: str) -> Tensor:
        """Return the vectors of a group, all of one width, as x_BFD."""
        x_BX = self.cat(batch, group)
        return x_BX.reshape(x_BX.shape[0], -1, self.common_dim(group))

    def vectors(self, batch: Batch, group: str) -> list[Tensor]:
        """Return one x_BD per feature of a group."""
        found = self._group(group)
        embedded: Embedded = self.embeddings(batch)
        return [self._vector(batch, embedded, found, feature) for feature in found.features]

    def penalty(self, batch: Batch) -> Tensor:
        """Return half the sum of squares of all rows looked up for the batch."""
        squares = [
            vectors.square().sum()
            for name, vectors in batch.embedded.items()
            if not name.startswith("lengths_")
        ]
        return torch.stack(squares).sum() / 2

    def _vector(
        self, batch: Batch, embedded: Embedded, group: GroupOptions, feature: GroupFeature
    ) -> Tensor:
        if feature.embedded is None:
            return batch.dense[feature.name].flatten(1)
        if not feature.is_sequence:
            return embedded.pooled(_vector_name(group, feature))
        sequence = embedded.sequence(_vector_name(group, feature))
        combined_BD: Tensor = self.attention[_module_name(group, feature)](
            sequence.x_BLD, sequence.mask_BL
        )
        return combined_BD

    def _group(self, name: str) -> GroupOptions:
        if name not in self._groups:
            known = ", ".join(self._groups) or "none"
            raise ValueError(f"model_config needs a feature group {name!r}; it has {known}")
        if not self._groups[name].features:
            raise ValueError(f"feature group {name!r} has no features")
        return self._groups[name]

    def _dim(self, group: GroupOptions, feature: GroupFeature) -> int:
        if feature.embedded is None:
            return feature.width
        return self._wide_dim if group.is_wide else feature.embedded.dim


def _vector_name(group: GroupOptions, feature: GroupFeature) -> str:
    return f"{group.name}.{feature.name}"


def _module_name(group: GroupOptions, feature: GroupFeature) -> str:
    return f"{group.name}_{feature.name}".replace(".", "_")


def _lookup(group: GroupOptions, feature: GroupFeature) -> EmbeddedFeature:
    assert feature.embedded is not None
    combiner = "sum" if group.is_wide else feature.embedded.combiner
    return EmbeddedFeature(
        feature=feature.name,
        table=feature.embedded.table,
        combiner="none" if feature.is_sequence else combiner,
        name=_vector_name(group, feature),
    )


def _table(options: EmbeddedOptions, *, dim: int, optimizer_group: int) -> TableConfig:
    if dim == 0:
        raise ValueError(f"table {options.table}: embedding_dim is missing")
    if options.initial is None:
        initializer = Initializer(kind="truncated_normal", scale=1 / math.sqrt(dim))
    else:
        initializer = Initializer(**options.initial.model_dump())
    admission = Admission()
    if options.min_count > 1:
        admission = Admission(kind="count", threshold=options.min_count)
    return TableConfig(
        name=options.table,
        dim=dim,
        num_rows=options.num_rows,
        initializer=initializer,
        admission=admission,
        optimizer_group=optimizer_group,
    )
