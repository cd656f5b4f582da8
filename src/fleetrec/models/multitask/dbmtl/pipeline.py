"""``model_class: "DBMTL"``: group ``all``, several tasks that may depend on each other."""

# Shape suffixes: B samples, X width.

from collections.abc import Mapping

from pydantic import Field
from torch import Tensor, nn

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.message import Message, later
from fleetrec.config.pipeline_dialect.model import BayesTaskTower, Dnn
from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.bayes_towers import BayesTowers
from fleetrec.models.group_model import GroupModel, mlp_of, needed
from fleetrec.models.rank.cmbf.network import CmbfNetwork, CmbfTower
from fleetrec.models.rank.uniter.network import UniterNetwork, UniterTower
from fleetrec.models.task_towers import outputs_of, tasks_of
from fleetrec.nn.expert_mixture import ExpertMixture
from fleetrec.nn.mlp import Mlp

GROUP = "all"


class DbmtlMessage(Message):
    """``dbmtl``: a shared network, maybe experts, and a tower for each task."""

    oneofs = (("bottom_cmbf", "bottom_uniter"),)

    bottom_cmbf: CmbfTower | None = None
    bottom_uniter: UniterTower | None = None
    bottom_dnn: Dnn | None = None
    expert_dnn: Dnn | None = None
    num_expert: int = Field(default=0, ge=0)
    task_towers: tuple[BayesTaskTower, ...] = Field(min_length=1)
    l2_regularization: float = Field(default=1e-4, ge=0)
    use_feature_bn: bool = later(default=False)


class Model(GroupModel):
    """Shared layers; each task has a mixture of experts, layers, and layers over other tasks.

    Wang et al., "Deep Bayesian Multi-Target Learning for Recommender Systems", 2019. A task depends
    on the towers that ``relation_tower_names`` names, which must come before it.
    """

    class Config(GroupModelOptions):
        """Options of the model in a pipeline."""

        dbmtl: DbmtlMessage | None = None

    model_class = "DBMTL"
    message = "dbmtl"

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        del inputs
        options = needed(config.dbmtl, "dbmtl")
        scored = tasks_of(options.task_towers, config)
        super().__init__(config, l2=options.l2_regularization, tasks=scored)
        self.modal: CmbfNetwork | UniterNetwork | None = None
        if options.bottom_cmbf is not None:
            self.modal = CmbfNetwork(options.bottom_cmbf, self.inputs)
        elif options.bottom_uniter is not None:
            self.modal = UniterNetwork(options.bottom_uniter, self.inputs)
        in_dim = self.inputs.dim(GROUP) if self.modal is None else self.modal.out_dim
        self.bottom = Mlp(in_dim, ())
        if options.bottom_dnn is not None:
            self.bottom = mlp_of(options.bottom_dnn, in_dim)
        in_dim = self.bottom.out_dim
        self.mixture: nn.Module | None = None
        if options.expert_dnn is not None:
            if not options.num_expert:
                raise ValueError("dbmtl: expert_dnn needs num_expert of at least 1")
            experts = [mlp_of(options.expert_dnn, in_dim) for _ in range(options.num_expert)]
            self.mixture = ExpertMixture(in_dim, experts, num_tasks=len(scored))
            in_dim = experts[0].out_dim
        self.heads = BayesTowers(
            options.task_towers,
            [in_dim] * len(scored),
            out_dims=[task.num_class for task in scored],
        )

    def scopes(self) -> Mapping[str, str]:
        """Return the user-visible names of parts of the network."""
        return {"bottom": "bottom_dnn", **self.heads.scopes("heads")}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return the outputs of every task, under its name."""
        if self.modal is None:
            x_BX = self.bottom(self.inputs.cat(batch, GROUP))
        else:
            x_BX = self.bottom(self.modal(self.inputs, batch))
        parts = [x_BX] * len(self.scored_tasks) if self.mixture is None else self.mixture(x_BX)
        return outputs_of(self.scored_tasks, self.heads(parts))
