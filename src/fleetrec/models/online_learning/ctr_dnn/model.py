"""The click model of online learning: the network of rank/dnn on a table that grows."""

from pydantic import Field

from fleetrec.models.rank.dnn import model as dnn


class Model(dnn.Model):
    """CTR-DNN: an MLP over the sum-pooled embeddings of 64-bit ids and the dense features.

    Which ids get a row, and which rows go, is in ``table_parameters`` of the job.
    """

    class Config(dnn.Model.Config):
        """Hyper-parameters of CTR-DNN."""

        distributed_embedding: bool = Field(
            default=True, description="let the table grow with any 64-bit id"
        )
