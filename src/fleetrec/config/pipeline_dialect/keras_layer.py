"""``keras_layer``: which layer, and its parameters."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self, cast

from pydantic import ValidationError, model_validator

from fleetrec.config.pipeline_dialect import keras_messages as keras
from fleetrec.config.pipeline_dialect import layers
from fleetrec.config.pipeline_dialect.message import Message
from fleetrec.config.problems import hint

KNOWN_ONLY = (  # they work on text, which is not an input of the network here
    "EditDistance",
    "MappedDotProduct",
    "OverlapFeature",
    "TextEncoder",
    "TextNormalize",
)
_OWN: tuple[tuple[str, str, type[layers.LayerMessage]], ...] = (
    ("MLP", "mlp", layers.MlpMessage),
    ("Highway", "highway", layers.HighwayMessage),
    ("Gate", "", layers.GateMessage),
    ("TextCNN", "text_cnn", layers.TextCnnMessage),
    ("PeriodicEmbedding", "periodic_embedding", layers.PeriodicMessage),
    ("AutoDisEmbedding", "auto_dis_embedding", layers.AutoDisMessage),
    ("NaryDisEmbedding", "", layers.NaryDisMessage),
    ("FM", "fm", layers.FmLayerMessage),
    ("DotInteraction", "", layers.DotMessage),
    ("Cross", "", layers.CrossMessage),
    ("CIN", "cin", layers.CinMessage),
    ("BiLinear", "bilinear", layers.BilinearMessage),
    ("FiBiNet", "fibinet", layers.FibinetMessage),
    ("SENet", "senet", layers.SenetMessage),
    ("MaskBlock", "mask_block", layers.MaskBlockMessage),
    ("MaskNet", "masknet", layers.MaskNetMessage),
    ("PPNet", "ppnet", layers.PpnetMessage),
    ("DIN", "din", layers.DinMessage),
    ("BST", "bst", layers.BstMessage),
    ("SeqAugment", "seq_aug", layers.SeqAugmentMessage),
    ("SeqAugmentOps", "seq_aug", layers.SeqAugmentMessage),
    ("Attention", "attention", layers.AttentionMessage),
    ("MultiHeadAttention", "multi_head_attention", layers.MultiHeadMessage),
    ("MMoE", "mmoe", layers.MmoeLayerMessage),
    ("AITMTower", "", layers.AitmMessage),
    ("AuxiliaryLoss", "", layers.AuxiliaryLossMessage),
    ("Dense", "", keras.DenseMessage),
    ("Dropout", "", keras.DropoutMessage),
    ("GaussianNoise", "", keras.NoiseMessage),
    ("LayerNormalization", "", keras.LayerNormMessage),
    ("BatchNormalization", "", keras.BatchNormMessage),
    ("Activation", "", keras.ActivationMessage),
    ("LeakyReLU", "", keras.SlopeMessage),
    ("ELU", "", keras.SlopeMessage),
    ("Concatenate", "", keras.AxisMessage),
    ("Softmax", "", keras.AxisMessage),
    ("Reshape", "", keras.ReshapeMessage),
    ("Permute", "", keras.PermuteMessage),
    ("RepeatVector", "", keras.RepeatVectorMessage),
    ("Dot", "", keras.DotLayerMessage),
    *(
        (name, "", keras.PlainLayer)
        for name in (
            "Add",
            "Subtract",
            "Multiply",
            "Average",
            "Maximum",
            "Minimum",
            "ReLU",
            "PReLU",
            "Flatten",
            "GlobalAveragePooling1D",
            "GlobalMaxPooling1D",
        )
    ),
)
LAYERS: Mapping[str, type[layers.LayerMessage]] = MappingProxyType(
    {name: message for name, _, message in _OWN}
)
FIELDS: Mapping[str, str] = MappingProxyType({name: field for name, field, _ in _OWN if field})


class Struct(Message):
    """``st_params``, and everything in it: a list of ``fields``, one of them, or a value.

    One class, because each of them may contain the others.
    """

    fields: tuple["Struct", ...] = ()
    key: str | None = None
    value: "Struct | None" = None
    null_value: Literal["NULL_VALUE"] | None = None
    number_value: float | None = None
    string_value: str | None = None
    bool_value: bool | None = None
    struct_value: "Struct | None" = None
    list_value: "Struct | None" = None
    values: tuple["Struct", ...] = ()

    oneofs: ClassVar[tuple[tuple[str, ...], ...]] = (
        (
            "fields",
            "key",
            "null_value",
            "number_value",
            "string_value",
            "bool_value",
            "struct_value",
            "list_value",
            "values",
        ),
    )

    def plain(self) -> dict[str, Any]:
        """Return the values by name; null stands for no value."""
        found: dict[str, Any] = {}
        for entry in self.fields:
            if entry.key is None:
                raise ValueError("st_params: every entry of fields needs a key")
            found[entry.key] = None if entry.value is None else entry.value.plain_value()
        return {key: value for key, value in found.items() if value is not None}

    def plain_value(self) -> Any:
        """Return one value; a number without a fraction is whole."""
        if self.number_value is not None:
            number = self.number_value
            return int(number) if number.is_integer() else number
        if self.struct_value is not None:
            return self.struct_value.plain()
        if self.list_value is not None:
            return [value.plain_value() for value in self.list_value.values]
        return self.string_value if self.string_value is not None else self.bool_value


class KerasLayer(Message):
    """A layer by name, with its message or with ``st_params``."""

    class_name: str
    st_params: Struct | None = None
    periodic_embedding: layers.PeriodicMessage | None = None
    auto_dis_embedding: layers.AutoDisMessage | None = None
    fm: layers.FmLayerMessage | None = None
    mask_block: layers.MaskBlockMessage | None = None
    masknet: layers.MaskNetMessage | None = None
    senet: layers.SenetMessage | None = None
    bilinear: layers.BilinearMessage | None = None
    fibinet: layers.FibinetMessage | None = None
    mlp: layers.MlpMessage | None = None
    din: layers.DinMessage | None = None
    bst: layers.BstMessage | None = None
    mmoe: layers.MmoeLayerMessage | None = None
    seq_aug: layers.SeqAugmentMessage | None = None
    ppnet: layers.PpnetMessage | None = None
    text_cnn: layers.TextCnnMessage | None = None
    highway: layers.HighwayMessage | None = None
    cin: layers.CinMessage | None = None
    attention: layers.AttentionMessage | None = None
    multi_head_attention: layers.MultiHeadMessage | None = None

    oneofs: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("st_params", *dict.fromkeys(FIELDS.values())),
    )

    @model_validator(mode="after")
    def _check_class(self) -> Self:
        if self.class_name in KNOWN_ONLY:
            raise ValueError(f"class_name {self.class_name} is known, but not supported here")
        if self.class_name not in LAYERS:
            text = f"no layer is called {self.class_name!r}{hint(self.class_name, LAYERS)}"
            raise ValueError(text)
        given = self.model_fields_set - {"class_name", "st_params"}
        wrong = given - {FIELDS.get(self.class_name, "")}
        if wrong:
            raise ValueError(f"{wrong.pop()} is not for class_name {self.class_name}")
        try:
            self.params()
        except ValidationError as error:
            raise ValueError(f"{self.class_name}: {_sentence(error)}") from error
        return self

    def params(self) -> layers.LayerMessage:
        """Return the parameters of the layer."""
        field = FIELDS.get(self.class_name)
        given = getattr(self, field) if field else None
        if given is not None:
            return cast(layers.LayerMessage, given)
        message = LAYERS[self.class_name]
        plain = {} if self.st_params is None else self.st_params.plain()
        return message.model_validate(_with_defaults(message, plain))


def _with_defaults(message: type[layers.LayerMessage], plain: Mapping[str, Any]) -> dict[str, Any]:
    """Add the defaults of ``st_params``, also in messages within the message."""
    found: dict[str, Any] = {**message.struct_defaults, **plain}
    for name, value in found.items():
        if isinstance(value, dict) and name in ("mlp", "expert_mlp", "attention_dnn"):
            found[name] = _with_defaults(layers.MlpMessage, value)
    return found


def _sentence(error: ValidationError) -> str:
    problems = []
    for detail in error.errors():
        where = ".".join(str(part) for part in detail["loc"])
        problems.append(f"{where}: {detail['msg'].removeprefix('Value error, ')}")
    return "; ".join(problems)
