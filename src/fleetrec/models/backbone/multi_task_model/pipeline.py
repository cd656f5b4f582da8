"""``model_class: "MultiTaskModel"``: a backbone and several tasks."""

from collections.abc import Mapping

from torch import Tensor

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.model_params import ModelParams
from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.backbone.model import BackboneModel
from fleetrec.models.bayes_towers import BayesTowers
from fleetrec.models.group_model import needed
from fleetrec.models.task_towers import outputs_of, tasks_of


class Model(BackboneModel):
    """Each task has layers over the output of the backbone, or over its own of a list of outputs.

    Tasks may depend on tasks before them.
    """

    class Config(GroupModelOptions):
        """Options of the model in a pipeline."""

        model_params: ModelParams | None = None

    model_class = "MultiTaskModel"
    message = "model_params"

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        del inputs
        params = needed(config.model_params, "model_params")
        if not params.task_towers:
            raise ValueError("model_params needs task_towers")
        scored = tasks_of(params.task_towers, config)
        super().__init__(config, params, tasks=scored)
        count = len(scored)
        dims = self.backbone.out_dims or (self.backbone.out_dim,) * count
        if len(dims) != count:
            raise ValueError(
                f"{count} task_towers need as many outputs of the backbone, got {len(dims)}"
            )
        self.heads = BayesTowers(
            params.task_towers, dims, out_dims=[task.num_class for task in scored]
        )

    def scopes(self) -> Mapping[str, str]:
        """Return the user-visible names of parts of the network."""
        return self.heads.scopes("heads")

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return the outputs of every task, under its name."""
        computed = self.compute(batch)
        is_list = isinstance(computed.value, list)
        parts = computed.value if is_list else [computed.value] * len(self.scored_tasks)
        return {**outputs_of(self.scored_tasks, self.heads(parts)), **computed.outputs()}
