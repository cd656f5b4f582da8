"""From a pipeline to a job."""

import dataclasses
from collections.abc import Iterator, Sequence

from fleetrec.config.document import Location
from fleetrec.config.features import ColumnOptions, ColumnType, FeatureOptions
from fleetrec.config.groups import (
    AttentionOptions,
    GroupFeature,
    GroupOptions,
    MetricOptions,
)
from fleetrec.config.job import (
    BadRowOptions,
    DatasetOptions,
    DenseSlot,
    TextTableOptions,
)
from fleetrec.config.pipeline_dialect.data import InputField
from fleetrec.config.pipeline_dialect.distribution import KEY_VALUE
from fleetrec.config.pipeline_dialect.evaluation import Metric
from fleetrec.config.pipeline_dialect.expand import expand_feature, expand_names
from fleetrec.config.pipeline_dialect.feature import EmbeddingVariable, FeatureConfig
from fleetrec.config.pipeline_dialect.inputs import (
    CSV_INPUTS,
    FORMATS,
    PARQUET_INPUTS,
    RTP_INPUTS,
    criteo_files,
    rtp_options,
    text_table,
)
from fleetrec.config.pipeline_dialect.losses import GROUPED
from fleetrec.config.pipeline_dialect.model import FeatureGroup, SeqAttGroup
from fleetrec.config.pipeline_dialect.pipeline import Pipeline
from fleetrec.config.pipeline_dialect.samplers import sampler_options
from fleetrec.config.pipeline_dialect.streams import stream_input
from fleetrec.config.pipeline_dialect.translate_feature import FeatureTranslator
from fleetrec.config.pipeline_dialect.translate_sequences import attention_options
from fleetrec.config.problems import Problems, hint
from fleetrec.config.samplers import SAMPLED
from fleetrec.core.errors import DataError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Declared:
    """A feature and its location in the file."""

    feature: FeatureConfig
    at: Location


