"""The keys of a runner that say when it saves, evaluates and stops, as rules."""

from pathlib import Path

from fleetrec.config.rules import ResumeOptions, Rule, RuleWhen, WarmStartOptions
from fleetrec.config.yaml_dialect.schema import Runner

RUN_FOLDER = "{folder}/checkpoints"
EPOCH_NAME = "{pass}"
BATCH_NAME = "epoch_{pass}_batch_{batch}"
BEST_NAME = "best"
LOWER_IS_BETTER = ("LOSS", "LOGLOSS", "MAE", "RMSE", "BUCKET_ERROR")


def runner_rules(runner: Runner) -> tuple[Rule, ...]:
    """Return what a runner does after epochs, after steps, when stopped and at the end.

    Checkpoints are saved before evaluations that are due at the same time: a failed evaluation does
    not lose the epoch.
    """
    stop_folder = runner.save_step_path or runner.save_checkpoint_path or RUN_FOLDER
    return (
        *_step_rules(runner),
        *_epoch_rules(runner),
        *_evaluation_rules(runner),
        Rule(when="stop", do="checkpoint", path=f"{stop_folder}/{BATCH_NAME}"),
    )


def _step_rules(runner: Runner) -> list[Rule]:
    """Translate the interval within epochs: -1 (the default) and 0 mean off."""
    if runner.save_step_path is None or runner.save_step_interval < 1:
        return []
    path = f"{runner.save_step_path}/{BATCH_NAME}"
    return [Rule(when="pass_steps", every=runner.save_step_interval, do="checkpoint", path=path)]


def _epoch_rules(runner: Runner) -> list[Rule]:
    """Translate intervals of epochs: -1 (the default) means every epoch, 0 only the last."""
    rules: list[Rule] = []
    for do, folder, interval in (
        ("checkpoint", runner.save_checkpoint_path, runner.save_checkpoint_interval),
        ("inference", runner.save_inference_path, runner.save_inference_interval),
    ):
        if folder is None:
            continue
        path = f"{folder}/{EPOCH_NAME}"
        if interval != 0:
            every = abs(interval)
            rules.append(Rule.model_validate(_rule("passes", do, path) | {"every": every}))
        rules.append(Rule.model_validate(_rule("end", do, path)))
    return rules


def _rule(when: RuleWhen, do: str, path: str) -> dict[str, str]:
    return {"when": when, "do": do, "path": path}


def _evaluation_rules(runner: Runner) -> list[Rule]:
    """Evaluate at intervals and at the end; then save the best and check early stopping."""
    if runner.eval_dataset is None:
        return []
    interval = runner.eval_interval
    moments: list[tuple[RuleWhen, int, str]] = [("end", 1, EPOCH_NAME)]
    if interval.steps is None:
        moments.insert(0, ("passes", interval.epochs or 1, EPOCH_NAME))
    else:
        moments.insert(0, ("steps", interval.steps, "step {step}"))
    rules: list[Rule] = []
    for when, every, name in moments:
        rules.append(Rule(when=when, every=every, do="evaluate", name=name))
        if runner.keep_best is not None:
            best = runner.keep_best
            rules.append(
                Rule(
                    when=when,
                    every=every,
                    do="checkpoint",
                    path=f"{best.path or runner.save_checkpoint_path}/{BEST_NAME}",
                    metric=best.metric,
                    minimize=is_minimized(best.metric, best.minimize),
                )
            )
        if runner.early_stop is not None and when != "end":
            stop = runner.early_stop
            rules.append(
                Rule(
                    when=when,
                    every=every,
                    do="early_stop",
                    metric=stop.metric,
                    minimize=is_minimized(stop.metric, stop.minimize),
                    patience=stop.patience,
                )
            )
    return rules


def is_minimized(metric: str, given: bool | None) -> bool:  # noqa: FBT001
    """Return whether lower values of a metric are better, as given or by its name."""
    return metric.startswith(LOWER_IS_BETTER) if given is None else given


def resume_options(runner: Runner) -> ResumeOptions:
    """Return where ``--resume`` looks for checkpoints: wherever the runner saves some."""
    best = runner.keep_best.path if runner.keep_best else None
    given = [runner.save_checkpoint_path, runner.save_step_path, best]
    return ResumeOptions(folders=(*(folder for folder in given if folder), RUN_FOLDER))


def warm_start_options(runner: Runner) -> WarmStartOptions:
    """Return the checkpoint that is loaded before the first step, or for inference."""
    return WarmStartOptions(
        url=runner.init_model_path or runner.init_pretraining_model_path,
        requires_all=runner.init_model_path is not None,
        variables=runner.load_vars,
        frozen=runner.finetuning_aspect_varnames,
    )


def rule_problems(runner: Runner) -> dict[str, str]:
    """Return what is wrong with the keys of saving and evaluation, by key."""
    problems = {}
    for kind in ("feed_varnames", "fetch_varnames", "rows", "fold_tables"):
        key = f"save_inference_{kind}"
        if (
            key in runner.model_fields_set
            and getattr(runner, key)
            and not runner.save_inference_path
        ):
            problems[key] = "given without save_inference_path"
    for key in ("save_checkpoint_path", "save_inference_path", "save_step_path"):
        blocking = _blocking_file(getattr(runner, key))
        if blocking is not None:
            problems[key] = f"cannot be a folder: {blocking} is a file"
    if runner.save_step_interval > 0 and runner.save_step_path is None:
        problems["save_step_interval"] = "given without save_step_path"
    if runner.save_checkpoint_base_interval > 1 and not (
        runner.save_checkpoint_path or runner.save_step_path
    ):
        problems["save_checkpoint_base_interval"] = (
            "given without save_checkpoint_path or save_step_path"
        )
    return problems | _evaluation_problems(runner)


def _evaluation_problems(runner: Runner) -> dict[str, str]:
    problems = {}
    given = runner.model_fields_set
    if runner.eval_dataset is None:
        for key in sorted({"eval_interval", "early_stop", "keep_best"} & given):
            problems[key] = "given without eval_dataset"
    best, stop = runner.keep_best, runner.early_stop
    if best is not None and not (best.path or runner.save_checkpoint_path):
        problems["keep_best"] = "expected a path, or save_checkpoint_path in the same runner"
    if best is not None and stop is not None and best.metric == stop.metric:
        directions = {is_minimized(one.metric, one.minimize) for one in (best, stop)}
        if len(directions) > 1:
            problems["keep_best"] = "minimize is not the same as that of early_stop"
    return problems


def _blocking_file(text: str | None) -> Path | None:
    """Return the file that stands where a folder is to be made, if there is one."""
    if text is None or "://" in text:
        return None
    path = Path(text)
    return next((p for p in (path, *path.parents) if p.is_file()), None)
