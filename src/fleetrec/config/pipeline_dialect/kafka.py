"""``kafka_train_input`` and ``kafka_eval_input``: topics of Kafka instead of files."""

from typing import ClassVar

from pydantic import Field

from fleetrec.config.pipeline_dialect.message import Message


class KafkaServer(Message):
    """A topic and where to begin in it; ``config_*`` are options of librdkafka, key=value."""

    server: str = Field(min_length=1)
    topic: str = Field(min_length=1)
    group: str = ""
    offset_info: str | None = None
    offset_time: str | None = None
    config_global: tuple[str, ...] = ()
    config_topic: tuple[str, ...] = ()

    oneofs: ClassVar[tuple[tuple[str, ...], ...]] = (("offset_info", "offset_time"),)

    @property
    def start(self) -> str:
        """Return where to begin; like EasyRec with the oldest message."""
        return self.offset_info or self.offset_time or "earliest"

    @property
    def options(self) -> dict[str, str]:
        """Return the options of librdkafka."""
        pairs = (item.partition("=") for item in (*self.config_global, *self.config_topic))
        named = {"group.id": self.group} if self.group else {}
        return named | {key.strip(): value.strip() for key, _, value in pairs}
