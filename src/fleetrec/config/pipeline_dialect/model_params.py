"""``model_params``: what the model classes over a backbone have in common."""

from typing import Literal

from pydantic import Field

from fleetrec.config.pipeline_dialect.message import Message, later
from fleetrec.config.pipeline_dialect.model import BayesTaskTower

Similarity = Literal["COSINE", "INNER_PRODUCT", "EUCLID"]


class ModelParams(Message):
    """``model_params``."""

    l2_regularization: float = Field(default=0.0, ge=0)
    outputs: tuple[str, ...] = later(default=())
    task_towers: tuple[BayesTaskTower, ...] = ()
    user_tower_idx_in_output: int = Field(default=0, ge=0)
    item_tower_idx_in_output: int = Field(default=1, ge=0)
    simi_func: Similarity = "COSINE"
    temperature: float = Field(default=1.0, gt=0)
    scale_simi: bool = False
    wide_output_dim: int = Field(default=1, gt=0)
