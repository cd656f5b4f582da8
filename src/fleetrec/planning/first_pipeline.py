"""Write a first pipeline for a table, with a comment behind every choice."""

import dataclasses
import json
import math
import re
from collections.abc import Sequence

from fleetrec.core.errors import ConfigError
from fleetrec.planning.table_profile import ColumnProfile, TableProfile

LABEL_NAMES = (
    "label", "click", "clicked", "is_click", "clk", "target", "y", "ctr", "buy", "is_buy",
    "converted", "conversion", "is_conversion", "purchase", "like", "liked",
)  # fmt: skip
USER_NAME = re.compile(r"^(user|uid|user_?id|member_?id|customer_?id)$", re.I)
MIN_BUCKETS = 100
MAX_BUCKETS = 10_000_000
FREE_SHARE = 5  # buckets per value that was seen, so that few values share one


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSize:
    """How much is trained at once and in all, by the number of samples."""

    batch_size: int
    num_epochs: int
    learning_rate: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DataPaths:
    """The files to train on and to evaluate on, relative to the pipeline."""

    train: str
    evaluate: str
    num_train: int
    how: str


def choose_label(profile: TableProfile, given: str | None) -> ColumnProfile:
    """Return the label: the given column, or the column of 0 and 1 that is called like one."""
    binary = [column for column in profile.columns if column.is_binary]
    if given is not None:
        column = profile.column(given)
        if column is None:
            known = ", ".join(column.name for column in profile.columns)
            raise ConfigError([f"--label {given}: no such column; known: {known}"])
        if not column.is_binary:
            raise ConfigError(
                [f"--label {given}: expected values 0 and 1, got {column.num_unique} values"]
            )
        return column
    named = [column for column in binary if column.name.lower() in LABEL_NAMES]
    if len(named) == 1:
        return named[0]
    if len(binary) == 1:
        return binary[0]
    found = ", ".join(column.name for column in named or binary) or "none"
    raise ConfigError(
        [f"label: which column is it? Give it by --label. Columns with values 0 and 1: {found}"]
    )


def training_size(num_samples: int) -> TrainingSize:
    """Return batch size, epochs and rate: small data is read several times, in small batches."""
    if num_samples < 20_000:
        return TrainingSize(batch_size=64, num_epochs=3, learning_rate=0.002)
    if num_samples < 200_000:
        return TrainingSize(batch_size=256, num_epochs=2, learning_rate=0.002)
    if num_samples < 2_000_000:
        return TrainingSize(batch_size=1024, num_epochs=1, learning_rate=0.001)
    return TrainingSize(batch_size=4096, num_epochs=1, learning_rate=0.001)


def pipeline_text(
    profile: TableProfile, label: ColumnProfile, paths: DataPaths, *, model_dir: str, source: str
) -> str:
    """Return the pipeline."""
    features = [c for c in profile.columns if c.kind in ("id", "number", "list") and c != label]
    if not features:
        raise ConfigError([f"{source}: no column but the label can be a feature"])
    size = training_size(paths.num_train)
    steps = max(1, math.ceil(paths.num_train / size.batch_size))
    dim = 16 if max(column.num_unique for column in features) > 1000 else 8
    parts = [
        f"# A first pipeline for {source}, by the first {profile.num_rows:,} rows.",
        f"# Label: {label.name}. {paths.how}",
        f"train_input_path: {_text(paths.train)}",
        f"eval_input_path: {_text(paths.evaluate)}",
        f"model_dir: {_text(model_dir)}",
        "",
        _train_config(size, steps),
        _eval_config(features),
        "export_config {",
        '  exporter_type: "final"  # an inference model, in model_dir/export/final',
        "}",
        _data_config(profile, label, features, size),
        "feature_config {",
        *(_feature(column, dim=dim, is_whole=profile.is_whole) for column in features),
        "}",
        _model_config(features),
    ]
    unused = [column for column in profile.columns if column not in (*features, label)]
    if unused:
        parts.append("# Columns that are not used:")
        parts += [f"#   {column.name}: {column.reason}" for column in unused]
    return "\n".join(parts) + "\n"


