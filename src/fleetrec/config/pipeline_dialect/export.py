"""``export_config``: inference models that a training run exports."""

from typing import Literal

from pydantic import Field

from fleetrec.config.pipeline_dialect.message import Message, Opaque, idle
from fleetrec.config.rules import MAX_FOLD_MIB


class ExportConfig(Message):
    """How a model is exported."""

    batch_size: int = idle(default=-1)
    exporter_type: Literal["none", "final", "latest", "best"] = "none"
    best_exporter_metric: str = "auc"
    metric_bigger: bool = True
    enable_early_stop: bool = False
    early_stop_func: str = ""
    early_stop_params: str = ""
    max_check_steps: int = Field(default=10000, gt=0)
    multi_placeholder: bool = idle(default=True)
    exports_to_keep: int = Field(default=1, ge=1)
    multi_value_fields: Opaque | None = idle()
    auto_multi_value: bool = idle(default=False)
    placeholder_named_by_input: bool = idle(default=False)
    filter_inputs: bool = idle(default=True)
    export_features: bool = idle(default=False)
    export_rtp_outputs: bool = idle(default=False)
    asset_files: tuple[str, ...] = ()
    fold_tables: int = Field(default=0, ge=0, le=MAX_FOLD_MIB)  # MiB; not in EasyRec
