"""The next item of a session by a recurrent network."""

# Shape suffixes: B samples, H hidden width, V items.

from pydantic import Field
from torch import Tensor

from fleetrec.core.batch import Batch, Inputs
from fleetrec.embedding.table import Initializer
from fleetrec.models import base
from fleetrec.models.sessions import SessionEmbeddings, SessionOptions
from fleetrec.nn.gru import Gru
from fleetrec.nn.mlp import scaled_linear
from fleetrec.tasks.choice import ChoiceTask


class Model(base.Model):
    """GRU4Rec: a GRU over the items of a session, then a softmax over all items.

    Hidasi et al., "Session-based Recommendations with Recurrent Neural Networks", ICLR 2016, with
    the loss over all items.
    """

    class Config(SessionOptions):
        """Hyper-parameters of GRU4Rec."""

        vocab_size: int = Field(default=37483, gt=0, description="items")
        hid_size: int = Field(default=100, gt=0, description="width of items and of the state")
        emb_lr_x: float = Field(
            default=10.0, gt=0, description="factor of the learning rate of the table"
        )
        gru_lr_x: float = Field(default=1.0, gt=0, description="must be 1: that of the network")
        fc_lr_x: float = Field(default=1.0, gt=0, description="must be 1: that of the network")
        init_low_bound: float = Field(default=-0.04, description="lowest first weight of a row")
        init_high_bound: float = Field(default=0.04, description="highest first weight of a row")

    output_aliases = {"mean_0.tmp_0": "logits", "top_k_0.tmp_0": "logits"}

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        if (config.gru_lr_x, config.fc_lr_x) != (1, 1):
            raise ValueError("gru_lr_x and fc_lr_x must be 1; set the learning rate instead")
        low, high = config.init_low_bound, config.init_high_bound
        session = SessionEmbeddings(
            config,
            inputs=inputs,
            dim=config.hid_size,
            num_items=config.vocab_size,
            initializer=Initializer(scale=(high - low) / 2, center=(low + high) / 2),
            lr_scale=config.emb_lr_x,
        )
        super().__init__(
            tasks=[
                ChoiceTask(
                    label=session.label,
                    num_classes=config.vocab_size,
                    depths=[config.recall_k],
                )
            ]
        )
        self.session = session
        self.gru = Gru(config.hid_size, config.hid_size)
        self.out = scaled_linear(config.hid_size, config.vocab_size)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logits``, one per item."""
        session = self.session(batch)
        _, state_BH = self.gru(session.x_BLD, session.mask_BL)
        return {"logits": self.out(state_BH)}
