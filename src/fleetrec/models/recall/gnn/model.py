"""The next item of a session by the graph of its items."""

# Shape suffixes: B samples, L elements, D width, V items.

import torch
from pydantic import Field
from torch import Tensor

from fleetrec.config.job import OptimizerOptions
from fleetrec.config.schedules import ExponentialDecay
from fleetrec.core.batch import Batch, Inputs
from fleetrec.embedding.table import Initializer
from fleetrec.models import base
from fleetrec.models.sessions import SessionEmbeddings, SessionOptions
from fleetrec.nn.mlp import scaled_linear
from fleetrec.nn.session_graph import SessionGraph
from fleetrec.nn.weights import scaled_weight
from fleetrec.tasks.choice import ChoiceTask


class Model(base.Model):
    """SR-GNN: items exchange messages along the session, then attention of the last one.

    Wu et al., "Session-based Recommendation with Graph Neural Networks", AAAI 2019. The vectors
    that score the items are parameters of the network, not the rows of the table.
    """

    class Config(SessionOptions):
        """Hyper-parameters of SR-GNN."""

        sparse_feature_number: int = Field(default=43098, gt=0, description="items")
        sparse_feature_dim: int = Field(default=100, gt=0, description="width of an item")
        gnn_propogation_steps: int = Field(default=1, gt=0, description="steps of the network")
        corpus_size: int = Field(
            default=719470, gt=0, description="training samples; a decay counts epochs of these"
        )
        train_batch_size: int = Field(
            default=100, gt=0, description="samples of a step, to know the steps of an epoch"
        )

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        dim, num_items = config.sparse_feature_dim, config.sparse_feature_number
        session = SessionEmbeddings(
            config,
            inputs=inputs,
            dim=dim,
            num_items=num_items,
            initializer=Initializer(kind="uniform", scale=dim**-0.5),
        )
        super().__init__(
            tasks=[ChoiceTask(label=session.label, num_classes=num_items, depths=[config.recall_k])]
        )
        self.session = session
        self.steps_of_epoch = max(1, config.corpus_size // config.train_batch_size)
        self.graph = SessionGraph(dim, num_steps=config.gnn_propogation_steps)
        self.of_last = scaled_linear(dim, dim)
        self.of_element = scaled_linear(dim, dim, bias=False)
        self.attention = scaled_weight(dim, fan_in=dim)
        self.merge = scaled_linear(2 * dim, dim, bias=False)
        self.out = scaled_linear(dim, num_items, bias=False)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logits``, one per item."""
        session = self.session(batch)
        mask_BL = session.mask_BL
        state_BLD = self.graph(session.x_BLD, mask_BL)
        last_B = (session.lengths_B - 1).clamp(min=0)
        last_BD = state_BLD.gather(
            1, last_B.view(-1, 1, 1).expand(-1, 1, state_BLD.shape[2])
        ).squeeze(1)
        summed_BLD = self.of_last(last_BD).unsqueeze(1) + self.of_element(state_BLD)
        weights_BL = (torch.sigmoid(summed_BLD) @ self.attention) * mask_BL
        global_BD = (weights_BL.unsqueeze(2) * state_BLD).sum(dim=1)
        session_BD = self.merge(torch.cat([global_BD, last_BD], dim=1))
        return {"logits": self.out(session_BD)}

    def optimizer(self, configured: OptimizerOptions | None) -> OptimizerOptions:
        """Return the optimizer; ``decay_steps`` of a job are epochs, and the decay is smooth."""
        options = super().optimizer(configured)
        if not isinstance(options.schedule, ExponentialDecay):
            return options
        steps = options.schedule.decay_steps * self.steps_of_epoch
        smooth = ExponentialDecay(
            decay_steps=steps, factor=options.schedule.factor, staircase=False
        )
        return options.model_copy(update={"schedule": smooth})
