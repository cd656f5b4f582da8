"""The one training step: pull rows, forward, loss, backward, scale, clip, update, push."""

import contextlib
import dataclasses
import hashlib
import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from fleetrec.config.job import UpdateOptions
from fleetrec.core.batch import Batch
from fleetrec.core.fault_points import fault_point
from fleetrec.core.progress import Progress
from fleetrec.embedding.lookup import LookedUp
from fleetrec.models.base import Model
from fleetrec.parallel.rows import DenseUpdate, PassEnd, Rows
from fleetrec.parallel.transfer import Transfer
from fleetrec.tasks.task import Outputs


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """Outputs and loss of one batch; ``lr`` is None if nothing was trained."""

    outputs: Outputs
    loss: Tensor
    lr: float | None = None


OnResult = Callable[[StepResult], None]


def ignore_result(_: StepResult) -> None:
    """Do nothing with a result."""


def seed_for_step(*, seed: int, rank: int, step: int) -> int:
    """Return the seed of the random numbers of a step, equal whenever the step is repeated."""
    digest = hashlib.blake2b(f"{seed}/{rank}/{step}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


class Stepper:
    """Makes the steps of one model. Every process of a group has one.

    Groups differ in where rows come from and gradients go (``rows``), and in who updates the dense
    network (``dense``).
    """

    def __init__(  # noqa: PLR0913 (the parts of a step)
        self,
        model: Model,
        rows: Rows,
        dense: DenseUpdate,
        *,
        transfer: Transfer,
        update: UpdateOptions,
        seed: int,
        rank: int = 0,
    ) -> None:
        self._model = model
        self._rows = rows
        self._dense = dense
        self._transfer = transfer
        self._update = update
        self._seed = seed
        self._rank = rank

    @property
    def prefetches(self) -> bool:
        """Return whether it pays to call ``prefetch``."""
        return self._rows.prefetches

    def prefetch(self, batch: Batch) -> None:
        """Prepare the batch that follows the next call of ``train``.

        The batch may never arrive; prefetching has no lasting effect.
        """
        self._rows.prefetch(batch)

    def train(
        self, batch: Batch, *, progress: Progress, on_result: OnResult = ignore_result
    ) -> StepResult:
        """Train on a batch; returns the outputs from before the update.

        ``progress`` is that after this step. It is stored with the step where steps outlive the
        process, and seeds the random numbers of the step. ``on_result`` is called before any other
        process can see the step: if it raises, the step is not made, and what it writes is there
        whenever the step is.
        """
        if not self._model.training:  # walks over all modules, so not in every step
            self._model.train()
        torch.manual_seed(seed_for_step(seed=self._seed, rank=self._rank, step=progress.step))
        looked_up = self._rows.pull(batch, training=True)
        self._dense.load_weights()
        self._rows.start_prefetch()
        sent = self._transfer.send(batch, looked_up.vectors)
        outputs, loss = self._dense.forward_backward(sent)
        self._transfer.copy_gradients_back(sent, looked_up.vectors)
        self._scale_rows(looked_up)
        scale = self._clip(batch, looked_up)
        fault_point("compute")
        detached = {name: value.detach() for name, value in outputs.items()}
        result = StepResult(outputs=detached, loss=loss.detach())
        on_result(result)
        step = self._dense.step
        lr = self._dense.apply()
        self._rows.push(batch, looked_up, step=step, scale=scale, progress=progress)
        return dataclasses.replace(result, lr=lr)

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """Enclose calls of ``evaluate``; training continues afterwards as if nothing had happened.

        Every process of a group that evaluates together enters it.
        """
        self._rows.flush()
        with self._dense.evaluation_weights():
            yield

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> StepResult:
        """Return outputs and loss with the weights of the group; creates no rows."""
        outputs, sent = self._evaluated(batch)
        return StepResult(outputs=outputs, loss=self._model.loss(outputs, sent))

    @torch.no_grad()
    def predict(self, batch: Batch) -> dict[str, Tensor]:
        """Return outputs as ``evaluate`` does; the batch needs only the inputs of the network."""
        return self._evaluated(batch)[0]

    def _evaluated(self, batch: Batch) -> tuple[dict[str, Tensor], Batch]:
        if self._model.training:
            self._model.eval()
        looked_up = self._rows.pull(batch, training=False)
        sent = self._transfer.send(batch, looked_up.vectors)
        return self._model(sent), sent

    def num_pending_pushes(self) -> int:
        """Return how many steps of this process are not stored by servers yet."""
        return self._rows.num_pending_pushes()

    def end_pass(
        self, pass_index: int, *, now: int, ends_day: bool, max_unseen_days: int | None = None
    ) -> None:
        """Finish a pass: wait for the group, then evict rows by their rules.

        Every process of the group calls it.

        Args:
            pass_index: Which pass it is.
            now: Event time.
            ends_day: Whether the pass ends a day: only then rows are evicted by age and score.
            max_unseen_days: Replaces that of the tables.
        """
        end = PassEnd(
            pass_index=pass_index, now=now, ends_day=ends_day, max_unseen_days=max_unseen_days
        )
        self._rows.end_pass(end)

    def flush(self) -> None:
        """Return when all steps so far are applied to the state of the group."""
        self._rows.flush()

    def _scale_rows(self, looked_up: LookedUp) -> None:
        if self._update.embedding_gradient_scale != 1:
            for vector in looked_up.vectors.values():
                if vector.grad is not None:
                    vector.grad.mul_(self._update.embedding_gradient_scale)

    def _clip(self, batch: Batch, looked_up: LookedUp) -> float:
        """Scale the dense gradients to the allowed norm; returns the scale, for those of rows."""
        clip_norm = self._update.clip_norm
        if clip_norm == 0:
            return 1.0
        dense = self._dense.gradients()
        squares = sum(float(grad.square().sum()) for grad in dense)
        squares += self._rows.grad_square_sum(batch, looked_up)
        scale = clip_norm / max(math.sqrt(squares), clip_norm)
        for grad in dense:
            grad.mul_(scale)
        return scale
