"""What the model classes over a backbone have in common."""

from collections.abc import Sequence

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.backbone import Backbone
from fleetrec.config.pipeline_dialect.model_params import ModelParams
from fleetrec.core.batch import Batch
from fleetrec.models.backbone.network import BackboneNetwork, Computed
from fleetrec.models.backbone.sources import BatchSource
from fleetrec.models.group_model import GroupModel, needed
from fleetrec.tasks.task import Task


class BackboneModel(GroupModel):
    """A backbone over groups of features."""

    has_backbone = True

    def __init__(
        self,
        config: GroupModelOptions,
        params: ModelParams,
        *,
        tasks: Sequence[Task] = (),
        negatives: Sequence[str] = (),
    ) -> None:
        options = needed(config.backbone, "backbone")
        super().__init__(
            config,
            l2=params.l2_regularization,
            tasks=tasks,
            wide_dim=_wide_dim(options, params),
            negatives=negatives,
        )
        self.backbone = BackboneNetwork(options, self.inputs)

    def compute(self, batch: Batch) -> Computed:
        """Return what the backbone returns for a batch."""
        computed: Computed = self.backbone(BatchSource(self.inputs, batch))
        return computed


def _wide_dim(options: Backbone, params: ModelParams) -> int:
    """Return the width of tables of WIDE groups; all input layers must agree."""
    layers = [
        block.input_layer.wide_output_dim
        for graph in (options, *options.packages)
        for block in graph.blocks
        if block.input_layer is not None
    ]
    dims = {dim for dim in layers if dim is not None} or {params.wide_output_dim}
    if len(dims) > 1:
        raise ValueError(f"backbone: wide_output_dim must be the same everywhere, got {dims}")
    return dims.pop()
