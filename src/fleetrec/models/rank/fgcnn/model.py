"""Feature generation by convolutions."""

# Shape suffixes: B samples, F fields and generated ones, D width, P pairs.

import torch
from pydantic import Field
from torch import Tensor

from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.fields import FieldEmbeddings, FieldModel, VectorOptions, click_outputs
from fleetrec.nn.activation import ActivationName
from fleetrec.nn.dot_interaction import DotInteraction
from fleetrec.nn.feature_generation import FeatureGeneration
from fleetrec.nn.mlp import Mlp, scaled_linear


class Model(FieldModel):
    """FGCNN: convolutions generate new fields; an MLP takes all fields and their dot products.

    Liu et al., "Feature Generation by Convolutional Neural Network for Click-Through Rate
    Prediction", WWW 2019. An id has a vector as a field and one for the convolutions.
    """

    class Config(VectorOptions):
        """Hyper-parameters of FGCNN."""

        filters: tuple[int, ...] = Field(
            default=(38, 40, 42, 44), min_length=1, description="channels of each convolution"
        )
        filter_size: tuple[int, int] = Field(
            default=(1, 9),
            description="size of a filter: 1 element of a vector by this number of fields",
        )
        pooling_size: tuple[int, ...] = Field(
            default=(2, 2, 2, 2), description="fields that each max pooling makes one of"
        )
        new_filters: tuple[int, ...] = Field(
            default=(3, 3, 3, 3), description="new fields per pooled one"
        )
        fc_sizes: tuple[int, ...] = Field(
            default=(4096, 2048), description="widths of the hidden layers"
        )
        act: ActivationName = Field(default="relu", description="activation of hidden layers")
        use_batchnorm: bool = Field(default=False, description="normalise the hidden layers")

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        if config.filter_size[0] != 1 or config.filter_size[1] < 1:
            raise ValueError(f"filter_size must be [1, fields], got {list(config.filter_size)}")
        if not len(config.filters) == len(config.pooling_size) == len(config.new_filters):
            raise ValueError("filters, pooling_size and new_filters must be equally long")
        dim = config.sparse_feature_dim
        # The two halves of a row: one for the fields, one for the convolutions over them.
        fields = FieldEmbeddings(config, inputs=inputs, dim=2 * dim)
        super().__init__(fields)
        self.generation = FeatureGeneration(
            fields.num_fields,
            dim,
            filters=config.filters,
            kernels=[config.filter_size[1]] * len(config.filters),
            pooling=config.pooling_size,
            new_filters=config.new_filters,
        )
        all_fields = fields.num_fields + self.generation.num_new_fields
        self.products = DotInteraction(all_fields)
        self.mlp = Mlp(
            all_fields * dim + self.products.out_dim,
            config.fc_sizes,
            activation=config.act,
            batch_norm=config.use_batchnorm,
        )
        self.out = scaled_linear(self.mlp.out_dim, 1)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit`` and ``predict``, the probability of a click."""
        raw_BFD, source_BFD = self.fields.vectors(batch).chunk(2, dim=2)
        x_BFD = torch.cat([raw_BFD, self.generation(source_BFD)], dim=1)
        h_BX = torch.cat([x_BFD.flatten(1), self.products(x_BFD)], dim=1)
        return click_outputs(self.out(self.mlp(h_BX)).squeeze(1))
