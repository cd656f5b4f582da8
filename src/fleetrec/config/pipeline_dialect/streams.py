"""Streams as the data of a pipeline: topics of Kafka, or URLs of streams as paths."""

import dataclasses

from fleetrec.config.document import Location
from fleetrec.config.online import OnlineOptions, StreamOptions
from fleetrec.config.pipeline_dialect.kafka import KafkaServer
from fleetrec.config.pipeline_dialect.pipeline import Pipeline
from fleetrec.config.problems import Problems
from fleetrec.core.errors import DataError
from fleetrec.core.stream_start import parse_start
from fleetrec.core.stream_url import (
    ClientOptions,
    StreamUrl,
    is_secret,
    is_stream,
    parse_url,
)

PASS_MESSAGES = 100_000
PASS_SECONDS = 10.0
CONFIG_FILE = "config_file"


@dataclasses.dataclass(frozen=True, kw_only=True)
class StreamInput:
    """A stream as data: its URL with the start, and options that are not in the URL."""

    url: StreamUrl
    client: ClientOptions = ()

    @property
    def start(self) -> str:
        """Return where to begin."""
        return self.url.start or "earliest"


def stream_input(pipeline: Pipeline, part: str) -> StreamInput | None:
    """Return the stream of training or evaluation; None if the data is in files."""
    kafka: KafkaServer | None = getattr(pipeline, f"kafka_{part}_input")
    path: str = getattr(pipeline, f"{part}_input_path") or ""
    if kafka is None:
        return StreamInput(url=parse_url(path)) if is_stream(path) else None
    options = kafka.options
    url = StreamUrl(
        scheme="kafka",
        hosts=kafka.server,
        topic=kafka.topic,
        start=kafka.start,
        config_file=options.pop(CONFIG_FILE, None),
    )
    return StreamInput(url=url, client=tuple(options.items()))


def check_streams(pipeline: Pipeline, problems: Problems) -> None:
    """Note what is wrong with streams."""
    data = pipeline.data_config
    for part in ("train", "eval"):
        kafka: KafkaServer | None = getattr(pipeline, f"kafka_{part}_input")
        at: Location = (f"kafka_{part}_input",) if kafka else (f"{part}_input_path",)
        if kafka is not None:
            _check_options(kafka, at, problems)
        try:
            found = stream_input(pipeline, part)
            if found is None:
                continue
            parse_start(found.start, where="start")
            parse_url(str(found.url))
        except DataError as error:
            problems.note(at, str(error))
            continue
        if data.input_type.startswith("Parquet"):
            text = f"messages are lines of text, but data_config.input_type is {data.input_type}"
            problems.note(at, text)
        if data.with_header:
            problems.note(("data_config", "with_header"), "the messages of a stream have no header")


def online_options(pipeline: Pipeline) -> OnlineOptions | None:
    """Return how training follows its stream; None if it reads files."""
    found = stream_input(pipeline, "train")
    if found is None:
        return None
    return OnlineOptions(
        follow=StreamOptions(
            url=str(found.url.stream),
            start=found.start,
            messages=PASS_MESSAGES,
            seconds=PASS_SECONDS,
            client=found.client,
        ),
        save_path=pipeline.model_dir,
        evaluate_first=False,
    )


def stream_notices(pipeline: Pipeline, problems: Problems) -> list[str]:
    """Return notices about fields that mean nothing for a stream."""
    if stream_input(pipeline, "train") is None or not pipeline.data_config.num_epochs:
        return []
    text = "a stream is read once, for num_steps or until the run is stopped"
    return [problems.spell(("data_config", "num_epochs"), text)]


def without_secrets(text: str, pipeline: Pipeline) -> str:
    """Return the text of a pipeline without passwords, to be written into the model folder."""
    for part in ("train", "eval"):
        kafka: KafkaServer | None = getattr(pipeline, f"kafka_{part}_input")
        for key, value in kafka.options.items() if kafka is not None else ():
            if is_secret(key) and value:
                text = text.replace(value, "***")
    return text


def _check_options(kafka: KafkaServer, at: Location, problems: Problems) -> None:
    for name in ("config_global", "config_topic"):
        for number, item in enumerate(getattr(kafka, name)):
            if not item.partition("=")[1]:
                problems.note((*at, name, number), "expected key=value")  # it may be a secret
