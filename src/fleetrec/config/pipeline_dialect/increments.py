"""``incr_save_config``: serving models that a run publishes while it trains, as rules."""

from typing import ClassVar

from pydantic import Field

from fleetrec.config.document import Location
from fleetrec.config.options import Url
from fleetrec.config.pipeline_dialect.message import Message, Opaque, idle
from fleetrec.config.problems import Problems
from fleetrec.config.rules import Rule, RuleWhen, ServingRule
from fleetrec.core.errors import DataError
from fleetrec.core.stream_url import StreamUrl, parse_url

AT: Location = ("train_config", "incr_save_config")


class FolderSink(Message):
    """Publish in a folder; a ``relative`` one is below ``model_dir``."""

    incr_save_dir: Url = "incr_save"
    relative: bool = True
    mount_path: str = idle(default="/home/admin/docker_ml/workspace/incr_save/")


class KafkaSink(Message):
    """Publish in ``incr_save`` below ``model_dir``, and send deltas to a topic.

    ``consumer`` is for serving in EasyRec.
    """

    server: str = Field(min_length=1)
    topic: str = Field(min_length=1)
    consumer: Opaque | None = idle()


class IncrementSaveConfig(Message):
    """When serving models are published, and where; 0: never."""

    sparse_save_secs: int = Field(default=0, ge=0)
    dense_save_secs: int = Field(default=0, ge=0)
    sparse_save_steps: int = Field(default=0, ge=0)
    dense_save_steps: int = Field(default=0, ge=0)
    debug_save_update: bool = idle(default=False)
    kafka: KafkaSink | None = None
    datahub: Opaque | None = None
    fs: FolderSink | None = None

    oneofs: ClassVar[tuple[tuple[str, ...], ...]] = (("kafka", "datahub", "fs"),)

    @property
    def moments(self) -> tuple[tuple[RuleWhen, float], ...]:
        """When a serving model is due.

        Every serving model has the dense network and the rows that have changed, so that it is due
        when either is.
        """
        found: dict[tuple[RuleWhen, float], None] = {}
        for steps in (self.sparse_save_steps, self.dense_save_steps):
            found[("steps", steps)] = None
        for seconds in (self.sparse_save_secs, self.dense_save_secs):
            found[("seconds", seconds)] = None
        return tuple(moment for moment in found if moment[1] > 0)


def check_increments(config: IncrementSaveConfig | None, problems: Problems) -> None:
    """Note what is wrong with where and when serving models are published."""
    if config is None:
        return
    if config.datahub is not None:
        text = "is known, but not supported yet; publish in a folder: fs {}"
        problems.note((*AT, "datahub"), text)
        return
    if config.fs is None and config.kafka is None:
        problems.note(AT, "expected where serving models are published: fs {}")
    if config.kafka is not None:
        try:
            parse_url(_topic_url(config.kafka))
        except DataError as error:
            problems.note((*AT, "kafka"), str(error))
    if not config.moments:
        text = (
            "expected dense_save_steps, sparse_save_steps, dense_save_secs or sparse_save_secs "
            "above 0"
        )
        problems.note(AT, text)


def increment_rules(
    config: IncrementSaveConfig | None, *, model_dir: str, checkpoint: str, keep: int
) -> tuple[Rule, ...]:
    """Return the rules of serving models; ``checkpoint`` is the path template of checkpoints."""
    if config is None:
        return ()
    sink = config.fs or FolderSink()
    folder = f"{model_dir}/{sink.incr_save_dir}" if sink.relative else sink.incr_save_dir
    topic = None if config.kafka is None else _topic_url(config.kafka)
    serving = ServingRule(path=f"{folder}/{{step}}", folder=folder, id_by="step", kafka_url=topic)
    return tuple(
        Rule(when=when, every=every, do="serving", path=checkpoint, keep=keep, serving=serving)
        for when, every in config.moments
    )


def _topic_url(kafka: KafkaSink) -> str:
    return str(StreamUrl(scheme="kafka", hosts=kafka.server, topic=kafka.topic))
