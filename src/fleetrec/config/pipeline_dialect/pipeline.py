"""The whole of a pipeline file."""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field, create_model

from fleetrec.config.options import Url
from fleetrec.config.pipeline_dialect.data import DataConfig
from fleetrec.config.pipeline_dialect.evaluation import EvalConfig
from fleetrec.config.pipeline_dialect.export import ExportConfig
from fleetrec.config.pipeline_dialect.feature import FeatureConfig, FeatureConfigs
from fleetrec.config.pipeline_dialect.kafka import KafkaServer
from fleetrec.config.pipeline_dialect.message import Message, Opaque, later
from fleetrec.config.pipeline_dialect.model import ModelConfig
from fleetrec.config.pipeline_dialect.train import TrainConfig


class BinaryInput(Message):
    """Three kinds of binary files of one log."""

    category_path: tuple[str, ...] = Field(default=(), min_length=1)
    dense_path: tuple[str, ...] = Field(default=(), min_length=1)
    label_path: tuple[str, ...] = Field(default=(), min_length=1)


class Pipeline(Message):
    """A pipeline, without the messages of model classes."""

    train_input_path: str | None = None
    kafka_train_input: KafkaServer | None = None
    datahub_train_input: Opaque | None = later()
    hive_train_input: Opaque | None = later()
    binary_train_input: BinaryInput | None = None
    parquet_train_input: str | None = None
    eval_input_path: str | None = None
    kafka_eval_input: KafkaServer | None = None
    datahub_eval_input: Opaque | None = later()
    hive_eval_input: Opaque | None = later()
    binary_eval_input: BinaryInput | None = None
    parquet_eval_input: str | None = None
    model_dir: Url = Field(default="", min_length=1, validate_default=True)
    train_config: TrainConfig = TrainConfig()
    eval_config: EvalConfig = EvalConfig()
    export_config: ExportConfig = ExportConfig()
    data_config: DataConfig = DataConfig()
    feature_configs: tuple[FeatureConfig, ...] = ()
    feature_config: FeatureConfigs = FeatureConfigs()
    model_config_: ModelConfig = Field(alias="model_config")
    fg_json_path: str = ""

    oneofs: ClassVar[tuple[tuple[str, ...], ...]] = (
        (
            "train_input_path",
            "kafka_train_input",
            "datahub_train_input",
            "hive_train_input",
            "binary_train_input",
            "parquet_train_input",
        ),
        (
            "eval_input_path",
            "kafka_eval_input",
            "datahub_eval_input",
            "hive_eval_input",
            "binary_eval_input",
            "parquet_eval_input",
        ),
    )

    @property
    def model(self) -> ModelConfig:
        """Return ``model_config``, a name that pydantic has taken."""
        return self.model_config_


def with_classes(messages: Mapping[str, type[Message]]) -> type[Pipeline]:
    """Return the schema of a pipeline whose model_config may hold these messages.

    Messages of model classes that are known and not among them are refused by name.
    """
    fields: dict[str, Any] = {
        name: (Opaque | None, later()) for name in ModelConfig.fields_of_classes
    }
    fields |= {name: (message | None, None) for name, message in messages.items()}
    model = create_model("ModelConfig", __base__=ModelConfig, **fields)
    return create_model(
        "Pipeline", __base__=Pipeline, model_config_=(model, Field(alias="model_config"))
    )
