"""The plain deep click model: pooled embeddings and dense features into one MLP."""

# Shape suffixes: B samples, E embedded width, D dense width, H last hidden width.

import math

import torch
from pydantic import Field
from torch import Tensor

from fleetrec.config.options import Options
from fleetrec.core.batch import Batch, Inputs
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.table import Initializer, TableConfig
from fleetrec.models import base
from fleetrec.models.table_options import AdmissionOptions, EvictionOptions, out_of_range
from fleetrec.nn.mlp import Mlp, scaled_linear
from fleetrec.tasks.binary import BinaryTask


class Model(base.Model):
    """DNN: sum-pooled embeddings of all slots beside the dense features, then an MLP."""

    class Config(Options):
        """Hyper-parameters of DNN."""

        sparse_feature_number: int = Field(default=1000001, gt=0, description="ids in the table")
        sparse_feature_dim: int = Field(default=9, gt=0, description="width of an embedding")
        fc_sizes: tuple[int, ...] = Field(
            default=(512, 256, 128, 32), description="widths of the hidden layers"
        )
        distributed_embedding: bool = Field(
            default=False, description="let the table grow with any 64-bit id"
        )
        hash_ids: bool = Field(
            default=False, description="let ids beyond sparse_feature_number share rows, by a hash"
        )
        admission: AdmissionOptions = Field(
            default=AdmissionOptions(), description="which ids get a row in a growing table"
        )
        eviction: EvictionOptions = Field(
            default=EvictionOptions(), description="which rows a growing table gives up"
        )
        sparse_inputs_slots: int | None = Field(
            default=None, description="if given, must equal the number of sparse slots"
        )
        dense_input_dim: int | None = Field(
            default=None, description="if given, must equal the width of the dense slots"
        )

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        label, *slots = inputs.sparse or ("click",)
        dense_dim = sum(math.prod(shape) for shape in inputs.dense.values())
        _check_declared("sparse_inputs_slots", config.sparse_inputs_slots, len(inputs.sparse))
        _check_declared("dense_input_dim", config.dense_input_dim, dense_dim)
        table = TableConfig(
            name="SparseFeatFactors",
            dim=config.sparse_feature_dim,
            num_rows=None if config.distributed_embedding else config.sparse_feature_number,
            out_of_range=out_of_range(hash_ids=config.hash_ids, grows=config.distributed_embedding),
            initializer=Initializer(scale=0.05),
            admission=config.admission.build(),
            eviction=config.eviction.build(),
        )
        super().__init__(tasks=[BinaryTask(label=label)])
        self.embeddings = EmbeddingCollection(
            features=[EmbeddedFeature(feature=slot, table=table.name) for slot in slots],
            tables=[table],
        )
        self._dense_names = tuple(inputs.dense)
        self.mlp = Mlp(self.embeddings.out_dim + dense_dim, config.fc_sizes)
        self.out = scaled_linear(self.mlp.out_dim, 1)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit`` and ``predict``, the probability of a click."""
        dense = [batch.dense[name].flatten(1) for name in self._dense_names]
        x_BE = torch.cat([self.embeddings(batch).cat(), *dense], dim=1)
        h_BH = self.mlp(x_BE)
        logit_B = self.out(h_BH).squeeze(1)
        return {"logit": logit_B, "predict": torch.sigmoid(logit_B)}


def _check_declared(key: str, declared: int | None, found: int) -> None:
    if declared is not None and declared != found:
        raise ValueError(f"{key} says {declared}, the data set declares {found}")
