"""Tables of a program, declared as Paddle's sparse embeddings are."""

from collections.abc import Sequence

from fleetrec.config.entries import Entry, ShowClickEntry
from fleetrec.embedding.table import Admission, Eviction, Initializer, TableConfig
from fleetrec.models.table_options import build_admission


def sparse_embedding(
    name: str,
    size: Sequence[int],
    *,
    entry: Entry | None = None,
    initializer: Initializer | None = None,
    eviction: Eviction | None = None,
) -> TableConfig:
    """Return a table that grows with any 64-bit id.

    Args:
        name: Name of the table.
        size: Two numbers, of which the second is the width of a row. The first can be any, as in
            Paddle: the table grows.
        entry: Which ids get a row; None: all that are trained on.
        initializer: The first weights of a row; None: uniform up to 0.01.
        eviction: Which rows are evicted; None: none.
    """
    if len(size) != 2 or size[1] < 1:
        raise ValueError(f"sparse_embedding {name}: expected a size [any, width], got {size!r}")
    admission = None if entry is None else entry.admission
    return TableConfig(
        name=name,
        dim=size[1],
        initializer=initializer or Initializer(),
        admission=Admission() if admission is None else build_admission(admission),
        eviction=eviction or Eviction(),
        click_label=entry.click_name if isinstance(entry, ShowClickEntry) else None,
    )
