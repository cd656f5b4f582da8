"""Neural factorization machine."""

# Shape suffixes: B samples, F fields, D width.

from typing import Literal

from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.fields import FactorOptions, FieldEmbeddings, FieldModel, click_outputs
from fleetrec.nn.activation import ActivationName
from fleetrec.nn.batch_norm import BatchNorm
from fleetrec.nn.bi_interaction import BiInteraction
from fleetrec.nn.linear_terms import LinearTerms
from fleetrec.nn.mlp import Mlp, scaled_linear
from fleetrec.tasks.task import Outputs


class Model(FieldModel):
    """NFM: an MLP over the pooled products of all pairs, plus first-order weights.

    He and Chua, "Neural Factorization Machines for Sparse Predictive Analytics", SIGIR 2017.
    """

    class Config(FactorOptions):
        """Hyper-parameters of NFM."""

        fc_sizes: tuple[int, ...] = Field(
            default=(400, 400, 400), description="widths of the hidden layers"
        )
        act: ActivationName = Field(default="relu", description="activation of hidden layers")
        use_batchnorm: bool = Field(
            default=False, description="normalise the pooled products and the hidden layers"
        )
        use_dropout: bool = Field(default=False, description="use dropout")
        dropout_prob: float = Field(
            default=0.9, ge=0, lt=1, description="dropout probability of values"
        )
        loss_type: Literal["log_loss", "square_loss"] = Field(
            default="log_loss", description="of the logit, or of the probability"
        )

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        fields = FieldEmbeddings(
            config, inputs=inputs, dim=config.sparse_feature_dim, first_order=True
        )
        super().__init__(fields, reg=config.reg)
        dropout = config.dropout_prob if config.use_dropout else 0.0
        self.linear = LinearTerms()
        self.pool = BiInteraction()
        self.norm = BatchNorm(fields.dim) if config.use_batchnorm else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.mlp = Mlp(
            fields.dim,
            config.fc_sizes,
            activation=config.act,
            batch_norm=config.use_batchnorm,
            dropout=dropout,
        )
        self.out = scaled_linear(self.mlp.out_dim, 1, bias=False)
        self.loss_type = config.loss_type

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit`` and ``predict``, the probability of a click."""
        pooled_BD = self.dropout(self.norm(self.pool(self.fields.vectors(batch))))
        first_B = self.linear(self.fields.first_order(batch))
        return click_outputs(first_B + self.out(self.mlp(pooled_BD)).squeeze(1))

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the mean loss of the chosen type plus the penalty of the first-order weights."""
        if self.loss_type == "log_loss":
            return super().loss(outputs, batch)
        labels_B = batch.label(self.fields.label)
        square = functional.mse_loss(outputs["predict"], labels_B)
        return square + self.reg * self.fields.penalty(batch)
