"""Checks between fields of a pipeline."""

import time

from fleetrec.config.document import Location
from fleetrec.config.pipeline_dialect.increments import check_increments
from fleetrec.config.pipeline_dialect.inputs import FORMATS, PARQUET_INPUTS, input_path
from fleetrec.config.pipeline_dialect.pipeline import Pipeline
from fleetrec.config.pipeline_dialect.saving import deadline_seconds
from fleetrec.config.pipeline_dialect.streams import (
    check_streams,
    stream_input,
    stream_notices,
)
from fleetrec.config.problems import Problems

MISSING = "required, but missing"


def check_data(pipeline: Pipeline, problems: Problems, *, is_training: bool) -> None:
    """Note what is wrong with files, columns and labels."""
    data = pipeline.data_config
    check_streams(pipeline, problems)
    problems.check()
    if data.input_type not in FORMATS:
        services = {"Odps": "MaxCompute", "DataHub": "DataHub", "Hive": "Hive"}
        service = next((s for name, s in services.items() if name in data.input_type), None)
        why = f"reads from {service}, which is not supported" if service else "is not supported"
        text = f"{data.input_type} {why}; write the data to files and use one of"
        problems.note(("data_config", "input_type"), f"{text} {', '.join(FORMATS)}")
    if data.data_compression_type not in ("", "GZIP"):
        text = f"expected GZIP or nothing, got {data.data_compression_type!r}"
        problems.note(("data_config", "data_compression_type"), text)
    for part in ("train", "eval"):
        path, at = input_path(pipeline, part)
        is_needed = (part == "train") == is_training
        if not path.strip(", ") and is_needed:
            problems.note(at, MISSING)
        elif at[0] == f"parquet_{part}_input" and data.input_type not in PARQUET_INPUTS:
            problems.note(at, f"is for Parquet, but input_type is {data.input_type}")
    for name in ("label_fields", "input_fields"):
        if not getattr(data, name):
            problems.note(("data_config", name), MISSING)


def check_training(pipeline: Pipeline, problems: Problems) -> None:
    """Note what is wrong with the loss, with optimizers, and with when to save and to stop."""
    train = pipeline.train_config
    if not train.optimizer_config:
        problems.note(("train_config", "optimizer_config"), MISSING)
    is_endless = stream_input(pipeline, "train") is not None
    if not train.num_steps and not pipeline.data_config.num_epochs and not is_endless:
        text = "expected num_steps here or data_config.num_epochs above 0; else it never ends"
        problems.note(("train_config", "num_steps"), text)
    if train.save_checkpoints_steps and train.save_checkpoints_secs:
        text = "excludes save_checkpoints_steps; remove one of them"
        problems.note(("train_config", "save_checkpoints_secs"), text)
    if train.fine_tune_ckpt_var_map and not train.fine_tune_checkpoint:
        text = "given without fine_tune_checkpoint"
        problems.note(("train_config", "fine_tune_ckpt_var_map"), text)
    check_increments(train.incr_save_config, problems)
    evaluated = (
        pipeline.eval_input_path,
        pipeline.kafka_eval_input,
        pipeline.parquet_eval_input,
        pipeline.binary_eval_input,
    )
    _check_end(pipeline, problems, has_evaluation=any(evaluated))
    if pipeline.export_config.exporter_type == "best" and not any(evaluated):
        text = "best needs evaluation data; give eval_input_path"
        problems.note(("export_config", "exporter_type"), text)
    for number, optimizer in enumerate(train.optimizer_config[1:], start=1):
        if optimizer.embedding_learning_rate_multiplier is not None:
            at = ("train_config", "optimizer_config", number, "embedding_learning_rate_multiplier")
            problems.note(at, "is read in the first optimizer_config only; move it there")


def _past_deadline(pipeline: Pipeline, problems: Problems) -> list[str]:
    try:
        deadline = deadline_seconds(pipeline.train_config.dead_line)
    except ValueError:
        return []  # a problem, which is noted
    if deadline is None or deadline > time.time():
        return []
    text = f"{pipeline.train_config.dead_line} has passed: training ends after its first steps"
    return [problems.spell(("train_config", "dead_line"), text)]


def _check_end(pipeline: Pipeline, problems: Problems, *, has_evaluation: bool) -> None:
    """Note what is wrong with ends before the last step."""
    try:
        deadline_seconds(pipeline.train_config.dead_line)
    except ValueError:
        text = "expected YYYYMMDD HH:MM:SS, or 10 digits: seconds since 1970"
        got = repr(pipeline.train_config.dead_line)
        problems.note(("train_config", "dead_line"), f"{text}; got {got}")
    options = pipeline.export_config
    if not options.enable_early_stop:
        return
    if not has_evaluation:
        text = "needs evaluation data; give eval_input_path"
        problems.note(("export_config", "enable_early_stop"), text)
    if pipeline.train_config.save_checkpoints_secs and not options.early_stop_func:
        text = "counts steps, so that it needs save_checkpoints_steps, not save_checkpoints_secs"
        problems.note(("export_config", "max_check_steps"), text)


def training_notices(pipeline: Pipeline, problems: Problems) -> list[str]:
    """Return notices about fields that work differently from what a user may expect."""
    notices = stream_notices(pipeline, problems)
    if pipeline.data_config.chief_redundant:
        text = "has no effect: the chief trains on its own share of the data, as the others do"
        notices.append(problems.spell(("data_config", "chief_redundant"), text))
    if pipeline.train_config.dead_line:
        notices += _past_deadline(pipeline, problems)
    if "exporter_type" not in pipeline.export_config.model_fields_set:
        text = (
            'nothing is exported, unlike in EasyRec; set exporter_type: "final", or "none" to '
            "confirm"
        )
        notices.append(problems.spell(("export_config",), text))
    for number, optimizer in enumerate(pipeline.train_config.optimizer_config):
        at: Location = ("train_config", "optimizer_config", number)
        for name in ("adam_optimizer", "adamw_optimizer"):
            if getattr(optimizer, name) is not None:
                text = "rows that are not in a batch are not updated, as with lazy_adam_optimizer"
                notices.append(problems.spell((*at, name), text))
    for number, metric in enumerate(pipeline.eval_config.metrics_set):
        if metric.auc is not None and "num_thresholds" in metric.auc.model_fields_set:
            at = ("eval_config", "metrics_set", number, "auc", "num_thresholds")
            notices.append(problems.spell(at, "AUC always uses 65536 thresholds"))
    return notices
