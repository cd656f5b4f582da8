"""The fields of a pipeline that say when it saves and evaluates, as rules."""

import datetime
import math

from fleetrec.config.pipeline_dialect.increments import increment_rules
from fleetrec.config.pipeline_dialect.pipeline import Pipeline
from fleetrec.config.pipeline_dialect.streams import stream_input
from fleetrec.config.pipeline_dialect.train import TrainConfig
from fleetrec.config.rules import ResumeOptions, Rule, RuleWhen, WarmStartOptions

CHECKPOINT_PREFIX = "model.ckpt-"
DEFAULT_SAVE_STEPS = 1000
EVAL_RESULT = "eval_result.txt"
END_CHECK_STEPS = 10  # between two looks at the clock and for the stop signal
STOP_SIGNAL = "OSS_STOP_SIGNAL"
EXPORTS = "export"  # the folder of inference models


def training_rules(pipeline: Pipeline) -> tuple[Rule, ...]:
    """Save before the first step, at intervals, at the end and when stopped; evaluate each.

    The first checkpoint is not evaluated, nor one that is saved because the run was stopped.
    """
    train = pipeline.train_config
    every = train.save_checkpoints_secs or train.save_checkpoints_steps or DEFAULT_SAVE_STEPS
    interval: RuleWhen = "steps" if train.save_checkpoints_secs is None else "seconds"
    folder, name = pipeline.model_dir, f"{CHECKPOINT_PREFIX}{{step}}"
    rules = []
    moments: tuple[tuple[RuleWhen, float], ...] = (
        ("begin", 1),
        (interval, every),
        ("end", 1),
        ("stop", 1),
    )
    for when, number in moments:
        rules.append(
            Rule(
                when=when,
                every=number,
                do="checkpoint",
                path=f"{folder}/{name}",
                keep=train.keep_checkpoint_max,
            )
        )
        if when in (interval, "end"):
            path = f"{folder}/{EVAL_RESULT}"
            rules.append(Rule(when=when, every=number, do="evaluate", path=path, name=name))
            rules += _export_rules(pipeline, when, number)
            rules += _early_stop_rules(pipeline, when, number)
    rules += _end_rules(pipeline)
    rules += increment_rules(
        train.incr_save_config,
        model_dir=folder,
        checkpoint=f"{folder}/{name}",
        keep=train.keep_checkpoint_max,
    )
    return tuple(rules)


def _export_rules(pipeline: Pipeline, when: RuleWhen, every: float) -> list[Rule]:
    """Export after an evaluation, if it is the best, or after the last step."""
    options = pipeline.export_config
    kind = options.exporter_type
    if kind == "none" or (kind == "final" and when != "end"):
        return []
    is_best = kind == "best"
    return [
        Rule(
            when=when,
            every=every,
            do="inference",
            path=f"{pipeline.model_dir}/{EXPORTS}/{kind}/{{step}}",
            keep=options.exports_to_keep,
            metric=options.best_exporter_metric if is_best else None,
            minimize=is_best and not options.metric_bigger,
        )
    ]


def _early_stop_rules(pipeline: Pipeline, when: RuleWhen, every: float) -> list[Rule]:
    """End when no evaluation of ``max_check_steps`` is better than the best before."""
    options = pipeline.export_config
    if not options.enable_early_stop or when == "end":
        return []
    return [
        Rule(
            when=when,
            every=every,
            do="early_stop",
            metric=options.best_exporter_metric,
            minimize=not options.metric_bigger,
            patience=max(1, math.ceil(options.max_check_steps / every)),
            function=options.early_stop_func,
            function_parameters=options.early_stop_params,
        )
    ]


def _end_rules(pipeline: Pipeline) -> list[Rule]:
    """End at ``dead_line``, or when the stop signal is there."""
    train = pipeline.train_config
    rules = []
    deadline = deadline_seconds(train.dead_line)
    if deadline is not None:
        rules.append(Rule(when="steps", every=END_CHECK_STEPS, do="end_run", deadline=deadline))
    if train.enable_oss_stop_signal:
        path = f"{pipeline.model_dir}/{STOP_SIGNAL}"
        rules.append(Rule(when="steps", every=END_CHECK_STEPS, do="end_run", path=path))
    return rules


def deadline_seconds(text: str) -> float | None:
    """Return a time of day as seconds since 1970; None for none. Raises ValueError."""
    if not text:
        return None
    if text.isdecimal() and len(text) == 10:
        return float(text)
    return datetime.datetime.strptime(text, "%Y%m%d %H:%M:%S").timestamp()


def resume_options(pipeline: Pipeline) -> ResumeOptions:
    """Return the folder of ``--continue_train``; data and options may have changed.

    Not those of a stream: the run would read it again from its start.
    """
    return ResumeOptions(
        folders=(pipeline.model_dir,),
        prefix=CHECKPOINT_PREFIX,
        if_changed="restart_data" if stream_input(pipeline, "train") is None else "refuse",
        flag="--continue_train",
    )


def warm_start_options(train: TrainConfig) -> WarmStartOptions:
    """Return the checkpoint that fine-tuning starts from."""
    return WarmStartOptions(
        url=train.fine_tune_checkpoint or None,
        requires_all=False,
        newest_prefix=CHECKPOINT_PREFIX,
        renames=train.fine_tune_ckpt_var_map or None,
    )
