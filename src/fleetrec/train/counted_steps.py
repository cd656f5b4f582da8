"""What a worker has counted of each step of a pass, for the process that takes its place."""

import contextlib
import dataclasses
import logging
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from fleetrec.train.position import Position
from fleetrec.train.scoreboard import Scoreboard

logger = logging.getLogger(__name__)

_FRAME = struct.Struct("<QQII")  # epoch, steps of the run so far, bytes, CRC
FOLD_BYTES = 1 << 23  # of the file, after which steps that nobody will make again become one


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    epoch: int
    step: int
    content: bytes

    def to_bytes(self) -> bytes:
        frame = _FRAME.pack(self.epoch, self.step, len(self.content), zlib.crc32(self.content))
        return frame + self.content


class CountedSteps:
    """A file of tallies, one for each step, written before servers hear of the step.

    So whatever step the servers remember as the last one, all tallies up to it are there. Those
    behind it are of steps that will be made again, and are dropped. The file of a pass is
    replaced with the first step of the next, when all workers have told each other their figures.
    """

    def __init__(self, path: Path, scoreboard: Scoreboard) -> None:
        self._path = path
        self._scoreboard = scoreboard
        self._stream: BinaryIO | None = None
        self._epoch = -1  # of the records in the file
        self._is_given_up = False

    def note(self, position: Position, tally: bytes, *, num_waiting: int) -> None:
        """Write down what the step that ends at ``position`` counts.

        ``num_waiting`` of the steps before it may have to be made again.
        """
        if self._is_given_up:
            return
        record = _Record(epoch=position.epoch, step=position.step, content=tally)
        try:
            if self._stream is None or self._epoch != position.epoch:
                self._replace([], epoch=position.epoch)
            elif self._stream.tell() > FOLD_BYTES:
                self._fold(last=position.step - 1 - num_waiting)
            assert self._stream is not None
            self._stream.write(record.to_bytes())
            self._stream.flush()
        except OSError as error:
            self._give_up(error)

    def take_up(self, position: Position) -> None:
        """Count what earlier processes have counted in the pass of ``position``, up to there."""
        taken = [
            record
            for record in self._records()
            if record.epoch == position.epoch and record.step <= position.step
        ]
        self._scoreboard.add([record.content for record in taken])
        if position.batch and (not taken or taken[-1].step != position.step):
            logger.warning(
                "%s: not all that was counted before the restart is there; the figures of epoch %d "
                "are about fewer samples",
                self._path,
                position.epoch,
            )
        try:
            self._replace(taken, epoch=position.epoch)
        except OSError as error:
            self._give_up(error)

    def clear(self) -> None:
        """Forget all; there is nobody to take it up."""
        self.close()
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file, which stays."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _fold(self, *, last: int) -> None:
        """Make one record of all up to step ``last``."""
        records = list(self._records())
        old = [record for record in records if record.step <= last]
        if len(old) > 1:
            content = self._scoreboard.merge_tallied([record.content for record in old])
            old = [_Record(epoch=self._epoch, step=old[-1].step, content=content)]
        self._replace([*old, *(r for r in records if r.step > last)], epoch=self._epoch)

    def _replace(self, records: list[_Record], *, epoch: int) -> None:
        self.close()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        staging = self._path.with_name(f"{self._path.name}.new")
        staging.write_bytes(b"".join(record.to_bytes() for record in records))
        staging.replace(self._path)
        self._stream = self._path.open("ab")
        self._epoch = epoch

    def _records(self) -> Iterator[_Record]:
        """Yield all records that are whole; one that was being written is the last."""
        try:
            stream = self._path.open("rb")
        except FileNotFoundError:
            return
        with stream:
            while len(frame := stream.read(_FRAME.size)) == _FRAME.size:
                epoch, step, num_bytes, crc = _FRAME.unpack(frame)
                content = stream.read(num_bytes)
                if len(content) < num_bytes or zlib.crc32(content) != crc:
                    return
                yield _Record(epoch=epoch, step=step, content=content)

    def _give_up(self, error: OSError) -> None:
        """Go on without: figures are exact as long as this process lives."""
        logger.warning("%s: cannot be written: %s; a restart would lose figures", self._path, error)
        self._is_given_up = True
        with contextlib.suppress(OSError):
            self.clear()