def _train_config(size: TrainingSize, steps: int) -> str:
    return f"""train_config {{
  optimizer_config {{
    adam_optimizer {{
      learning_rate {{ constant_learning_rate {{ learning_rate: {size.learning_rate} }} }}
    }}
  }}
  save_checkpoints_steps: {steps}  # about an epoch; every checkpoint is evaluated
  log_step_count_steps: {max(1, min(100, steps // 4))}
  keep_checkpoint_max: 3
}}"""


def _eval_config(features: Sequence[ColumnProfile]) -> str:
    users = [c.name for c in features if c.kind == "id" and USER_NAME.match(c.name)]
    gauc = [f"  metrics_set {{ gauc {{ uid_field: {_text(users[0])} }} }}"] if users else []
    return "\n".join(["eval_config {", "  metrics_set { auc {} }", *gauc, "}"])


def _data_config(
    profile: TableProfile,
    label: ColumnProfile,
    features: Sequence[ColumnProfile],
    size: TrainingSize,
) -> str:
    lines = ["data_config {"]
    if profile.format.format == "csv":
        lines += [
            "  input_type: CSVInput",
            f"  separator: {_text(profile.format.separator)}",
            f"  with_header: {str(profile.format.has_header).lower()}",
        ]
    else:
        lines.append("  input_type: ParquetInput")
    lines += [
        f"  batch_size: {size.batch_size}",
        f"  num_epochs: {size.num_epochs}",
        "  shuffle: true",
        f"  label_fields: {_text(label.name)}",
    ]
    # Without a header every column has to be named, in the order of the file.
    is_needed = {label.name, *(column.name for column in features)}
    needs_all = profile.format.format == "csv" and not profile.format.has_header
    for column in profile.columns:
        if column.name in is_needed or needs_all:
            lines.append(f"  input_fields {{ {_input_field(column, is_label=column == label)} }}")
    return "\n".join([*lines, "}"])


def _input_field(column: ColumnProfile, *, is_label: bool) -> str:
    words = [f"input_name: {_text(column.name)}"]
    if is_label:
        return " ".join([*words, "input_type: INT32"])
    if column.kind == "number":
        words += ["input_type: DOUBLE"]
        if column.missing_share > 0:
            words += [f"default_val: {_text(f'{column.median:g}')}"]
    elif column.kind == "id" and not column.is_text:
        words += ["input_type: INT64"]
    else:
        words += ["input_type: STRING"]
    return " ".join(words)


def _feature(column: ColumnProfile, *, dim: int, is_whole: bool) -> str:
    words = [f"input_names: {_text(column.name)}"]
    comment = column.reason
    if column.kind == "number":
        bounds = ", ".join(f"{bound:g}" for bound in column.quantiles)
        words += [f"feature_type: RawFeature boundaries: [{bounds}]"]
        comment = f"{comment}; buckets of about equal size"
    else:
        buckets = _num_buckets(column.num_unique, is_whole=is_whole)
        kind = "TagFeature" if column.kind == "list" else "IdFeature"
        words += [f"feature_type: {kind}", f"hash_bucket_size: {buckets}"]
        if column.list_separator:
            words += [f"separator: {_text(column.list_separator)}"]
        comment = f"{comment}; {column.num_unique:,} values seen"
    if column.missing_share > 0:
        comment = f"{comment}; {column.missing_share:.1%} missing"
    return f"  # {comment}\n  features {{ {' '.join(words)} embedding_dim: {dim} }}"


def _num_buckets(num_unique: int, *, is_whole: bool) -> int:
    """Return a round number of buckets, with room for values that were not seen."""
    wanted = num_unique * FREE_SHARE * (1 if is_whole else FREE_SHARE)
    size = MIN_BUCKETS
    while size < min(wanted, MAX_BUCKETS):
        size *= 10 if size * 5 < wanted else 5
    return min(size, MAX_BUCKETS)


def _model_config(features: Sequence[ColumnProfile]) -> str:
    names = ", ".join(_text(column.name) for column in features)
    return f"""model_config {{
  model_class: "DeepFM"  # others: docs/easyrec.md
  feature_groups {{ group_name: "wide" feature_names: [{names}] wide_deep: WIDE }}
  feature_groups {{ group_name: "deep" feature_names: [{names}] wide_deep: DEEP }}
  deepfm {{
    dnn {{ hidden_units: [128, 64] }}
    final_dnn {{ hidden_units: [64] }}
  }}
  embedding_regularization: 1e-6
}}"""


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)
