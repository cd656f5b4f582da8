"""A transformer over a history and the target."""

# Shape suffixes: B samples, L elements, D width.

import torch
from pydantic import Field
from torch import Tensor, nn

from fleetrec.core.batch import Batch, Inputs
from fleetrec.models import base
from fleetrec.models.fields import click_outputs
from fleetrec.models.history import HistoryEmbeddings, HistoryOptions
from fleetrec.nn.activation import ActivationName
from fleetrec.nn.encoder_block import EncoderBlock, EncoderDropout
from fleetrec.nn.mlp import Mlp, scaled_linear
from fleetrec.nn.weights import scaled_weight
from fleetrec.tasks.binary import BinaryTask


class Model(base.Model):
    """BST: self-attention over the elements with their positions, followed by the target.

    Chen et al., "Behavior Sequence Transformer for E-commerce Recommendation in Alibaba", DLP-KDD
    2019. The outputs are averaged, so that a history may have any length.
    """

    class Config(HistoryOptions):
        """Hyper-parameters of BST."""

        item_emb_size: int = Field(default=96, gt=0, description="width of an item")
        cat_emb_size: int = Field(default=96, gt=0, description="width of a category")
        position_emb_size: int = Field(default=96, gt=0, description="width of a position")
        position_count: int = Field(default=5001, gt=0, description="positions in the table")
        n_encoder_layers: int = Field(default=1, gt=0, description="layers of the encoder")
        d_model: int | None = Field(
            default=None, gt=0, description="if given, must equal the three widths together"
        )
        d_key: int = Field(default=48, gt=0, description="width of keys and values of a head")
        d_value: int | None = Field(default=None, gt=0, description="if given, must equal d_key")
        n_head: int = Field(default=6, gt=0, description="heads of a layer")
        d_inner_hid: int = Field(default=512, gt=0, description="hidden width of a layer")
        dropout_rate: float = Field(default=0.0, ge=0, lt=1, description="of attention")
        relu_dropout: float = Field(default=0.0, ge=0, lt=1, description="of hidden values")
        prepostprocess_dropout: float = Field(default=0.0, ge=0, lt=1, description="of outputs")
        act: ActivationName = Field(default="relu", description="activation of hidden layers")
        fc_sizes: tuple[int, ...] = Field(
            default=(1024, 512, 256), description="widths of the hidden layers"
        )

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        history = HistoryEmbeddings(
            config,
            inputs=inputs,
            position_dim=config.position_emb_size,
            num_positions=config.position_count,
        )
        dim = history.dim + history.position_dim
        if config.d_model not in (None, dim):
            raise ValueError(f"d_model says {config.d_model}, the three widths are {dim} together")
        if config.d_value not in (None, config.d_key):
            raise ValueError(f"d_value says {config.d_value}, d_key is {config.d_key}")
        super().__init__(tasks=[BinaryTask(label=history.label)])
        self.history = history
        self.target_position = scaled_weight(1, history.position_dim, fan_in=100)
        dropout = EncoderDropout(
            output=config.prepostprocess_dropout,
            attention=config.dropout_rate,
            hidden=config.relu_dropout,
        )
        self.encoder = nn.ModuleList(
            EncoderBlock(
                dim,
                num_heads=config.n_head,
                key_dim=config.d_key,
                hidden_dim=config.d_inner_hid,
                act=config.act,
                dropout=dropout,
            )
            for _ in range(config.n_encoder_layers)
        )
        self.mlp = Mlp(2 * dim, config.fc_sizes, activation=config.act)
        self.out = scaled_linear(self.mlp.out_dim, 1)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit`` and ``predict``, the probability of a click."""
        history = self.history(batch)
        position_BD = self.target_position.expand(history.target_BD.shape[0], -1)
        target_B1D = torch.cat([history.target_BD, position_BD], dim=1).unsqueeze(1)
        x_BLD = torch.cat([target_B1D, history.x_BLD], dim=1)
        mask_BL = torch.cat([torch.ones_like(history.mask_BL[:, :1]), history.mask_BL], dim=1)
        for layer in self.encoder:
            x_BLD = layer(x_BLD, mask_BL)
        mean_BD = x_BLD[:, 1:].sum(dim=1) / history.mask_BL.sum(dim=1, keepdim=True).clamp(min=1)
        deep_B1 = self.out(self.mlp(torch.cat([x_BLD[:, 0], mean_BD], dim=1)))
        return click_outputs(deep_B1.squeeze(1) + self.history.bias(batch))
