"""Towers of tasks that may depend on tasks before them."""

# Shape suffixes: B samples, T towers, X width of a tower, D width of attention, K classes.

from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from fleetrec.config.pipeline_dialect.model import BayesTaskTower
from fleetrec.config.problems import hint
from fleetrec.models.group_model import mlp_of
from fleetrec.nn.mlp import Mlp, scaled_linear
from fleetrec.nn.transfer_attention import TransferAttention


class BayesTowers(nn.Module):
    """One tower per task, in order; a task reads its own tower and those it relates to.

    Either ``relation_dnn`` takes both side by side (Wang et al., "Deep Bayesian Multi-Target
    Learning for Recommender Systems", 2019), or the task attends to them (``use_ait_module``).
    """

    def __init__(
        self, towers: Sequence[BayesTaskTower], in_dims: Sequence[int], *, out_dims: Sequence[int]
    ) -> None:
        super().__init__()
        _check_relations(towers)
        self._names = [tower.tower_name for tower in towers]
        self._related = [tower.relation_tower_names for tower in towers]
        layers: list[nn.Module] = []
        relations: list[nn.Module] = []
        dims: dict[str, int] = {}
        for tower, in_dim in zip(towers, in_dims, strict=True):
            layer = Mlp(in_dim, ()) if tower.dnn is None else mlp_of(tower.dnn, in_dim)
            relation = _relation(
                tower, layer.out_dim, [dims[n] for n in tower.relation_tower_names]
            )
            dims[tower.tower_name] = int(relation.out_dim)  # type: ignore[arg-type]
            layers.append(layer)
            relations.append(relation)
        self.layers, self.relations = nn.ModuleList(layers), nn.ModuleList(relations)
        self.outs = nn.ModuleList(
            scaled_linear(dims[name], out_dim)
            for name, out_dim in zip(self._names, out_dims, strict=True)
        )

    def scopes(self, prefix: str) -> Mapping[str, str]:
        """Return the user-visible names of the parts, by their prefix in the model."""
        found: dict[str, str] = {}
        for number, name in enumerate(self._names):
            found[f"{prefix}.layers.{number}"] = f"{name}/dnn"
            found[f"{prefix}.relations.{number}.mlp"] = f"{name}/relation_dnn"
            found[f"{prefix}.outs.{number}"] = f"{name}/output"
        return found

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Return logits_BK of every task for one x_BX each."""
        found: dict[str, Tensor] = {}
        logits = []
        parts = zip(self._names, self._related, inputs, strict=True)
        modules = zip(self.layers, self.relations, self.outs, strict=True)
        for (name, related, x_BX), (layer, relation, out) in zip(parts, modules, strict=True):
            found[name] = relation([layer(x_BX), *(found[other] for other in related)])
            logits.append(out(found[name]))
        return logits


class _Concatenated(nn.Module):
    """Layers over a tower and its relations side by side."""

    def __init__(self, mlp: Mlp) -> None:
        super().__init__()
        self.mlp = mlp
        self.out_dim = mlp.out_dim

    def forward(self, towers: Sequence[Tensor]) -> Tensor:
        return self.mlp.of_parts(towers)


def _relation(tower: BayesTaskTower, own: int, others: Sequence[int]) -> nn.Module:
    if tower.use_ait_module and others:
        return TransferAttention([own, *others], dim=tower.ait_project_dim or own)
    width = own + sum(others)
    if tower.relation_dnn is not None and not tower.use_ait_module:
        return _Concatenated(mlp_of(tower.relation_dnn, width))
    return _Concatenated(Mlp(width, ()))


def _check_relations(towers: Sequence[BayesTaskTower]) -> None:
    earlier: list[str] = []
    for tower in towers:
        for name in tower.relation_tower_names:
            if name not in earlier:
                raise ValueError(
                    f"task_towers: {tower.tower_name} relates to {name!r}, which must be a tower "
                    f"before it{hint(name, earlier)}"
                )
        earlier.append(tower.tower_name)
    if len(set(earlier)) != len(earlier):
        raise ValueError(f"task_towers must have different names, got {earlier}")
