"""Samplers of negative items in ``data_config``."""

from pydantic import Field

from fleetrec.config.pipeline_dialect.message import Message
from fleetrec.config.samplers import SamplerOptions


class Sampler(Message):
    """Fields of all samplers."""

    num_sample: int = Field(gt=0)
    attr_fields: tuple[str, ...] = Field(default=(), min_length=1)
    item_id_field: str
    attr_delimiter: str = Field(default=":", min_length=1)
    num_eval_sample: int = Field(default=0, ge=0)
    field_delimiter: str = Field(default="\x01", min_length=1)


class NegativeSampler(Sampler):
    """Items that are not in the batch."""

    input_path: str


class NegativeSamplerV2(Sampler):
    """Items without an edge to the user."""

    user_input_path: str = ""
    item_input_path: str
    pos_edge_input_path: str
    user_id_field: str


class HardNegativeSampler(Sampler):
    """Items that are not in the batch, and hard negatives of the user."""

    user_input_path: str = ""
    item_input_path: str
    hard_neg_edge_input_path: str
    num_hard_sample: int = Field(gt=0)
    user_id_field: str


class HardNegativeSamplerV2(HardNegativeSampler):
    """Items without an edge to the user, and hard negatives of the user."""

    pos_edge_input_path: str


def sampler_options(field: str, message: Sampler, *, is_training: bool) -> SamplerOptions:
    """Return the sampler of a message; evaluation may draw another number of items."""
    count = message.num_sample
    if not is_training and message.num_eval_sample:
        count = message.num_eval_sample
    positive = getattr(message, "pos_edge_input_path", "")
    plain = "not_in_batch_uniform" if field.endswith("in_memory") else "not_in_batch"
    return SamplerOptions.model_validate(
        {
            "kind": "without_edge" if positive else plain,
            "num_samples": count,
            "item_path": getattr(message, "item_input_path", getattr(message, "input_path", "")),
            "item_column": message.item_id_field,
            "user_column": getattr(message, "user_id_field", ""),
            "positive_path": positive,
            "hard_path": getattr(message, "hard_neg_edge_input_path", ""),
            "num_hard": getattr(message, "num_hard_sample", 0),
            "attributes": message.attr_fields,
            "attribute_separator": message.attr_delimiter,
            "field_separator": message.field_delimiter,
        }
    )
