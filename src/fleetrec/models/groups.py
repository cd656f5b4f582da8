"""From a batch to the vectors of groups of features."""

# Shape suffixes: B samples, F features, L longest list, D width of a row, X width of a group.

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from fleetrec.config.groups import (
    AttentionOptions,
    GroupFeature,
    GroupOptions,
    VariationalDropoutOptions,
)
from fleetrec.core.batch import SAMPLE, Batch
from fleetrec.core.sides import NEGATIVES
from fleetrec.embedding import collection
from fleetrec.embedding.collection import Embedded, EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.table import TableConfig
from fleetrec.models.group_noise import GroupNoise
from fleetrec.models.group_sequences import (
    AttentionInputs,
    GroupAttention,
    GroupSequence,
    align,
    joined,
)
from fleetrec.models.group_tables import table_of
from fleetrec.models.towers import Tower


class GroupEmbeddings(nn.Module):
    """The tables of all groups; maps a batch to one vector per feature.

    Groups do not share tables unless their features name the same one. A group is one vector
    (``cat``), one per feature (``vectors``, ``stack``), or sequences (``sequences``).
    """

    def __init__(
        self,
        groups: Sequence[GroupOptions],
        *,
        attention_groups: Sequence[AttentionOptions] = (),
        wide_dim: int = 1,
        second_optimizer: Collection[str] = (),
        negatives: Collection[str] = (),
        variational_dropout: VariationalDropoutOptions | None = None,
    ) -> None:
        """Declare the tables.

        ``second_optimizer`` names groups with another optimizer. ``negatives`` are groups that are
        also looked up on the side of sampled negatives.
        """
        super().__init__()
        self._groups = {group.name: group for group in groups}
        self._attention_groups = {one.name: one for one in attention_groups}
        self._wide_dim = wide_dim
        self._tables: dict[str, TableConfig] = {}
        self._features: dict[tuple[str, str], EmbeddedFeature] = {}
        self.sequence_modules = nn.ModuleDict()
        self.attention = nn.ModuleDict()
        for group in groups:
            optimizer_group = int(group.name in second_optimizer)
            for feature in group.features:
                self._declare(group, feature, optimizer_group=optimizer_group)
            if group.name in negatives:
                self._declare_negatives(group)
            for attention in group.attention:
                self._declare_attention(attention, optimizer_group=optimizer_group)
        for attention in attention_groups:
            self._declare_attention(attention, optimizer_group=0)
        self.embeddings = EmbeddingCollection(
            features=self._features.values(), tables=self._tables.values()
        )
        for group in groups:
            for attention in group.attention:
                name = _module_name(group.name, attention.name)
                self.attention[name] = GroupAttention(
                    attention,
                    key_dim=sum(self._key_dims(attention, group)),
                    history_dim=sum(self._steps_dims(attention, attention.history)),
                )
        plain = [group for group in groups if group.features and not _has_sequences(group)]
        dims = {one.name: [self._dim(one, feature) for feature in one.features] for one in plain}
        self.noise = GroupNoise(variational_dropout, dims)

    def __contains__(self, group: str) -> bool:
        return group in self._groups

    @property
    def options(self) -> Mapping[str, GroupOptions]:
        """Return the options of all groups."""
        return self._groups

    def names(self, group: str) -> tuple[str, ...]:
        """Return the features of a group."""
        return tuple(feature.name for feature in self._group(group).features)

    def tower(self, group: str, *, output: str, compute: Callable[[Batch], Tensor]) -> Tower:
        """Return a tower that reads one group."""
        found = self._group(group)
        read = [(group, one) for one in found.features]
        for attention in found.attention:
            inner = (*attention.own_keys, *attention.history, *attention.aux)
            read += [(attention.name, one) for one in inner]
        counts = [one.sequence.counts for _, one in read if one.sequence]
        dense = [one.name for _, one in read if one.embedded is None] + counts
        embedded = [_vector_name(scope, one) for scope, one in read if one.embedded]
        return Tower(
            output=output,
            embedded=tuple(dict.fromkeys(embedded)),
            dense=tuple(dict.fromkeys(filter(None, dense))),
            compute=compute,
        )

    def dims(self, group: str) -> tuple[int, ...]:
        """Return the widths of the vectors of a group: of features, then of attention."""
        found = self._group(group)
        dims = [self._dim(found, feature) for feature in found.features]
        for attention in found.attention:
            module = self.attention[_module_name(group, attention.name)]
            assert isinstance(module, GroupAttention)
            dims.append(module.out_dim(sum(self._steps_dims(attention, attention.aux))))
        return tuple(dims)

    def dim(self, group: str) -> int:
        """Return the width of a whole group."""
        return sum(self.dims(group))

    def common_dim(self, group: str) -> int:
        """Return the width of the vectors of a group; raise an error if they differ.

        The output of an attention counts as several vectors of this width.
        """
        found = self._group(group)
        dims = {self._dim(found, feature) for feature in found.features} or set(self.dims(group))
        whole = self.dim(group)
        if len(dims) != 1 or any(dim % min(dims) for dim in self.dims(group)):
            raise ValueError(
                f"group {group}: expected features of one embedding_dim, got {sorted(dims)}"
                + ("" if len(dims) > 1 else f" and {whole} together")
            )
        return dims.pop()

    def num_vectors(self, group: str) -> int:
        """Return how many vectors ``stack`` returns for a group."""
        return self.dim(group) // self.common_dim(group)

    def cat(self, batch: Batch, group: str) -> Tensor:
        """Return the concatenated vectors of a group, x_BX."""
        found = self._group(group)
        is_plain = all(one.embedded and not one.sequence for one in found.features)
        if is_plain and not found.attention:
            embedded: Embedded = self.embeddings(batch)
            x_BX = embedded.cat([_vector_name(group, feature) for feature in found.features])
        else:
            x_BX = torch.cat(self.vectors(batch, group), dim=1)
        noisy_BX: Tensor = self.noise(group, x_BX)
        return noisy_BX

    def stack(self, batch: Batch, group: str) -> Tensor:
        """Return the vectors of a group, all of one width, as x_BFD."""
        x_BX = self.cat(batch, group)
        return x_BX.reshape(x_BX.shape[0], -1, self.common_dim(group))

    def vectors(self, batch: Batch, group: str) -> list[Tensor]:
        """Return one x_BD per feature of a group, then one per attention."""
        found = self._group(group)
        embedded: Embedded = self.embeddings(batch)
        vectors = [self._vector(batch, embedded, found, feature) for feature in found.features]
        for attention in found.attention:
            keys = self._keys(batch, embedded, attention, found)
            module = self.attention[_module_name(group, attention.name)]
            vectors.append(module(self._attention_inputs(batch, embedded, attention, keys)))
        return vectors

    def negatives(self, batch: Batch, group: str) -> Tensor:
        """Return the concatenated vectors of a group for the sampled negatives, x_NX."""
        embedded: Embedded = self.embeddings(batch)
        side = batch.side(NEGATIVES)
        parts = []
        for feature in self._group(group).features:
            if feature.embedded is None:
                parts.append(side.dense[feature.name].flatten(1))
            else:
                parts.append(embedded.pooled(_negative_name(group, feature)))
        return torch.cat(parts, dim=1)

    def sequences(self, batch: Batch, group: str) -> list[collection.Sequence]:
        """Return the sequences among the features of a group, uncombined."""
        embedded: Embedded = self.embeddings(batch)
        return [
            self._sequence(_module_name(group, feature.name), batch, embedded)
            for feature in self._group(group).features
            if feature.sequence is not None
        ]

    def sequence_dims(self, group: str) -> tuple[int, ...]:
        """Return the widths of the steps of the sequences of a group."""
        return tuple(
            self._module(_module_name(group, feature.name)).step_dim
            for feature in self._group(group).features
            if feature.sequence is not None
        )

    def plain_vectors(self, batch: Batch, group: str) -> list[Tensor]:
        """Return one x_BD for each feature of a group that is not a sequence."""
        found = self._group(group)
        embedded: Embedded = self.embeddings(batch)
        plain = [feature for feature in found.features if feature.sequence is None]
        return [self._vector(batch, embedded, found, feature) for feature in plain]

    def attention_inputs(self, batch: Batch, name: str) -> AttentionInputs:
        """Return the keys and histories of ``seq_att_groups`` or ``sequence_features``."""
        embedded: Embedded = self.embeddings(batch)
        attention, group = self._attention_named(name)
        keys = self._keys(batch, embedded, attention, group)
        return self._attention_inputs(batch, embedded, attention, keys)

    def attention_dims(self, name: str) -> tuple[int, int]:
        """Return the widths of the keys and of a step of the history of an attention group."""
        attention, group = self._attention_named(name)
        key_dim = sum(self._key_dims(attention, group))
        return key_dim, sum(self._steps_dims(attention, attention.history))

    def _declare(self, group: GroupOptions, feature: GroupFeature, *, optimizer_group: int) -> None:
        """Add the table and the lookup of a feature, or its modules."""
        name = _vector_name(group.name, feature)
        if feature.embedded is not None:
            dim = self._wide_dim if group.is_wide else feature.embedded.dim
            table = table_of(feature.embedded, dim=dim, optimizer_group=optimizer_group)
            if self._tables.setdefault(table.name, table) != table:
                raise ValueError(
                    f"feature {feature.name}: table {table.name!r} is shared by features that "
                    "differ in width, size or first rows"
                )
            combiner = "sum" if group.is_wide else feature.embedded.combiner
            self._features[SAMPLE, name] = EmbeddedFeature(
                feature=feature.name,
                table=feature.embedded.table,
                combiner="none" if feature.sequence else combiner,
                name=name,
            )
        if feature.sequence is not None:
            module = GroupSequence(feature, name=name)
            self.sequence_modules[_module_name(group.name, feature.name)] = module

    def _declare_attention(self, attention: AttentionOptions, *, optimizer_group: int) -> None:
        scope = GroupOptions(name=attention.name)
        for feature in (*attention.own_keys, *attention.history, *attention.aux):
            self._declare(scope, feature, optimizer_group=optimizer_group)

    def _declare_negatives(self, group: GroupOptions) -> None:
        for feature in group.features:
            if feature.embedded is None:
                continue
            if feature.sequence is not None:
                raise ValueError(f"feature {feature.name}: sampled items cannot have sequences")
            name = _negative_name(group.name, feature)
            self._features[NEGATIVES, name] = EmbeddedFeature(
                feature=feature.name,
                table=feature.embedded.table,
                combiner=feature.embedded.combiner,
                name=name,
                side=NEGATIVES,
            )

    def _all_attention(self) -> Iterator[AttentionOptions]:
        inner = (group.attention for group in self._groups.values())
        return itertools.chain(
            self._attention_groups.values(), itertools.chain.from_iterable(inner)
        )

    def _attention_named(self, name: str) -> tuple[AttentionOptions, GroupOptions | None]:
        if name in self._attention_groups:
            return self._attention_groups[name], None
        for group in self._groups.values():
            for attention in group.attention:
                if attention.name == name:
                    return attention, group
        known = ", ".join(one.name for one in self._all_attention()) or "none"
        raise ValueError(f"model_config needs a group {name!r} in seq_att_groups; it has {known}")

    def _key_dims(self, attention: AttentionOptions, group: GroupOptions | None) -> list[int]:
        own = {feature.name: feature for feature in attention.own_keys}
        dims = []
        for key in attention.keys:
            feature = own.get(key) or _feature(group, key)
            dims.append(feature.embedded.dim if feature.embedded else feature.width)
        return dims

    def _steps_dims(
        self, attention: AttentionOptions, features: Sequence[GroupFeature]
    ) -> list[int]:
        names = [_module_name(attention.name, feature.name) for feature in features]
        return [self._module(name).step_dim for name in names]

    def _keys(
        self,
        batch: Batch,
        embedded: Embedded,
        attention: AttentionOptions,
        group: GroupOptions | None,
    ) -> Tensor:
        own = {feature.name: feature for feature in attention.own_keys}
        scope = GroupOptions(name=attention.name)
        keys = []
        for key in attention.keys:
            if key in own:
                keys.append(self._vector(batch, embedded, scope, own[key]))
            else:
                assert group is not None
                keys.append(self._vector(batch, embedded, group, _feature(group, key)))
        return torch.cat(keys, dim=1)

    def _attention_inputs(
        self, batch: Batch, embedded: Embedded, attention: AttentionOptions, key_BX: Tensor
    ) -> AttentionInputs:
        def steps(feature: GroupFeature) -> collection.Sequence:
            return self._sequence(_module_name(attention.name, feature.name), batch, embedded)

        history = joined([steps(feature) for feature in attention.history])
        if not attention.aux:
            return AttentionInputs(
                key_BX=key_BX, history_BLD=history.x_BLD, mask_BL=history.mask_BL
            )
        x_BLD, *aux = align([history, *(steps(feature) for feature in attention.aux)])
        longer = collection.Sequence(x_BLD=x_BLD, lengths_B=history.lengths_B)
        return AttentionInputs(
            key_BX=key_BX, history_BLD=x_BLD, mask_BL=longer.mask_BL, aux=tuple(aux)
        )

    def _vector(
        self, batch: Batch, embedded: Embedded, group: GroupOptions, feature: GroupFeature
    ) -> Tensor:
        if feature.sequence is not None:
            name = _module_name(group.name, feature.name)
            return self._module(name).combined(self._sequence(name, batch, embedded))
        if feature.embedded is None:
            return batch.dense[feature.name].flatten(1)
        return embedded.pooled(_vector_name(group.name, feature))

    def _sequence(self, name: str, batch: Batch, embedded: Embedded) -> collection.Sequence:
        found: collection.Sequence = self._module(name)(batch, embedded)
        return found

    def _module(self, name: str) -> GroupSequence:
        module = self.sequence_modules[name]
        assert isinstance(module, GroupSequence)
        return module

    def _group(self, name: str) -> GroupOptions:
        if name not in self._groups:
            known = ", ".join(self._groups) or "none"
            raise ValueError(f"model_config needs a feature group {name!r}; it has {known}")
        if not self._groups[name].features and not self._groups[name].attention:
            raise ValueError(f"feature group {name!r} has no features")
        return self._groups[name]

    def _dim(self, group: GroupOptions, feature: GroupFeature) -> int:
        if feature.sequence is not None:
            return self._module(_module_name(group.name, feature.name)).out_dim
        if feature.embedded is None:
            return feature.width
        return self._wide_dim if group.is_wide else feature.embedded.dim


def row_penalty(batch: Batch) -> Tensor:
    """Return half the sum of squares of all rows looked up for the batch."""
    squares = [
        vectors.square().sum()
        for name, vectors in batch.embedded.items()
        if not name.startswith("lengths_")
    ]
    return torch.stack(squares).sum() / 2 if squares else torch.zeros(())


def _has_sequences(group: GroupOptions) -> bool:
    return any(feature.sequence is not None for feature in group.features)


def _feature(group: GroupOptions | None, name: str) -> GroupFeature:
    for feature in () if group is None else group.features:
        if feature.name == name:
            return feature
    raise ValueError(f"no key is called {name!r}")


def _vector_name(group: str, feature: GroupFeature) -> str:
    return f"{group}.{feature.name}"


def _negative_name(group: str, feature: GroupFeature) -> str:
    return f"{NEGATIVES}.{group}.{feature.name}"


def _module_name(group: str, name: str) -> str:
    return f"{group}_{name}".replace(".", "_")
