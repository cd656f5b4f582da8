"""``export_config``: inference models that a training run exports."""

from typing import Literal

from pydantic import Field

from fleetrec.config.pipeline_dialect.message import Message, Opaque, idle, later
from fleetrec.config.rules import MAX_FOLD_MIB


class ExportConfig(Message):
    """How a model is exported."""

    batch_size: int = idle(default=-1)
    exporter_type: Literal["none", "final", "latest", "best"] = "none"
    best_exporter_metric: str = "auc"
    metric_bigger: bool = True
    enable_early_stop: bool = later(default=False)
    early_stop_func: str = later(default="")
    early_stop_params: str = later(default="")
    max_check_steps: int = later(default=10000)
    multi_placeholder: bool = idle(default=True)
    exports_to_keep: int = Field(default=1, ge=1)
    multi_value_fields: Opaque | None = later()
    auto_multi_value: bool = later(default=False)
    placeholder_named_by_input: bool = later(default=False)
    filter_inputs: bool = later(default=True)
    export_features: bool = later(default=False)
    export_rtp_outputs: bool = later(default=False)
    asset_files: tuple[str, ...] = ()
    fold_tables: int = Field(default=0, ge=0, le=MAX_FOLD_MIB)  # MiB; not in EasyRec
