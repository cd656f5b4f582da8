"""``model_config``: feature groups, losses, and what the messages of model classes are made of.

The message of a model class lies with the model (``models/<group>/<name>/pipeline.py``).
"""

from typing import ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from fleetrec.config.pipeline_dialect.activations import ACTIVATIONS
from fleetrec.config.pipeline_dialect.backbone import Backbone
from fleetrec.config.pipeline_dialect.evaluation import Metric
from fleetrec.config.pipeline_dialect.feature import EmbeddingVariable
from fleetrec.config.pipeline_dialect.losses import Kd, Loss, LossType
from fleetrec.config.pipeline_dialect.message import Message, Opaque, idle

# Model classes and their fields in model_config, whether they can be trained here or not.
CLASSES = (
    ("AutoInt", "autoint"),
    ("CMBF", "cmbf"),
    ("CoMetricLearningI2I", "metric_learning"),
    ("DAT", "dat"),
    ("DBMTL", "dbmtl"),
    ("DCN", "dcn"),
    ("DeepFM", "deepfm"),
    ("DLRM", "dlrm"),
    ("DropoutNet", "dropoutnet"),
    ("DSSM", "dssm"),
    ("DSSM_SENet", "dssm_senet"),
    ("DummyModel", "dummy"),
    ("ESMM", "esmm"),
    ("FM", "fm"),
    ("MatchModel", "model_params"),
    ("MIND", "mind"),
    ("MMoE", "mmoe"),
    ("MultiTaskModel", "model_params"),
    ("MultiTower", "multi_tower"),
    ("MultiTowerBST", "multi_tower"),
    ("MultiTowerDIN", "multi_tower"),
    ("MultiTowerRecall", "multi_tower_recall"),
    ("PDN", "pdn"),
    ("PLE", "ple"),
    ("RankModel", "model_params"),
    ("RocketLaunching", "rocket_launching"),
    ("SimpleMultiTask", "simple_multi_task"),
    ("Uniter", "uniter"),
    ("WideAndDeep", "wide_and_deep"),
)


class Dnn(Message):
    """Layers of given widths; ``hidden_units: [0]`` means none."""

    hidden_units: tuple[int, ...] = Field(min_length=1)
    dropout_ratio: tuple[float, ...] = ()
    activation: str = "tf.nn.relu"
    use_bn: bool = True

    @field_validator("activation")
    @classmethod
    def _check_activation(cls, name: str) -> str:
        library, _, function = name.rpartition(".")
        if function not in ACTIVATIONS or library not in ("", "tf", "tf.nn"):
            raise ValueError(f"expected one of {', '.join(ACTIVATIONS)}")
        return name

    @model_validator(mode="after")
    def _check_widths(self) -> Self:
        if len(self.dropout_ratio) not in (0, len(self.hidden_units)):
            raise ValueError(
                f"dropout_ratio: expected {len(self.hidden_units)} values, one for each of "
                f"hidden_units, got {len(self.dropout_ratio)}"
            )
        if min(self.hidden_units) < 0 or (0 in self.hidden_units and self.hidden_units != (0,)):
            raise ValueError(f"hidden_units: expected widths, got {list(self.hidden_units)}")
        if any(not 0 <= ratio < 1 for ratio in self.dropout_ratio):
            raise ValueError(f"dropout_ratio: expected [0, 1), got {list(self.dropout_ratio)}")
        return self

    @property
    def hidden(self) -> tuple[int, ...]:
        """Return the widths of the layers, maybe none."""
        return () if self.hidden_units == (0,) else self.hidden_units


class Tower(Message):
    """Layers over one feature group."""

    input: str
    dnn: Dnn


class TaskTower(Message):
    """Layers, label, loss and metrics of one of several tasks."""

    tower_name: str
    label_name: str = ""
    metrics_set: tuple[Metric, ...] = ()
    loss_type: LossType = "CLASSIFICATION"
    num_class: int = Field(default=1, gt=0)
    dnn: Dnn | None = None
    weight: float = Field(default=1.0, ge=0)
    task_space_indicator_label: str = ""
    task_space_indicator_name: str = ""
    task_space_indicator_value: str = ""
    in_task_space_weight: float = Field(default=1.0, ge=0)
    out_task_space_weight: float = Field(default=1.0, ge=0)
    losses: tuple[Loss, ...] = ()
    use_sample_weight: bool = True


class BayesTaskTower(TaskTower):
    """A task that may depend on tasks before it: by layers, or by attention to their towers."""

    relation_tower_names: tuple[str, ...] = ()
    relation_dnn: Dnn | None = None
    use_ait_module: bool = False
    ait_project_dim: int | None = Field(default=None, gt=0)


class SeqAttMap(Message):
    """Which keys attend to which sequences."""

    key: tuple[str, ...] = ()
    hist_seq: tuple[str, ...] = ()
    aux_hist_seq: tuple[str, ...] = ()


class SeqAttGroup(Message):
    """Attention of keys over sequences of behaviour."""

    group_name: str = ""
    seq_att_map: tuple[SeqAttMap, ...] = ()
    tf_summary: bool = idle(default=False)
    seq_dnn: Dnn | None = None
    allow_key_search: bool = False
    need_key_feature: bool = True
    allow_key_transform: bool = False
    transform_dnn: bool = False


class FeatureGroup(Message):
    """Features that a model uses as one group."""

    group_name: str = ""
    feature_names: tuple[str, ...] = ()
    wide_deep: Literal["DEEP", "WIDE"] = "DEEP"
    sequence_features: tuple[SeqAttGroup, ...] = ()
    negative_sampler: bool = False


class VariationalDropout(Message):
    """Dropout with learned rates, which rank the features."""

    regularization_lambda: float = Field(default=0.01, ge=0)
    embedding_wise_variational_dropout: bool = False


class ModelConfig(Message):
    """The model, without the messages of model classes, which are added by ``with_classes``."""

    model_class: str
    model_name: str = ""
    feature_groups: tuple[FeatureGroup, ...] = ()
    seq_att_groups: tuple[SeqAttGroup, ...] = ()
    embedding_regularization: float = Field(default=0.0, ge=0)
    loss_type: LossType = "CLASSIFICATION"
    num_class: int = Field(default=1, gt=0)
    use_embedding_variable: bool = idle(default=False)
    ev_params: EmbeddingVariable | None = None
    kd: tuple[Kd, ...] = ()
    restore_filters: tuple[str, ...] = idle(default=())
    variational_dropout: VariationalDropout | None = None
    losses: tuple[Loss, ...] = ()
    loss_weight_strategy: Literal["Fixed", "Uncertainty", "Random"] = "Fixed"
    f1_reweight_loss: Opaque | None = idle()
    backbone: Backbone | None = None
    label_name: str = ""

    fields_of_classes: ClassVar[tuple[str, ...]] = tuple(dict.fromkeys(f for _, f in CLASSES))
