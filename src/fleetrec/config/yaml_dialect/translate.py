"""From the keys of the YAML dialect to options."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from fleetrec.config.job import (
    ClusterOptions,
    CommunicatorOptions,
    DeviceOptions,
    EvaluationOptions,
    OptimizerOptions,
    PhaseOptions,
    RunOptions,
)
from fleetrec.config.rules import InferenceOptions
from fleetrec.config.schedules import ExponentialDecay
from fleetrec.config.yaml_dialect.online import (
    ONLINE_CLASSES,
    ONLINE_KEYS,
    is_online,
    online_options,
    online_problems,
    online_resume,
    online_rules,
)
from fleetrec.config.yaml_dialect.saving import (
    resume_options,
    rule_problems,
    runner_rules,
    warm_start_options,
)
from fleetrec.config.yaml_dialect.schema import (
    CommunicatorKeys,
    OptimizerKeys,
    Phase,
    Runner,
    TopLevel,
)

STAGES = ("instance", "network", "startup", "terminal")


def runner_notices(runner: Runner) -> dict[str, str]:
    """Return what the user of a runner should know, by key."""
    notices = {}
    if _is_infer(runner) and (runner.epochs or 1) > 1:
        notices["epochs"] = "inference makes one pass"
    if runner.communicator.fake_rpc or runner.communicator.rpc_retry_times is not None:
        notices["communicator"] = (
            "FLAGS_communicator_fake_rpc and FLAGS_rpc_retry_times have no effect: requests are "
            "retried until a server answers, and applied once"
        )
    return notices


def phase_problems(phase: Phase) -> dict[str, str]:
    """Return what is wrong with a phase that a runner uses, by key."""
    if phase.gradient_scale_strategy == 2:
        return {"gradient_scale_strategy": "2 (user-defined) is not available; use 0 or 1"}
    return {}


def runner_problems(runner: Runner) -> dict[str, str]:
    """Return what is wrong with a runner that ``mode`` names, by key."""
    problems = {}
    if _is_infer(runner) and runner.init_model_path is None:
        problems["init_model_path"] = "required for inference, but missing"
    if is_online_runner(runner):
        problems |= online_problems(runner) | _not_online_problems(runner)
    elif not _is_infer(runner) and runner.epochs is None:
        problems["epochs"] = "required for training, but missing"
    for stage in STAGES:
        if getattr(runner, f"{stage}_class_path") is not None:
            problems[f"{stage}_class_path"] = "custom stages are not available in this version"
    if runner.trainer_class != "GeneralTrainer":
        problems["trainer_class"] = "only GeneralTrainer is available"
    if runner.load_vars and not (runner.init_model_path or runner.init_pretraining_model_path):
        problems["load_vars"] = "given without init_model_path"
    if not is_online_runner(runner):
        problems |= rule_problems(runner) | _online_keys_problems(runner)
    return {**problems, **_cluster_problems(runner)}


NOT_ONLINE = (
    "epochs",
    "save_checkpoint_path",
    "save_checkpoint_interval",
    "save_checkpoint_base_interval",
    "save_inference_path",
    "save_inference_interval",
    "save_step_path",
    "save_step_interval",
    "eval_dataset",
    "eval_interval",
    "early_stop",
    "keep_best",
    "runner_result_dump_path",
)


def is_online_runner(runner: Runner) -> bool:
    """Return whether a runner trains on data that arrives while it runs."""
    return is_online(runner, runner.runner_class)


def _not_online_problems(runner: Runner) -> dict[str, str]:
    """Return the keys of runners that make epochs."""
    given = [key for key in NOT_ONLINE if key in runner.model_fields_set and getattr(runner, key)]
    problems = {
        key: "is for runners that make epochs; an online runner saves below model_save_path"
        for key in given
    }
    if _is_infer(runner):
        problems["train_data_dir"] = "is for training; an infer runner reads its data set"
    return problems


def _online_keys_problems(runner: Runner) -> dict[str, str]:
    """Return keys of online training that another runner has."""
    given = sorted(ONLINE_KEYS & runner.model_fields_set)
    return dict.fromkeys(given, "given without train_data_dir")


def _cluster_problems(runner: Runner) -> dict[str, str]:
    """Return what several processes cannot do."""
    if _engine(runner) == "single":
        return {}
    problems = {}
    if (
        has_servers(runner)
        and runner.save_step_interval > 0
        and runner.distribute_strategy == "geo"
    ):
        problems["save_step_interval"] = (
            "in geo, workers train local copies of rows; checkpoints within an epoch need another "
            "distribute_strategy"
        )
    keys = runner.communicator
    if keys.pull_ahead and runner.distribute_strategy != "async":
        problems["communicator"] = "pull_ahead is for distribute_strategy: async"
    elif keys.pull_ahead and (keys.send_queue_size > 1 or keys.max_merge_var_num > 1):
        problems["communicator"] = (
            "with pull_ahead at most one step is pending; remove "
            "FLAGS_communicator_send_queue_size and FLAGS_communicator_max_merge_var_num"
        )
    return problems


def optimizer_options(keys: OptimizerKeys) -> OptimizerOptions:
    """Translate the optimizer; with a decay, its rate is multiplied every ``decay_steps``."""
    schedule = None
    if keys.decay_steps is not None and keys.decay_rate is not None:
        schedule = ExponentialDecay(decay_steps=keys.decay_steps, factor=keys.decay_rate)
    return OptimizerOptions(name=keys.optimizer_class, lr=keys.learning_rate, schedule=schedule)


def run_options(
    runner: Runner,
    phases: Sequence[PhaseOptions],
    *,
    top: TopLevel,
    evaluation: EvaluationOptions | None = None,
    settings: Mapping[str, Any],
) -> RunOptions:
    """Translate one runner; ``settings`` is the whole job file."""
    is_infer = _is_infer(runner)
    follows: dict[str, Any]
    if is_online_runner(runner):
        follows = {
            "num_epochs": None,
            "rules": online_rules(runner),
            "resume": online_resume(runner),
            "online": online_options(runner, settings=settings),
        }
    else:
        follows = {
            "num_epochs": 1 if is_infer else runner.epochs or 1,
            "rules": () if is_infer else runner_rules(runner),
            "resume": resume_options(runner),
        }
    return RunOptions(
        name=runner.name,
        kind="infer" if is_infer else "train",
        engine=_engine(runner),
        device=DeviceOptions(
            kind=runner.device,
            gpus=runner.selected_gpus,
            matmul_precision=runner.matmul_precision,
        ),
        cluster=ClusterOptions(
            num_workers=_num_workers(runner),
            num_servers=runner.server_num,
            fleet_mode="collective" if _is_collective(runner) else runner.fleet_mode,
            placement=runner.placement,
            rank_timeout_s=runner.rank_timeout,
            exchange_ahead=runner.exchange_ahead,
            strategy=runner.distribute_strategy,
            geo_push_steps=top.train.strategy.mode.push_num,
            max_restarts=runner.max_restarts,
            communicator=_communicator(runner.communicator),
        ),
        phases=tuple(phases),
        seed=runner.seed,
        checkpoint_base_interval=_base_interval(runner, num_phases=len(phases)),
        inference=_inference(runner),
        warm_start=warm_start_options(runner),
        print_interval=runner.print_interval,
        dump_path=runner.runner_result_dump_path,
        show_costs=top.debug,
        evaluation=evaluation,
        **follows,
    )


def _inference(runner: Runner) -> InferenceOptions:
    return InferenceOptions(
        feeds=runner.save_inference_feed_varnames,
        fetches=runner.save_inference_fetch_varnames,
        rows=runner.save_inference_rows,
        fold_mib=runner.save_inference_fold_tables,
    )


def _communicator(keys: CommunicatorKeys) -> CommunicatorOptions:
    return CommunicatorOptions(
        send_queue_size=keys.send_queue_size,
        max_merge_var_num=keys.max_merge_var_num,
        max_send_grad_num_before_recv=keys.max_send_grad_num_before_recv,
        thread_pool_size=keys.thread_pool_size,
        is_sgd_optimizer=keys.is_sgd_optimizer,
        rpc_deadline_s=keys.rpc_deadline / 1000,
        pull_ahead=keys.pull_ahead,
    )


def _is_infer(runner: Runner) -> bool:
    return runner.runner_class.endswith("infer")


def has_servers(runner: Runner) -> bool:
    """Return whether the workers of a runner have parameter servers."""
    return _engine(runner) != "single" and not _is_collective(runner)


def _engine(runner: Runner) -> Literal["single", "local_cluster", "cluster"]:
    if runner.runner_class.startswith("local_cluster"):
        return "local_cluster"
    if runner.runner_class.startswith("cluster"):
        return "cluster"
    given = {"worker_num", "server_num", "fleet_mode"} & runner.model_fields_set
    if runner.runner_class in ONLINE_CLASSES and given:
        return "local_cluster"
    return "local_cluster" if _has_several_gpus(runner) else "single"


def _has_several_gpus(runner: Runner) -> bool:
    return runner.device == "gpu" and len(runner.selected_gpus) > 1


def _num_workers(runner: Runner) -> int:
    """Return the number of workers: without servers, each GPU has one."""
    if _is_collective(runner) and runner.device == "gpu":
        return len(runner.selected_gpus)
    return runner.worker_num


def _is_collective(runner: Runner) -> bool:
    return runner.fleet_mode == "collective" or _has_several_gpus(runner)


def _base_interval(runner: Runner, *, num_phases: int) -> int:
    """Return how often tables are saved whole.

    With several phases, checkpoints within an epoch replace each other, and one that is replaced
    cannot be the parent of a delta.
    """
    may_replace = num_phases > 1 and runner.save_step_path is not None
    return 1 if may_replace else runner.save_checkpoint_base_interval


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def with_online_path(phase: PhaseOptions, folders: Sequence[str]) -> PhaseOptions:
    """Return a phase whose data set, if it has no path, shows the data that its runner follows.

    The run itself lists the files of every pass; verbs that look at data need a path.
    """
    if phase.dataset.data_path or not folders:
        return phase
    paths = {"data_path": folders[0], "more_paths": tuple(folders[1:])}
    return phase.model_copy(update={"dataset": phase.dataset.model_copy(update=paths)})
