"""Kafka topics, by confluent-kafka: partitions are assigned, no consumer group is joined."""

import contextlib
from collections.abc import Generator, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from fleetrec.core.errors import DataError, UnavailableError
from fleetrec.core.stream_url import StreamUrl, masked
from fleetrec.data.streams.client import Message, NoAnswerError, Offsets

CALL_S = 5.0  # for a request about offsets
SILENCE_S = 10.0  # without a message that is known to be there
POLL_S = 0.2
MESSAGES_PER_READ = 10_000

# What makes reads repeatable; a job cannot set these to anything else.
FIXED = MappingProxyType(
    {
        "enable.auto.commit": "false",
        "enable.auto.offset.store": "false",
        "auto.offset.reset": "error",
        "enable.partition.eof": "true",
        "allow.auto.create.topics": "false",
    }
)
DEFAULTS = MappingProxyType(
    {
        "group.id": "fleetrec",
        "client.id": "fleetrec",
        "log_level": "0",  # errors are raised with their text
        "queued.max.messages.kbytes": "16384",
        "fetch.queue.backoff.ms": "10",
        "fetch.wait.max.ms": "10",  # what is read is there already
    }
)


class KafkaClient:
    """One topic; ``options`` are those of librdkafka."""

    def __init__(self, url: StreamUrl, options: Mapping[str, str]) -> None:
        try:
            import confluent_kafka
        except ImportError as error:
            raise UnavailableError(
                f"{url.shown}: needs confluent-kafka; pip install 'fleetrec[kafka]'"
            ) from error
        if url.subject is not None:
            raise DataError(f"{url.shown}: subject is for nats:// only; leave it out")
        self._kafka = confluent_kafka
        self._url = url
        self._options = options
        self._last_error: Any = None
        check_options(url, options)
        config = {
            "bootstrap.servers": url.hosts,
            **DEFAULTS,
            **options,
            **FIXED,
            "error_cb": self._note_error,
        }
        try:
            self._consumer = confluent_kafka.Consumer(config)
        except confluent_kafka.KafkaException as error:
            raise DataError(f"{url.shown}: {self._text(error.args[0])}") from error

    def partitions(self) -> tuple[int, ...]:
        """Return the partitions of the topic."""
        with self._errors():
            found = self._consumer.list_topics(self._url.topic, timeout=CALL_S)
        topic = found.topics[self._url.topic]
        if topic.error is not None:
            self._raise(topic.error)
        return tuple(sorted(topic.partitions))

    def begin_offsets(self) -> Offsets:
        """Return the low watermarks."""
        return {partition: self._watermarks(partition)[0] for partition in self.partitions()}

    def end_offsets(self) -> Offsets:
        """Return the high watermarks; of transactions, only what is committed counts."""
        return {partition: self._watermarks(partition)[1] for partition in self.partitions()}

    def offsets_at(self, event_time_s: float) -> Offsets:
        """Return the first offsets at or after a time; the end of a partition without one."""
        time_ms, ends = int(event_time_s * 1000), self.end_offsets()
        wanted = [self._kafka.TopicPartition(self._url.topic, p, time_ms) for p in ends]
        with self._errors():
            found = self._consumer.offsets_for_times(wanted, timeout=CALL_S)
        for place in found:
            if place.error is not None:
                self._raise(place.error)
        return {p.partition: p.offset if p.offset >= 0 else ends[p.partition] for p in found}

    def read(self, partition: int, begin: int, end: int) -> Generator[list[Message]]:
        """Yield the messages of a range."""
        self._check_range(partition, begin, end)
        with self._errors():
            self._consumer.assign([self._kafka.TopicPartition(self._url.topic, partition, begin)])
        num_silent = 0
        while begin < end:
            with self._errors():
                found = self._consumer.consume(min(MESSAGES_PER_READ, end - begin), timeout=POLL_S)
            messages, reached = self._messages(found, begin, end)
            if messages and messages[0].offset > begin:
                self._check_kept(partition, begin, end)
            if messages:
                begin = messages[-1].offset + 1
                yield messages
            begin = max(begin, reached)
            num_silent = 0 if found else num_silent + 1
            if num_silent * POLL_S >= SILENCE_S:
                raise NoAnswerError(self._no_answer(f"no message within {SILENCE_S:g} s"))

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()

    def _messages(self, found: list[Any], begin: int, end: int) -> tuple[list[Message], int]:
        """Return the messages of the range, and the offset that the partition was read up to."""
        messages, reached = [], 0
        for message in found:
            error, offset = message.error(), message.offset()
            if error is None:
                reached = offset
                if begin <= offset < end:
                    value = message.value()
                    time_ms = message.timestamp()[1]
                    messages.append(Message(offset, time_ms, b"" if value is None else value))
            elif error.code() == self._kafka.KafkaError._PARTITION_EOF:  # noqa: SLF001
                reached = offset
            elif message.topic() is None and not error.fatal():
                self._note_error(error)  # of the group, which is not needed
            else:
                self._raise(error)
        return messages, reached

    def _check_range(self, partition: int, begin: int, end: int) -> None:
        known = self.partitions()
        if partition not in known:
            raise DataError(f"{self._url.shown}: no partition {partition}; there are {len(known)}")
        low, high = self._watermarks(partition)
        if low > begin:
            raise lost_messages(self._url, partition, begin, end, first_kept=low)
        if high < end:
            raise NoAnswerError(
                f"partition {partition} ends at offset {high}, before {end}, which it had reached"
            )

    def _check_kept(self, partition: int, begin: int, end: int) -> None:
        """Raise if the messages from ``begin`` on were deleted since the range was checked.

        Other gaps are no loss: compaction, and the marks of transactions.
        """
        low, _ = self._watermarks(partition)
        if low > begin:
            raise lost_messages(self._url, partition, begin, end, first_kept=low)

    def _watermarks(self, partition: int) -> tuple[int, int]:
        place = self._kafka.TopicPartition(self._url.topic, partition)
        with self._errors():
            found = self._consumer.get_watermark_offsets(place, timeout=CALL_S)
        if found is None:
            raise NoAnswerError(self._no_answer("no offsets in time"))
        return found

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except self._kafka.KafkaException as error:
            self._raise(error.args[0])

    def _raise(self, error: Any) -> None:
        """Raise DataError for errors that stay, NoAnswerError for others."""
        self._consumer.poll(0)  # lets librdkafka report the cause
        kinds = self._kafka.KafkaError
        text = self._no_answer(self._text(error))
        if error.code() == kinds._AUTO_OFFSET_RESET:  # noqa: SLF001
            raise DataError(f"{self._url.shown}: messages are lost: {text}")
        final = (
            kinds.UNKNOWN_TOPIC_OR_PART,
            kinds._UNKNOWN_TOPIC,  # noqa: SLF001
            kinds.TOPIC_AUTHORIZATION_FAILED,
            kinds._AUTHENTICATION,  # noqa: SLF001
            kinds.SASL_AUTHENTICATION_FAILED,
        )
        last = None if self._last_error is None else self._last_error.code()
        if error.code() in final or last == kinds._AUTHENTICATION or error.fatal():  # noqa: SLF001
            raise DataError(f"{self._url.shown}: {text}")
        raise NoAnswerError(text)

    def _note_error(self, error: Any) -> None:
        self._last_error = error

    def _no_answer(self, text: str) -> str:
        if self._last_error is None:
            return text
        return f"{text} ({self._text(self._last_error)})"

    def _text(self, error: Any) -> str:
        return masked(error.str(), self._options)


def check_options(url: StreamUrl, options: Mapping[str, str]) -> None:
    """Refuse options that would change which messages are read."""
    for key, value in options.items():
        if key == "bootstrap.servers":
            raise DataError(
                f"{url.shown}: bootstrap.servers are the hosts of the URL; leave it out"
            )
        if key in FIXED and value != FIXED[key]:
            raise DataError(
                f"{url.shown}: {key}: offsets are stored in checkpoints, so this is always "
                f"{FIXED[key]!r}, got {value!r}; leave it out"
            )


def lost_messages(
    url: StreamUrl, partition: int, begin: int, end: int, *, first_kept: int
) -> DataError:
    """Return the error for messages that the broker has deleted."""
    last = min(first_kept, end) - 1
    return DataError(
        f"{url.shown}: partition {partition}: the messages {begin} to {last} of {begin} to "
        f"{end - 1} are lost: the broker has deleted all before {first_kept}; keep messages "
        "longer than a run may lag, or start a new run from offsets that are there"
    )
