"""``runner_result_dump_path``: the outputs of every batch as JSON, written as they come."""

import contextlib
import json
from collections.abc import Iterator
from typing import TextIO

from fleetrec.core.batch import Batch
from fleetrec.core.storage import discard_unfinished, writing
from fleetrec.models.base import Model, predictions
from fleetrec.tasks.task import Outputs


class ResultDump:
    """A JSON list with one object per batch: each output of the model and each label, as lists."""

    def __init__(self, stream: TextIO | None, model: Model) -> None:
        self._stream = stream
        self._labels = [task.label for task in model.tasks]
        self._separator = "[\n"

    def write(self, outputs: Outputs, batch: Batch) -> None:
        """Append one batch; does nothing if no dump was asked for."""
        if self._stream is None:
            return
        labels = {name: batch.label(name).tolist() for name in self._labels}
        values = {name: value.tolist() for name, value in predictions(outputs).items()}
        self._stream.write(self._separator + json.dumps({**labels, **values}))
        self._separator = ",\n"

    def close(self) -> None:
        """End the list."""
        if self._stream is not None:
            self._stream.write("[]\n" if self._separator == "[\n" else "\n]\n")


@contextlib.contextmanager
def open_dump(url: str | None, model: Model) -> Iterator[ResultDump]:
    """Write a file that is at ``url`` once it is complete."""
    if url is None:
        yield ResultDump(None, model)
        return
    discard_unfinished(url)  # only this process writes there
    with writing(url) as path, path.open("w", encoding="utf-8") as stream:
        dump = ResultDump(stream, model)
        yield dump
        dump.close()
