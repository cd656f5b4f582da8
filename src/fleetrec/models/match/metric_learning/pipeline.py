"""``model_class: "CoMetricLearningI2I"``: vectors of items that are close in the same session."""

# Shape suffixes: B samples, X width, D width of the vectors.

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.layers import HighwayMessage
from fleetrec.config.pipeline_dialect.losses import (
    GROUPED,
    CircleLoss,
    MultiSimilarityLoss,
)
from fleetrec.config.pipeline_dialect.message import Message, idle, later
from fleetrec.config.pipeline_dialect.model import Dnn
from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.group_model import GroupModel, needed
from fleetrec.models.match.towers import VectorTower
from fleetrec.nn.batch_norm import BatchNorm
from fleetrec.nn.highway import Highway
from fleetrec.tasks import vector_pairs


class HighwayTower(HighwayMessage):
    """``highway``: layers over one group, which a gate may skip."""

    input: str
    emb_size: int = Field(gt=0)
    activation: str = "gelu"


class MetricLearningMessage(Message):
    """``metric_learning``."""

    session_id: str = ""
    highway: tuple[HighwayTower, ...] = ()
    input: str = ""
    dnn: Dnn
    l2_regularization: float = Field(default=1e-4, ge=0)
    output_l2_normalized_emb: bool = idle(default=True)
    sample_id: str = later(default="")
    circle_loss: CircleLoss | None = None
    multi_similarity_loss: MultiSimilarityLoss | None = None
    item_id: str = ""

    oneofs: ClassVar[tuple[tuple[str, ...], ...]] = (("circle_loss", "multi_similarity_loss"),)

    @property
    def session_column(self) -> str:
        """Return the label field that is a session, not a label."""
        return self.session_id


class Model(GroupModel):
    """An MLP over groups of an item; samples with the same label in a session become similar."""

    class Config(GroupModelOptions):
        """Options of the model in a pipeline."""

        metric_learning: MetricLearningMessage | None = None

    model_class = "CoMetricLearningI2I"
    message = "metric_learning"

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        del inputs
        options = needed(config.metric_learning, "metric_learning")
        task = vector_pairs.VectorPairsTask(
            label=config.labels[0],
            session=f"{GROUPED}{options.session_id}" if options.session_id else None,
            loss=_loss(options, config.loss),
            metrics=config.metrics,
        )
        super().__init__(config, l2=options.l2_regularization, tasks=[task])
        self._input = options.input
        self._names = [tower.input for tower in options.highway]
        dims = [self.inputs.dim(name) for name in self._names]
        self.norms = nn.ModuleList(BatchNorm(dim) for dim in dims)
        self.highways = nn.ModuleList(
            Highway(
                dim,
                tower.emb_size,
                num_layers=tower.num_layers,
                act=tower.activation,  # type: ignore[arg-type]
                gate_bias=tower.init_gate_bias,
                dropout=tower.dropout_rate,
            )
            for tower, dim in zip(options.highway, dims, strict=True)
        )
        width = sum(tower.emb_size for tower in options.highway)
        width += self.inputs.dim(options.input) if options.input else 0
        if not width:
            raise ValueError("metric_learning needs input or highway")
        self.tower = VectorTower(options.dnn, width, name="metric_learning: dnn")

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return the vectors, plain and normalised."""
        parts = [self.inputs.cat(batch, self._input)] if self._input else []
        for name, norm, highway in zip(self._names, self.norms, self.highways, strict=True):
            parts.append(highway(norm(self.inputs.cat(batch, name))))
        vector_BD = self.tower(torch.cat(parts, dim=1))
        normalised_BD = functional.normalize(vector_BD, dim=1)
        return {"float_emb": vector_BD, vector_pairs.EMBEDDING: normalised_BD}


def _loss(
    options: MetricLearningMessage, kind: str
) -> vector_pairs.CircleLoss | vector_pairs.MultiSimilarityLoss:
    if kind == "circle":
        circle = options.circle_loss or CircleLoss()
        return vector_pairs.CircleLoss(margin=circle.margin, gamma=circle.gamma)
    if kind == "multi_similarity":
        multi = options.multi_similarity_loss or MultiSimilarityLoss()
        return vector_pairs.MultiSimilarityLoss(
            alpha=multi.alpha, beta=multi.beta, center=multi.lamb
        )
    raise ValueError("metric_learning needs loss_type CIRCLE_LOSS or MULTI_SIMILARITY_LOSS")
