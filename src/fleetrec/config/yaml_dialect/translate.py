"""From the keys of the YAML dialect to options."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from fleetrec.config.features import IdRule
from fleetrec.config.job import (
    BadRowOptions,
    ClusterOptions,
    CommunicatorOptions,
    DatasetOptions,
    DenseSlot,
    DeviceOptions,
    EvaluationOptions,
    Filter,
    PhaseOptions,
    ReaderOptions,
    RunOptions,
    TextTableOptions,
)
from fleetrec.config.options import Options
from fleetrec.config.rules import InferenceOptions
from fleetrec.config.yaml_dialect.locate import locate_data
from fleetrec.config.yaml_dialect.saving import (
    resume_options,
    rule_problems,
    runner_rules,
    warm_start_options,
)
from fleetrec.config.yaml_dialect.schema import (
    CommunicatorKeys,
    Dataset,
    Phase,
    Runner,
    TopLevel,
    comparison,
    dense_shape,
)

STAGES = ("instance", "network", "startup", "runner", "terminal")


def dataset_problems(dataset: Dataset) -> dict[str, str]:
    """Return what is wrong with a data set that a phase uses, by key."""
    problems = _reader_problems(dataset)
    if dataset.max_bad_rows is not None and dataset.bad_rows == "raise":
        problems["max_bad_rows"] = "given without bad_rows: skip"
    if dataset.batch_size is None:
        problems["batch_size"] = "required, but missing"
    names = [*dataset.sparse_slots, *(dense_shape(slot)[0] for slot in dataset.dense_slots)]
    twice = sorted({name for name in names if names.count(name) > 1})
    key = "sparse_slots" if set(twice) <= set(dataset.sparse_slots) else "dense_slots"
    if twice:
        problems[key] = f"slots declared twice: {', '.join(twice)}"
    data_path = locate_data(dataset.data_path)
    is_pattern = any(mark in data_path for mark in "*?[")
    if "://" not in data_path and not is_pattern and not Path(data_path).exists():
        problems["data_path"] = f"no such file or folder: {data_path}"
    return problems | _choice_problems(dataset) | _id_rule_problems(dataset)


def _choice_problems(dataset: Dataset) -> dict[str, str]:
    """Return conflicts between the keys that select samples."""
    problems = {}
    if dataset.type == "InMemoryDataset" and dataset.shuffle_rows:
        problems["shuffle_rows"] = "an InMemoryDataset shuffles all of its samples; leave it out"
    if dataset.type == "InMemoryDataset" and dataset.sample_ratio < 1:
        problems["sample_ratio"] = "an InMemoryDataset is read once; use another type"
    if dataset.pipe_command is not None and dataset.format is not None:
        problems["format"] = "given together with pipe_command, whose output is wire text"
    dense = dict(map(dense_shape, dataset.dense_slots))
    weight = dataset.sample_weight
    if weight is not None and dataset.data_converter is None and dense.get(weight) != (1,):
        problems["sample_weight"] = f"expected a dense slot of width 1, not {weight!r}"
    return problems


def _reader_problems(dataset: Dataset) -> dict[str, str]:
    problems = {}
    if dataset.data_converter is not None:
        if not Path(dataset.data_converter).is_file():
            problems["data_converter"] = f"no such file: {dataset.data_converter}"
        for key in ("format", "pipe_command"):
            if getattr(dataset, key) is not None:
                problems[key] = "given together with data_converter"
    elif dataset.reader_class_name != "Reader":
        problems["reader_class_name"] = "given without data_converter"
    elif not (dataset.sparse_slots or dataset.dense_slots):
        problems["sparse_slots"] = "required, but neither sparse_slots nor dense_slots is there"
    return problems


def _id_rule_problems(dataset: Dataset) -> dict[str, str]:
    problems = {}
    for key in ("vocabularies", "buckets"):
        unknown = sorted(set(getattr(dataset, key)) - set(dataset.sparse_slots))
        if unknown and dataset.data_converter is None:
            problems[key] = f"not among sparse_slots: {', '.join(unknown)}"
    for slot, vocabulary in dataset.vocabularies.items():
        is_local = isinstance(vocabulary, str) and "://" not in vocabulary
        if is_local and not Path(str(vocabulary)).is_file():
            problems["vocabularies"] = f"{slot}: no such file: {vocabulary}"
    return problems


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
    if not _is_infer(runner) and runner.epochs is None:
        problems["epochs"] = "required for training, but missing"
    for stage in STAGES:
        if getattr(runner, f"{stage}_class_path") is not None:
            problems[f"{stage}_class_path"] = "custom stages are not available in this version"
    if runner.trainer_class != "GeneralTrainer":
        problems["trainer_class"] = "only GeneralTrainer is available"
    if runner.load_vars and not (runner.init_model_path or runner.init_pretraining_model_path):
        problems["load_vars"] = "given without init_model_path"
    return {**problems, **rule_problems(runner), **_cluster_problems(runner)}


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


def dataset_options(
    dataset: Dataset, phase: Phase, *, settings: Mapping[str, Any]
) -> DatasetOptions:
    """Combine a data set with the reading options of its phase.

    ``settings`` is the whole job file, for custom readers.
    """
    assert dataset.batch_size is not None
    dense = [dense_shape(slot) for slot in dataset.dense_slots]
    return DatasetOptions(
        name=dataset.name,
        kind=dataset.type,
        data_path=locate_data(dataset.data_path),
        batch_size=dataset.batch_size,
        sparse=dataset.sparse_slots,
        dense=tuple(DenseSlot(name=name, shape=shape) for name, shape in dense),
        padding=dataset.padding,
        thread_num=phase.thread_num,
        shuffle_files=phase.shuffle_filelist,
        shuffle_rows=dataset.shuffle_rows,
        format=_format(dataset),
        text_table=TextTableOptions(**_text_table(dataset)),
        id_rules=_id_rules(dataset),
        pipe_command=dataset.pipe_command,
        reader=_reader(dataset, settings),
        bad_rows=BadRowOptions(
            policy=dataset.bad_rows,
            **({} if dataset.max_bad_rows is None else {"limit": dataset.max_bad_rows}),
        ),
        filters=tuple(
            Filter.model_validate({"feature": feature, "op": op, "value": value})
            for feature, op, value in map(comparison, dataset.filters)
        ),
        sample_ratio=dataset.sample_ratio,
        sample_weight=dataset.sample_weight,
    )


def _format(dataset: Dataset) -> str | None:
    if dataset.data_converter is not None:
        return "user_reader"
    return "pipe" if dataset.pipe_command is not None else dataset.format


def _given(dataset: Dataset, options: type[Options]) -> dict[str, Any]:
    """Return the keys of a data set that are fields of some options and were written."""
    written = {key: getattr(dataset, key) for key in options.model_fields}
    return {key: value for key, value in written.items() if value not in (None, ())}


def _text_table(dataset: Dataset) -> dict[str, Any]:
    given = _given(dataset, TextTableOptions)
    return given | {"quote": ""} if dataset.quote == "none" else given


def _id_rules(dataset: Dataset) -> dict[str, IdRule]:
    rules = {}
    for slot in {*dataset.vocabularies, *dataset.buckets}:
        vocabulary = dataset.vocabularies.get(slot, ())
        is_path = isinstance(vocabulary, str)
        rules[slot] = IdRule(
            vocabulary=() if is_path else tuple(vocabulary),
            vocabulary_path=vocabulary if isinstance(vocabulary, str) else None,
            buckets=dataset.buckets.get(slot),
        )
    return rules


def _reader(dataset: Dataset, settings: Mapping[str, Any]) -> ReaderOptions | None:
    if dataset.data_converter is None:
        return None
    return ReaderOptions(
        path=Path(dataset.data_converter),
        class_name=dataset.reader_class_name,
        settings=settings,
    )


def flat_settings(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job file by dotted keys; entries of a list are called by their name."""
    flat: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, list) and all(isinstance(v, dict) and "name" in v for v in value):
            inner = flat_settings({str(entry["name"]): entry for entry in value})
        elif isinstance(value, dict):
            inner = flat_settings(value)
        else:
            flat[str(key)] = value
            continue
        flat |= {f"{key}.{name}": item for name, item in inner.items()}
    return flat


def run_options(
    runner: Runner,
    phases: Sequence[PhaseOptions],
    *,
    top: TopLevel,
    evaluation: EvaluationOptions | None = None,
) -> RunOptions:
    """Translate one runner."""
    is_infer = _is_infer(runner)
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
        num_epochs=1 if is_infer else runner.epochs or 1,
        seed=runner.seed,
        rules=() if is_infer else runner_rules(runner),
        checkpoint_base_interval=_base_interval(runner, num_phases=len(phases)),
        inference=InferenceOptions(
            feeds=runner.save_inference_feed_varnames,
            fetches=runner.save_inference_fetch_varnames,
        ),
        resume=resume_options(runner),
        warm_start=warm_start_options(runner),
        print_interval=runner.print_interval,
        dump_path=runner.runner_result_dump_path,
        show_costs=top.debug,
        evaluation=evaluation,
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
