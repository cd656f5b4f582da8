"""The model as PyTorch's exporter sees it: a function of plain tensors."""

import contextlib
import copy
import logging
import warnings
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from fleetrec.core.batch import Batch, Inputs
from fleetrec.core.cursor import Cursor
from fleetrec.core.errors import ModelError
from fleetrec.core.jagged import KeyedJagged
from fleetrec.models.base import Model


class TracedGraph(nn.Module):
    """The model as a function of plain tensors: dense features, then looked-up vectors."""

    PREFIX = "_model."  # of the names of weights

    def __init__(
        self, model: Model, dense: Sequence[str], embedded: Sequence[str], fetches: Sequence[str]
    ) -> None:
        super().__init__()
        self._model = copy.deepcopy(model).cpu()
        self._dense = dense
        self._embedded = embedded
        self._fetches = fetches

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return the named outputs."""
        named = dict(zip([*self._dense, *self._embedded], tensors, strict=True))
        batch = Batch(
            ids=_no_ids(tensors[0].shape[0]),
            dense={name: named[name] for name in self._dense},
            cursor=Cursor(),
            embedded={name: named[name] for name in self._embedded},
        )
        outputs = self._model(batch)
        return tuple(outputs[name] for name in self._fetches)


def sample_batch(model: Model, inputs: Inputs, *, num_samples: int = 2) -> Batch:
    """Return a batch of zeros in the shape that the model expects."""
    return Batch(
        ids=_no_ids(num_samples),
        dense={name: torch.zeros(num_samples, *shape) for name, shape in inputs.dense.items()},
        cursor=Cursor(),
        embedded=model.embedding_collection().zeros(num_samples, max_length=3),
    )


@contextlib.contextmanager
def exporting(model: Model, option: str) -> Iterator[None]:
    """Silence the exporter's warnings; report in one line why a model cannot be exported."""
    exporter_logger = logging.getLogger("torch.onnx")
    level = exporter_logger.level
    exporter_logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about internals of the exporter
            yield
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise ModelError(
            f"{type(model).__module__}: the model cannot be exported for {option}: {reason}"
        ) from error
    finally:
        exporter_logger.setLevel(level)


def _no_ids(num_samples: int) -> KeyedJagged:
    """Return an empty feature of ``num_samples`` samples."""
    nothing = torch.zeros(0, dtype=torch.int64)
    offsets = torch.zeros(1, dtype=torch.int64)
    return KeyedJagged(names=(), values_N=nothing, offsets=offsets, num_samples=num_samples)