class DataTranslator:
    """Columns, features and groups of a pipeline; what is wrong is noted as problems."""

    def __init__(self, pipeline: Pipeline, problems: Problems) -> None:
        self._pipeline = pipeline
        self._problems = problems
        self.fields = {field.input_name: field for field in self._fields()}
        self._declared = {one.feature.name: one for one in self._features()}

    def groups(self) -> tuple[GroupOptions, ...]:
        """Return the groups of the model, with the tables of their features."""
        return tuple(
            self._group(group, ("model_config", "feature_groups", number))
            for number, group in enumerate(self._pipeline.model.feature_groups)
        )

    def attention_groups(self) -> tuple[AttentionOptions, ...]:
        """Return ``seq_att_groups``."""
        at: Location = ("model_config", "seq_att_groups")
        found = (
            self._attention(message, (*at, number), name=message.group_name, present=())
            for number, message in enumerate(self._pipeline.model.seq_att_groups)
        )
        return tuple(one for one in found if one is not None)

    def _group(self, group: FeatureGroup, at: Location) -> GroupOptions:
        is_wide = group.wide_deep == "WIDE"
        names = expand_names(group.feature_names)
        features = (
            self._in_group(group.group_name, name, (*at, "feature_names"), is_wide=is_wide)
            for name in names
        )
        attention = (
            self._attention(
                message,
                (*at, "sequence_features", number),
                name=message.group_name or f"{group.group_name}_sequences_{number}",
                present=names,
            )
            for number, message in enumerate(group.sequence_features)
        )
        return GroupOptions(
            name=group.group_name,
            is_wide=is_wide,
            features=tuple(one for one in features if one is not None),
            attention=tuple(one for one in attention if one is not None),
            has_negatives=group.negative_sampler,
        )

    def _in_group(
        self, group: str, name: str, at: Location, *, is_wide: bool = False
    ) -> GroupFeature | None:
        """Return a feature in a group; None if there is a problem, which is noted."""
        if name not in self._declared:
            text = f"no feature is called {name!r}{hint(name, self._declared)}"
            self._problems.note(at, text)
            return None
        return self._translator(self._declared[name]).in_group(group, is_wide=is_wide)

    def _attention(
        self, message: SeqAttGroup, at: Location, *, name: str, present: Sequence[str]
    ) -> AttentionOptions | None:
        return attention_options(
            message,
            name=name,
            present=present,
            feature_in=lambda group, feature: self._in_group(group, feature, (*at, "seq_att_map")),
            note=lambda field, text: self._problems.note((*at, field), text),
        )

    def _used(self) -> list[str]:
        """Return the features of all groups, and of attention, once each."""
        model = self._pipeline.model
        names: list[str] = []
        messages = list(model.seq_att_groups)
        for group in model.feature_groups:
            names += expand_names(group.feature_names)
            messages += group.sequence_features
        for one in (one for message in messages for one in message.seq_att_map):
            names += (*one.key, *one.hist_seq, *one.aux_hist_seq)
        return list(dict.fromkeys(names))

    def features(self, grouped: Sequence[str], *, session: str = "") -> tuple[FeatureOptions, ...]:
        """Return the features of groups, labels, weights, and columns that samples share.

        ``grouped`` are the features that losses and metrics compare samples within. ``session`` is
        a label field that is no label.
        """
        used = self._used()
        found: list[FeatureOptions] = []
        for name in used:
            if name not in self._declared:
                continue
            declared = self._declared[name]
            for column in declared.feature.input_names:
                self._check_column(column, (*declared.at, "input_names"))
            for options in self._translator(declared).options():
                self._check_precision(options, declared.at)
                found.append(options)
        for number, label in enumerate(self._pipeline.data_config.label_fields):
            at: Location = ("data_config", "label_fields", number)
            self._check_column(label, at)
            if label in used and label != session:
                self._problems.note(
                    at, "is also a feature of the model, which would leak the label"
                )
            if label != session:
                found.append(self._label(label, number))
        found += self._extra_labels()
        weight = self._pipeline.data_config.sample_weight
        if weight:
            self._check_column(weight, ("data_config", "sample_weight"))
            name = weight_name(weight)
            found.append(FeatureOptions(name=name, kind="raw", is_dense=True, columns=(weight,)))
        found += self._sampler_columns()
        by = dict.fromkeys(filter(None, grouped))
        found += [FeatureOptions(name=name, columns=(name.removeprefix(GROUPED),)) for name in by]
        return tuple(found)

    def label_names(self) -> tuple[str, ...]:
        """Return the labels: columns, and those that are computed."""
        data = self._pipeline.data_config
        return (*data.label_fields, *(one.label_name for one in data.extra_label_func))

    def _extra_labels(self) -> list[FeatureOptions]:
        """Return labels that are computed from columns, after checking how."""
        from fleetrec.core.expression import Expression  # loads numpy: not for a supervisor

        found = []
        for number, one in enumerate(self._pipeline.data_config.extra_label_func):
            at: Location = ("data_config", "extra_label_func", number, "label_func")
            try:
                expression = Expression(one.label_func)
            except DataError as error:
                self._problems.note(at, str(error))
                continue
            for column in expression.names:
                self._check_column(column, at)
            found.append(
                FeatureOptions(
                    name=one.label_name,
                    kind="expr",
                    is_dense=True,
                    columns=expression.names or (one.label_name,),
                    expression=one.label_func,
                )
            )
        return found

    def check_functions(self) -> None:
        """Note functions of users that cannot be used: they change labels, from a file."""
        labels = self._pipeline.data_config.label_fields
        for number, field in enumerate(self._pipeline.data_config.input_fields):
            at: Location = ("data_config", "input_fields", number, "user_define_fn")
            if not field.user_define_fn:
                continue
            if not field.user_define_fn_path:
                text = "needs user_define_fn_path, the Python file of the function"
                self._problems.note(at, text)
            elif field.input_name not in labels:
                self._problems.note(at, f"is for labels, but {field.input_name!r} is none")

    def _sampler_columns(self) -> list[FeatureOptions]:
        """Return the ids of items and users as features for the sampler, after checking them."""
        sampler = self._pipeline.data_config.sampler
        if sampler is None:
            return []
        field, message = sampler
        at: Location = ("data_config", field)
        columns = {"item_id_field": message.item_id_field}
        if getattr(message, "user_id_field", ""):
            columns["user_id_field"] = getattr(message, "user_id_field", "")
        for name, column in columns.items():
            self._check_column(column, (*at, name))
        for number, column in enumerate(message.attr_fields):
            self._check_column(column, (*at, "attr_fields", number))
        return [FeatureOptions(name=f"{SAMPLED}{c}", columns=(c,)) for c in columns.values()]

    def _label(self, name: str, number: int) -> FeatureOptions:
        """Return a label; it may be several numbers."""
        data = self._pipeline.data_config
        dims, marks = data.label_dim, data.label_sep
        return FeatureOptions(
            name=name,
            kind="raw",
            is_dense=True,
            columns=(name,),
            width=dims[number] if number < len(dims) else 1,
            separator=(marks[number] if number < len(marks) else "") or "|",
        )

    def metrics(self, metrics: Sequence[Metric], at: Location) -> tuple[MetricOptions, ...]:
        """Return metrics, after checking that the columns they name exist."""
        for number, metric in enumerate(metrics):
            for column in filter(None, (one.feature for one in metric_options([metric]))):
                self._check_column(column.removeprefix(GROUPED), (*at, number))
        return metric_options(metrics)

    def dataset(
        self, name: str, path: str, features: Sequence[FeatureOptions], *, is_training: bool
    ) -> DatasetOptions:
        """Return a data set of files that have the declared columns."""
        data = self._pipeline.data_config
        is_csv = data.input_type in (*CSV_INPUTS, *RTP_INPUTS)
        stream = stream_input(self._pipeline, "train" if is_training else "eval")
        paths = [part.strip() for part in path.split(",") if part.strip()]
        if stream is not None:
            paths = [str(stream.url)]
        weight = data.sample_weight
        return DatasetOptions(
            name=name,
            data_path=paths[0],
            more_paths=tuple(paths[1:]),
            batch_size=data.batch_size,
            sparse=tuple(feature.name for feature in features if not feature.is_dense),
            dense=tuple(
                DenseSlot(name=feature.name, shape=(feature.width,))
                for feature in features
                if feature.is_dense
            ),
            shuffle_files=is_training and data.shuffle and stream is None,
            shuffle_rows=data.shuffle_buffer_size if is_training and data.shuffle else 0,
            format=FORMATS[data.input_type],
            text_table=text_table(self._pipeline, self.fields) if is_csv else TextTableOptions(),
            rtp=rtp_options(self._pipeline, self._problems),
            criteo=criteo_files(self._pipeline, "train" if is_training else "eval"),
            rows_per_record=data.n_data_batch_tfrecord
            if data.input_type == "BatchTFRecordInput"
            else None,
            columns=tuple(_column(field) for field in self.fields.values()),
            features=tuple(features),
            bad_rows=BadRowOptions(policy="skip" if data.ignore_error else "raise"),
            sample_weight=weight_name(weight) if weight else None,
            sampler=None
            if data.sampler is None
            else sampler_options(*data.sampler, is_training=is_training),
            stream_options=() if stream is None else stream.client,
        )

    def _fields(self) -> Iterator[InputField]:
        data = self._pipeline.data_config
        seen: set[str] = set()
        for number, field in enumerate(data.input_fields):
            names: tuple[str, ...] = (field.input_name,)
            if data.auto_expand_input_fields:
                names = expand_names(names)
            for name in names:
                if name in seen:
                    at: Location = ("data_config", "input_fields", number, "input_name")
                    self._problems.note(at, f"two columns are called {name!r}")
                seen.add(name)
                yield field.model_copy(update={"input_name": name})

    def _features(self) -> Iterator[Declared]:
        pipeline = self._pipeline
        places: list[tuple[FeatureConfig, Location]] = [
            *((one, ("feature_configs", i)) for i, one in enumerate(pipeline.feature_configs)),
            *(
                (one, ("feature_config", "features", i))
                for i, one in enumerate(pipeline.feature_config.features)
            ),
        ]
        seen: set[str] = set()
        for feature, at in places:
            expand = pipeline.data_config.auto_expand_input_fields
            for one in expand_feature(feature, auto_expand=expand):
                if one.name in seen:
                    self._problems.note(at, f"two features are called {one.name!r}")
                seen.add(one.name)
                yield Declared(feature=one, at=at)

    def _translator(self, declared: Declared) -> FeatureTranslator:
        def note(field: str, text: str) -> None:
            self._problems.note((*declared.at, field), f"feature {declared.feature.name}: {text}")

        grown = self._pipeline.model.ev_params
        if grown is None and self._pipeline.train_config.train_distribute in KEY_VALUE:
            grown = EmbeddingVariable()
        return FeatureTranslator(
            declared.feature,
            grown=grown,
            note=note,
            wraps=self._pipeline.data_config.input_type in PARQUET_INPUTS,
        )

    def _check_precision(self, options: FeatureOptions, at: Location) -> None:
        """Refuse ids of floats without ``precision``: equal floats may be written differently."""
        first = options.columns[0]
        is_float = first in self.fields and self.fields[first].input_type in ("FLOAT", "DOUBLE")
        is_of_numbers = options.is_dense or options.kind == "raw" or options.buckets.boundaries
        if is_float and not is_of_numbers and options.precision is None:
            text = f"feature {options.name}: ids of {self.fields[first].input_type} need precision"
            self._problems.note((*at, "input_names"), text)

    def _check_column(self, name: str, at: Location) -> None:
        if name not in self.fields:
            text = f"no column is called {name!r} in data_config.input_fields"
            self._problems.note(at, f"{text}{hint(name, self.fields)}")


