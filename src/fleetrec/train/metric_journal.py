"""The counters of every step of a pass, for the process that replaces this one."""

import contextlib
import dataclasses
import logging
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from fleetrec.core.progress import Progress
from fleetrec.train.metrics import PassMetrics

logger = logging.getLogger(__name__)

_FRAME = struct.Struct("<QQII")  # pass, steps of the run so far, bytes, CRC
COMPACT_BYTES = 1 << 23  # size of the file after which stored steps are merged into one record
NUM_SEPARATE = 64  # of the last steps stay apart: the chief may save at any of them


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    pass_index: int
    step: int
    content: bytes

    def to_bytes(self) -> bytes:
        crc = zlib.crc32(self.content)
        return _FRAME.pack(self.pass_index, self.step, len(self.content), crc) + self.content


class MetricJournal:
    """A file of counters, one record for each step, written before the step is stored elsewhere.

    Whatever step a restarted process resumes from, the counters of all steps up to it are in the
    file. Those after it belong to steps that will be repeated, and are dropped. The file of a pass
    is replaced at the first step of the next, when the processes have merged their metrics.
    """

    def __init__(self, path: Path, metrics: PassMetrics) -> None:
        self._path = path
        self._metrics = metrics
        self._stream: BinaryIO | None = None
        self._pass_index = -1  # of the records in the file
        self._max_bytes = COMPACT_BYTES
        self._is_disabled = False

    def append(self, progress: Progress, counters: bytes, *, num_pending: int) -> None:
        """Write the counters of the step that ends at ``progress``.

        ``num_pending`` of the steps before it may have to be repeated.
        """
        if self._is_disabled:
            return
        record = _Record(pass_index=progress.pass_index, step=progress.step, content=counters)
        try:
            if self._stream is None or self._pass_index != progress.pass_index:
                self._replace([], pass_index=progress.pass_index)
            elif self._stream.tell() > self._max_bytes:
                self._compact(last=progress.step - 1 - max(num_pending, NUM_SEPARATE))
            assert self._stream is not None
            self._stream.write(record.to_bytes())
            self._stream.flush()
        except OSError as error:
            self._disable(error)

    def restore(self, progress: Progress) -> None:
        """Count what earlier processes have counted in the pass of ``progress``, up to there."""
        taken = _records_up_to(self._path, progress)
        self._metrics.add([record.content for record in taken])
        if progress.batch and (not taken or taken[-1].step != progress.step):
            logger.warning(
                "%s: counters from before the restart are missing; the metrics of epoch %d are "
                "about fewer samples",
                self._path,
                progress.pass_index,
            )
        try:
            self._replace(taken, pass_index=progress.pass_index)
        except OSError as error:
            self._disable(error)

    def begin(self, progress: Progress) -> None:
        """Start a new file with what is counted already: a checkpoint within a pass has it."""
        self.clear()
        if progress.cursor is None or not self._metrics.has_samples:
            return
        content = self._metrics.to_bytes()
        record = _Record(pass_index=progress.pass_index, step=progress.step, content=content)
        try:
            self._replace([record], pass_index=progress.pass_index)
        except OSError as error:
            self._disable(error)

    def clear(self) -> None:
        """Delete the file: no process will need it."""
        self.close()
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file and leave it there."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _compact(self, *, last: int) -> None:
        """Merge all records up to step ``last`` into one."""
        records = list(_read_records(self._path))
        old = [record for record in records if record.step <= last]
        if len(old) > 1:
            content = self._metrics.merge_bytes([record.content for record in old])
            old = [_Record(pass_index=self._pass_index, step=old[-1].step, content=content)]
        self._replace([*old, *(r for r in records if r.step > last)], pass_index=self._pass_index)
        assert self._stream is not None
        self._max_bytes = max(COMPACT_BYTES, 2 * self._stream.tell())  # not again in every step

    def _replace(self, records: list[_Record], *, pass_index: int) -> None:
        self.close()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        staging = self._path.with_name(f"{self._path.name}.new")
        staging.write_bytes(b"".join(record.to_bytes() for record in records))
        staging.replace(self._path)
        self._stream = self._path.open("ab")
        self._pass_index = pass_index

    def _disable(self, error: OSError) -> None:
        """Continue without the file: metrics stay exact as long as this process lives."""
        logger.warning("%s: cannot be written: %s; a restart would lose metrics", self._path, error)
        self._is_disabled = True
        with contextlib.suppress(OSError):
            self.clear()


def journal_path(path: Path, phase: str, *, num_phases: int) -> Path:
    """Return the file of one phase, for the file of a worker."""
    return path if num_phases == 1 else path.with_name(f"{path.name}.{phase}")


def read_counters(path: Path, progress: Progress) -> list[bytes]:
    """Return what a worker has counted in the pass of ``progress`` up to there.

    Another process may be writing the file. Empty if the file does not tell: it is on another
    machine, or the steps around ``progress`` are merged.
    """
    taken = _records_up_to(path, progress)
    return [record.content for record in taken] if taken and taken[-1].step == progress.step else []


def _records_up_to(path: Path, progress: Progress) -> list[_Record]:
    return [
        record
        for record in _read_records(path)
        if record.pass_index == progress.pass_index and record.step <= progress.step
    ]


def _read_records(path: Path) -> Iterator[_Record]:
    """Yield all complete records; only the last one can be incomplete."""
    try:
        stream = path.open("rb")
    except FileNotFoundError:
        return
    with stream:
        while len(frame := stream.read(_FRAME.size)) == _FRAME.size:
            pass_index, step, num_bytes, crc = _FRAME.unpack(frame)
            content = stream.read(num_bytes)
            if len(content) < num_bytes or zlib.crc32(content) != crc:
                return
            yield _Record(pass_index=pass_index, step=step, content=content)
