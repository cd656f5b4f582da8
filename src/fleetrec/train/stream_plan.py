"""Passes over a message stream: each is a frozen range of offsets of every partition."""

import contextlib
import dataclasses
import logging
from collections.abc import Sequence

from fleetrec.config.online import StreamOptions
from fleetrec.core.errors import CheckpointError, DataError
from fleetrec.core.event_time import SECONDS_PER_DAY, day_after, day_of, day_time
from fleetrec.core.fault_points import fault_point
from fleetrec.core.progress import Progress
from fleetrec.core.stream_start import parse_start
from fleetrec.core.stream_url import parse_url
from fleetrec.data.files import range_file
from fleetrec.data.streams.client import NoAnswerError, Offsets, StreamClient, connect
from fleetrec.data.streams.ranges import (
    Frozen,
    first_time_ms,
    freeze,
    limited,
    num_messages,
    offsets_of,
)
from fleetrec.parallel.group import Group
from fleetrec.train.pass_log import FrozenPass, PassLog, fingerprints
from fleetrec.train.pass_plan import PassSpec, PhaseFiles
from fleetrec.train.waiting import Waiting, WaitReport

logger = logging.getLogger(__name__)

OVER = "over"


class Stream:
    """Passes over a stream, each from where the last one ended.

    The chief asks the broker and freezes the ranges of a pass in ``log`` before it begins; a run
    that was killed makes the same pass again. Offsets are stored there and nowhere else. A pass
    belongs to the day (UTC) of its messages, by their timestamps, and ends at midnight at the
    latest; after it, messages of earlier days count to the day in which they are read.
    """

    def __init__(
        self,
        options: StreamOptions,
        phases: Sequence[str],
        log: PassLog,
        group: Group,
        waiting: Waiting | None = None,
    ) -> None:
        self.options = options
        given = parse_url(options.url)
        if given.is_range:
            raise DataError(f"{given.shown}: expected a stream without partition, begin and end")
        self.url = given.stream
        start = options.start or given.start or "earliest"
        self._start = parse_start(start, where=f"{self.url.shown}: start")
        self._phases = tuple(phases)
        self._log = log
        self._group = group
        self._waiting = waiting or Waiting()
        self._last_freeze: float | None = None
        self._frozen: dict[int, FrozenPass] = {}

    def next(self, after: Progress) -> PassSpec | None:
        """Return the next pass; waits until there are messages."""
        index = after.pass_index
        if self._is_after_end(index):
            return None
        if index in self._frozen:
            return self._frozen[index].spec
        wait = _Wait(self, index, self._waiting, last_freeze=self._last_freeze)
        with contextlib.closing(wait):
            content = self._waiting.wait(
                self._group, wait.poll, pass_index=index, poll_s=self.options.poll_s
            )
        if content == OVER:
            return None
        frozen = self._with_client(FrozenPass.from_bytes(content.encode(), where=f"pass {index}"))
        if self._group.is_chief:
            self._log.write_by_index(frozen)
            fault_point("pass_frozen")
        self._last_freeze = self._waiting.clock()
        self._frozen = {index: frozen}
        return frozen.spec

    def known(self, index: int) -> PassSpec | None:
        """Return a pass that has begun."""
        frozen = self.frozen(index)
        return None if frozen is None else frozen.spec

    def peek(self, index: int) -> PhaseFiles | None:  # noqa: ARG002
        """Return None: the ranges of a pass are fixed when it begins."""
        return None

    def frozen(self, index: int) -> FrozenPass | None:
        """Return a pass that has begun, as it is stored."""
        if index < 0:
            return None
        if index not in self._frozen:
            found = self._log.read_by_index(index)
            if found is None:
                return None
            self._frozen[index] = self._with_client(found)
        return self._frozen[index]

    def begins(self, client: StreamClient, index: int) -> Offsets:
        """Return where a pass begins: at the end of the last one, or where the run starts."""
        if index == 0:
            return offsets_of(client, self._start)
        last = self.frozen(index - 1)
        if last is None:
            raise CheckpointError(
                f"{self.url.shown}: the manifest of pass {index - 1}, which says where pass "
                f"{index} begins, is gone; start a new run in another folder, from offsets"
            )
        return {int(partition): offset for partition, offset in last.positions.items()}

    def freeze(
        self, client: StreamClient, index: int, begins: Offsets, ends: Offsets
    ) -> FrozenPass:
        """Return the next pass between two positions: at most its size, and no more than a day."""
        last = self.frozen(index - 1)
        day = self._day(client, last, begins, ends)
        midnights = client.offsets_at(day_time(day) + SECONDS_PER_DAY)
        in_day = _up_to(ends, midnights, begins)
        is_day_over = in_day != ends
        wanted = limited(begins, in_day, self.options.messages)
        shard = self._group.shard
        found = freeze(
            client,
            self.url,
            begins,
            wanted,
            min_ranges=shard.count if shard.by == "files" else 1,
        )
        is_same_day = last is not None and last.spec.day == day
        number = last.spec.number + 1 if last is not None and is_same_day else 1
        files = self._files(found)
        event_time = found.time_ms // 1000 if found.ranges else self._time_of(last, day)
        return FrozenPass(
            spec=PassSpec(
                name=f"{day}/{number}",
                index=index,
                event_time=event_time,
                files=files,
                fingerprint=fingerprints(files),
                day=day,
                number=number,
                ends_day=is_day_over and wanted == in_day,
            ),
            arrived_at=found.time_ms / 1000 if found.ranges else None,
            positions={str(partition): end for partition, end in wanted.items()},
        )

    def _day(
        self, client: StreamClient, last: FrozenPass | None, begins: Offsets, ends: Offsets
    ) -> str:
        """Return the day of a pass: that of the last one until it is over."""
        if last is not None and not last.spec.ends_day:
            return last.spec.day
        day = day_of(first_time_ms(client, begins, ends) // 1000)
        return day if last is None else max(day, day_after(last.spec.day))

    def _time_of(self, last: FrozenPass | None, day: str) -> int:
        return day_time(day) if last is None else last.spec.event_time

    def _files(self, found: Frozen) -> PhaseFiles:
        client = self.options.client
        files = tuple(
            range_file(one.url, num_bytes=one.num_bytes, options=client) for one in found.ranges
        )
        return {phase: files for phase in self._phases}

    def _with_client(self, frozen: FrozenPass) -> FrozenPass:
        """Add the options of the client, which are in no file, to the files of a pass."""
        client = self.options.client
        files = {
            phase: tuple(dataclasses.replace(file, options=client) for file in some)
            for phase, some in frozen.spec.files.items()
        }
        return dataclasses.replace(frozen, spec=dataclasses.replace(frozen.spec, files=files))

    def _is_after_end(self, index: int) -> bool:
        return self.options.num_passes is not None and index >= self.options.num_passes


class _Wait:
    """Waits for the messages of one pass, on the chief.

    A broker that does not answer is waited for like messages that have not come. The first pass of
    a process (no ``last_freeze``) begins with the messages that are there.
    """

    def __init__(
        self, plan: Stream, index: int, waiting: Waiting, *, last_freeze: float | None
    ) -> None:
        self._plan = plan
        self._index = index
        self._clock = waiting.clock
        self._report = WaitReport(waiting, f"{index} of {plan.url.topic}")
        self._last_freeze = last_freeze
        self._begins: Offsets | None = None
        self._client: StreamClient | None = None
        self._last_look: float | None = None
        self._short_since: float | None = None

    def close(self) -> None:
        """Disconnect."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def poll(self) -> str | None:
        """Return the frozen pass as JSON, or that the run is over; None: wait."""
        now = self._clock()
        if self._last_look is None:
            before = self._plan.frozen(self._index)
            if before is not None:
                return before.to_bytes().decode()
        elif now - self._last_look < self._plan.options.poll_s:
            return None
        self._last_look = now
        try:
            return self._look(now)
        except NoAnswerError as error:
            self.close()
            self._report.report(str(error))
            return None

    def _look(self, now: float) -> str | None:
        plan, options = self._plan, self._plan.options
        if self._client is None:
            self._client = connect(plan.url, options.client)
        if self._begins is None:
            self._begins = plan.begins(self._client, self._index)
        available = self._client.end_offsets()
        self._check_ends(available, now)
        ends = available
        if options.until is not None:
            ends = _up_to(available, self._client.offsets_at(options.until), self._begins)
        count = num_messages(self._begins, ends)
        if count == 0 and ends != available:
            return OVER
        last = self._last_freeze
        is_due = last is None or now - last >= options.seconds or ends != available
        if count >= options.messages or (is_due and count > 0):
            frozen = plan.freeze(self._client, self._index, self._begins, ends)
            return frozen.to_bytes().decode()
        self._report.report(f"{count} of {options.messages} messages")
        return None

    def _check_ends(self, ends: Offsets, now: float) -> None:
        """Raise if messages that were read are gone from the stream, as if it were a new one."""
        assert self._begins is not None
        short = [p for p, begin in sorted(self._begins.items()) if ends.get(p, 0) < begin]
        if not short:
            self._short_since = None
            return
        partition = short[0]
        what = (
            f"partition {partition} ends at offset {ends.get(partition, 0)}, but the last pass "
            f"ended at {self._begins[partition]}"
        )
        if self._short_since is None:
            self._short_since = now
        if now - self._short_since >= self._plan.url.retry_s:
            raise DataError(
                f"{self._plan.url.shown}: {what}: this is not the stream that was read before; "
                "start a new run in another folder"
            )
        raise NoAnswerError(what)


def _up_to(ends: Offsets, limits: Offsets, begins: Offsets) -> Offsets:
    """Return the ends, but none after its limit or before its begin."""
    return {
        partition: max(begins.get(partition, 0), min(end, limits.get(partition, end)))
        for partition, end in ends.items()
    }
