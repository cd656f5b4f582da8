"""Rows in the tables of this process."""

from collections.abc import Collection, Mapping

from fleetrec.core.batch import Batch
from fleetrec.core.progress import Progress
from fleetrec.embedding.collection import EmbeddingCollection
from fleetrec.embedding.gradient_norm import row_gradient_squares
from fleetrec.embedding.lookup import LookedUp, Lookup
from fleetrec.embedding.native_store import NativeStore
from fleetrec.models.base import Model
from fleetrec.parallel.optimizer_plan import OptimizerPlan
from fleetrec.parallel.rows import ClickLabels, PassEnd, evict_rows


class LocalRows:
    """Looks up and updates rows in place."""

    def __init__(
        self,
        model: Model,
        stores: Mapping[str, NativeStore],
        plan: OptimizerPlan,
        *,
        frozen: Collection[str],
    ) -> None:
        self._collection: EmbeddingCollection = model.embedding_collection()
        self._stores = stores
        self._plan = plan
        self._lookup = Lookup(self._collection, stores, frozen=frozen)
        self._click_labels = ClickLabels(model)

    @property
    def prefetches(self) -> bool:
        """Return False: the rows of the next batch are here already."""
        return False

    def prefetch(self, batch: Batch) -> None:
        """Do nothing."""

    def start_prefetch(self) -> None:
        """Do nothing."""

    def pull(self, batch: Batch, *, training: bool) -> LookedUp:
        """Look up the vectors of a batch."""
        labels_B = self._click_labels(batch) if training else None
        return self._lookup.pull(batch, training=training, labels_B=labels_B)

    def grad_square_sum(self, batch: Batch, looked_up: LookedUp) -> float:
        """Return the sum of squares of the gradients of all rows of the step."""
        return row_gradient_squares(self._collection, batch, looked_up.vectors)

    def push(
        self,
        batch: Batch,  # noqa: ARG002
        looked_up: LookedUp,
        *,
        step: int,
        scale: float,
        progress: Progress,  # noqa: ARG002
    ) -> None:
        """Update the rows of a batch."""
        if scale != 1:
            for vector in looked_up.vectors.values():
                if vector.grad is not None:
                    vector.grad.mul_(scale)
        rates = {
            key: self._plan.table_rate(group.features[0].table, step)
            for key, group in self._collection.groups.items()
        }
        self._lookup.push(looked_up, lr=rates)

    def end_pass(self, end: PassEnd) -> None:
        """Evict rows by the rules of their tables."""
        evict_rows(self._stores, end)

    def num_pending_pushes(self) -> int:
        """Return 0: a push is applied at once."""
        return 0

    def flush(self) -> None:
        """Do nothing: a push is applied at once."""