def metric_options(metrics: Sequence[Metric]) -> tuple[MetricOptions, ...]:
    """Return metrics; those within users name the feature that holds them."""
    found = []
    for metric in metrics:
        for name in sorted(metric.model_fields_set):
            message = getattr(metric, name)
            column = getattr(message, "uid_field", getattr(message, "session_id_field", ""))
            values = {
                "name": name,
                "feature": f"{GROUPED}{column}" if column else "",
                "reduction": getattr(message, "reduction", "mean"),
                "topk": getattr(message, "topk", 5),
            }
            found.append(MetricOptions.model_validate(values))
    return tuple(found)


def weight_name(column: str) -> str:
    """Return the name of the feature with the sample weight."""
    return f"weight:{column}"


def _column(field: InputField) -> ColumnOptions:
    kinds: dict[str, tuple[ColumnType, str]] = {
        "STRING": ("text", ""),
        "INT32": ("integer", "0"),
        "INT64": ("integer", "0"),
        "FLOAT": ("number", "0"),
        "DOUBLE": ("number", "0"),
        "BOOL": ("boolean", "0"),
    }
    kind, default = kinds[field.input_type]
    if field.default_val is not None:
        default = field.default_val
    return ColumnOptions(
        name=field.input_name,
        type=kind,
        default=default,
        function=field.user_define_fn if field.user_define_fn_path else "",
        function_path=field.user_define_fn_path,
    )
