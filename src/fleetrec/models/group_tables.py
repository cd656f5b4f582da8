"""The tables of the features of groups."""

import math

from fleetrec.config.groups import EmbeddedOptions
from fleetrec.embedding.table import Admission, Initializer, TableConfig


def table_of(options: EmbeddedOptions, *, dim: int, optimizer_group: int) -> TableConfig:
    """Return the table of a feature; ``dim`` is its width in its group."""
    if dim == 0:
        raise ValueError(f"table {options.table}: embedding_dim is missing")
    if options.initial is None:
        initializer = Initializer(kind="truncated_normal", scale=1 / math.sqrt(dim))
    else:
        initializer = Initializer(**options.initial.model_dump())
    admission = Admission()
    if options.min_count > 1:
        admission = Admission(kind="count", threshold=options.min_count)
    return TableConfig(
        name=options.table,
        dim=dim,
        num_rows=options.num_rows,
        initializer=initializer,
        admission=admission,
        optimizer_group=optimizer_group,
    )
