"""From the keys of a data set to options."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fleetrec.config.features import IdRule
from fleetrec.config.job import (
    BadRowOptions,
    DatasetOptions,
    DenseSlot,
    Filter,
    ReaderOptions,
    TextTableOptions,
)
from fleetrec.config.options import Options
from fleetrec.config.yaml_dialect.locate import locate_data
from fleetrec.config.yaml_dialect.schema import Dataset, Phase, comparison, dense_shape


def dataset_problems(dataset: Dataset, *, needs_path: bool, is_here: bool = True) -> dict[str, str]:
    """Return what is wrong with a data set that a phase uses, by key.

    ``is_here``: its files must be on this machine, unless they are at a URL.
    """
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
    if needs_path:
        problems |= _path_problems(dataset, is_here=is_here)
    return problems | _choice_problems(dataset) | _id_rule_problems(dataset)


def _path_problems(dataset: Dataset, *, is_here: bool) -> dict[str, str]:
    if dataset.data_path is None:
        return {"data_path": "required, but missing"}
    if not is_here:
        return {}
    data_path = locate_data(dataset.data_path)
    is_pattern = any(mark in data_path for mark in "*?[")
    if "://" not in data_path and not is_pattern and not Path(data_path).exists():
        return {"data_path": f"no such file or folder: {data_path}"}
    return {}


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
        data_path="" if dataset.data_path is None else locate_data(dataset.data_path),
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
