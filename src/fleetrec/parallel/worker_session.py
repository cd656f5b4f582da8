"""The connection of a worker to its servers, for the steps of one model."""

from fleetrec.config.job import CommunicatorOptions
from fleetrec.core.progress import Progress
from fleetrec.models.base import Model
from fleetrec.parallel.flat import FlatParameters
from fleetrec.parallel.optimizer_plan import OptimizerPlan
from fleetrec.parallel.rows import PassEnd
from fleetrec.parallel.worker_payload import encode_payload
from fleetrec.server.evict_request import EvictionRequest
from fleetrec.server.parameter_client import ParameterClient, StepUpdate, WorkerProgress
from fleetrec.server.sender import Sender, build_sender


class WorkerSession:
    """Counts the steps of a worker, and sends them.

    ``sequence`` is that of the last step; servers apply each sequence once.
    """

    def __init__(  # noqa: PLR0913 (what a step is made of)
        self,
        client: ParameterClient,
        model: Model,
        flat: FlatParameters,
        plan: OptimizerPlan,
        *,
        mode: str,
        communicator: CommunicatorOptions,
        before: WorkerProgress,
    ) -> None:
        self.client = client
        self.model = model
        self.flat = flat
        self.plan = plan
        self.sequence = before.sequence
        served = client.model
        rules = {served.row_optimizer(index).name for index in range(len(served.tables))}
        self.sender: Sender = build_sender(
            client,
            mode,
            communicator,
            is_sgd=rules | {options.name for options in served.optimizers} == {"sgd"},
        )

    def send(self, update: StepUpdate, *, sequence: int) -> None:
        """Send a step; it outlives this process once the servers have it."""
        self.sender.send(update, sequence=sequence)
        self.sequence = sequence

    def payload(self, progress: Progress) -> bytes:
        """Return what the servers store with a step for a process that replaces this one."""
        return encode_payload(progress.to_bytes(), self.model)

    def wait_until_applied(self) -> None:
        """Return when the servers have applied all steps of this worker."""
        self.sender.flush()
        self.client.wait_for_step(self.sequence + 1)

    def end_pass(self, end: PassEnd) -> None:
        """Wait until no worker has data left in a pass; then rows are evicted."""
        self.sender.flush()
        self.client.end_pass(end.pass_index)
        self.client.evict(
            end.pass_index,
            EvictionRequest(
                now=end.now, ends_day=end.ends_day, max_unseen_days=end.max_unseen_days
            ),
        )

    def close(self) -> None:
        """Stop sending."""
        self.sender.close()
