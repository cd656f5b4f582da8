"""Hyper-parameters that models with tables share."""

from pydantic import Field

from fleetrec.config.options import Options
from fleetrec.config.tables import AdmissionOptions, EvictionOptions, SparseOptimizerOptions
from fleetrec.embedding.table import (
    Admission,
    Eviction,
    Initializer,
    RowOptimizer,
    TableConfig,
    TableOptimizer,
)


def build_admission(options: AdmissionOptions) -> Admission:
    """Return the rule of a table."""
    return Admission(**options.model_dump())


def build_eviction(options: EvictionOptions) -> Eviction:
    """Return the rules of a table."""
    return Eviction(**options.model_dump())


def build_table_optimizer(options: SparseOptimizerOptions) -> TableOptimizer:
    """Return the optimizer of a table."""
    guards = {"l2": options.l2, "clip_value": options.clip_value, "clip_norm": options.clip_norm}
    if options.weight_bounds is not None:
        guards["min_weight"], guards["max_weight"] = options.weight_bounds
    rule = RowOptimizer(
        name=options.optimizer_class,
        hyperparameters=dict(options.settings),
        guards={name: value for name, value in guards.items() if value},
    )
    return TableOptimizer(rule=rule, lr=options.learning_rate)


class GrowthOptions(Options):
    """How the tables of a model handle ids, and how they grow."""

    distributed_embedding: bool = Field(
        default=False, description="let the table grow with any 64-bit id"
    )
    hash_ids: bool = Field(
        default=False, description="map ids beyond the size of a table to its rows by a hash"
    )
    is_sparse: bool = Field(
        default=True,
        description="whether a step updates the rows of its batch only, or every row of the table",
    )
    admission: AdmissionOptions = Field(
        default=AdmissionOptions(), description="which ids get a row in a growing table"
    )
    eviction: EvictionOptions = Field(
        default=EvictionOptions(), description="which rows of a growing table are evicted"
    )

    sparse_optimizer: SparseOptimizerOptions | None = Field(
        default=None, description="optimizer of rows, if it is not that of the network"
    )

    def table(self, name: str, dim: int, initializer: Initializer, *, num_rows: int) -> TableConfig:
        """Return a table by these options."""
        if self.hash_ids and self.distributed_embedding:
            raise ValueError(
                "hash_ids and distributed_embedding exclude each other; set one of them"
            )
        if self.distributed_embedding and not self.is_sparse:
            raise ValueError(
                "is_sparse: False updates all rows of a table of fixed size, but "
                "distributed_embedding lets tables grow; set one of them"
            )
        return TableConfig(
            name=name,
            dim=dim,
            num_rows=None if self.distributed_embedding else num_rows,
            out_of_range="hash" if self.hash_ids else "error",
            initializer=initializer,
            admission=build_admission(self.admission),
            eviction=build_eviction(self.eviction),
            is_dense=not self.is_sparse,
            own_optimizer=None
            if self.sparse_optimizer is None
            else build_table_optimizer(self.sparse_optimizer),
        )


class TableOptions(GrowthOptions):
    """How large the tables of a model are, and how they grow."""

    sparse_feature_number: int = Field(default=1000001, gt=0, description="ids in the table")

    def table(
        self, name: str, dim: int, initializer: Initializer, *, num_rows: int | None = None
    ) -> TableConfig:
        """Return a table by these options; ``num_rows`` is for a table of other size."""
        return super().table(
            name, dim, initializer, num_rows=num_rows or self.sparse_feature_number
        )
