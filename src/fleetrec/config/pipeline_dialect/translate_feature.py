"""From ``feature_config`` to features and their tables."""

import math
from collections.abc import Callable
from pathlib import Path

from fleetrec.config.features import BucketOptions, FeatureKind, FeatureOptions
from fleetrec.config.groups import EmbeddedOptions, GroupFeature, InitialRows, SequenceOptions
from fleetrec.config.pipeline_dialect.feature import (
    EmbeddingVariable,
    FeatureConfig,
    Initializer,
)
from fleetrec.core.errors import DataError

MAX_STEPS = 256  # of a sequence that needs a limit and has none
COUNTS = "step_counts:"  # before the name of a sequence
MAX_BUCKETS = 2**63 - 1  # of a table that grows
Note = Callable[[str, str], None]  # a field of the feature, and what is wrong with it


def kind_of(feature: FeatureConfig) -> FeatureKind | None:
    """Return the type of a feature; None if it is not supported."""
    kinds: dict[str, FeatureKind] = {
        "IdFeature": "id",
        "RawFeature": "raw",
        "TagFeature": "tag",
        "ComboFeature": "combo",
        "SequenceFeature": "sequence",
        "LookupFeature": "lookup",
        "ExprFeature": "expr",
    }
    return kinds.get(feature.feature_type)


class FeatureTranslator:
    """One feature; problems are passed to ``note``."""

    def __init__(
        self,
        feature: FeatureConfig,
        *,
        grown: EmbeddingVariable | None,
        note: Note,
        wraps: bool = False,
    ) -> None:
        """``wraps``: ids beyond ``num_buckets`` are taken modulo."""
        self._wraps = wraps
        self._feature = feature
        self._grown = feature.ev_params or grown
        self._note = note

    def options(self) -> tuple[FeatureOptions, ...]:
        """Return how the feature is made of columns, and what else its sequence needs."""
        feature = self._feature
        kind = kind_of(feature)
        if kind is None:
            self._note("feature_type", f"{feature.feature_type} is known, but not supported yet")
            return ()
        self._check(kind)
        main = FeatureOptions(
            name=feature.name,
            kind="number_sequence" if self._is_number_sequence else kind,
            columns=feature.input_names,
            buckets=BucketOptions() if self._is_number_sequence else self._buckets(),
            is_dense=self.is_dense or self._is_number_sequence,
            width=1 + self._max_steps * feature.raw_input_dim
            if self._is_number_sequence
            else feature.raw_input_dim,
            minimum=feature.min_val,
            maximum=feature.max_val,
            precision=None if feature.precision < 0 else feature.precision,
            separator=feature.separator,
            weight_separator=feature.kv_separator or None,
            max_length=self._max_length,
            expression=feature.expression if kind == "expr" else feature.normalizer_fn,
            step_separator=feature.seq_multi_sep or None if kind == "sequence" else None,
            step_width=feature.raw_input_dim,
            join_separator=feature.combo_join_sep or None,
            column_separators=feature.combo_input_seps,
        )
        if not self._counts:
            return (main,)
        update = {
            "name": self._counts,
            "kind": "step_counts",
            "is_dense": True,
            "width": self._max_steps,
            "buckets": BucketOptions(),
        }
        return (main, main.model_copy(update=update))

    @property
    def is_dense(self) -> bool:
        """Return whether the feature is numbers that are not embedded."""
        feature = self._feature
        is_bucketed = bool(feature.boundaries) or self._equal_width is not None
        return (
            feature.feature_type in ("RawFeature", "ExprFeature")
            and not is_bucketed
            and not feature.embedding_dim
        )

    def in_group(self, group: str, *, is_wide: bool) -> GroupFeature | None:
        """Return the options of the feature in a group."""
        feature = self._feature
        if self.is_dense:
            if is_wide:
                self._note("embedding_dim", "a RawFeature in a WIDE group needs it")
                return None
            return GroupFeature(name=feature.name, width=feature.raw_input_dim)
        if is_wide and feature.feature_type == "SequenceFeature":
            self._note("feature_type", f"a SequenceFeature is not for the WIDE group {group!r}")
            return None
        if self._is_number_sequence:
            return GroupFeature(name=feature.name, sequence=self._sequence())
        if not is_wide and not feature.embedding_dim:
            self._note("embedding_dim", f"group {group!r} is DEEP and needs it")
            return None
        num_rows = None if self._is_growing else self._num_rows()
        table = feature.embedding_name or f"{group}.{feature.name}"
        if feature.embedding_name and is_wide:
            table = f"{table}_wide"
        return GroupFeature(
            name=feature.name,
            sequence=self._sequence(),
            embedded=EmbeddedOptions(
                table=table,
                dim=0 if is_wide else feature.embedding_dim,
                num_rows=num_rows,
                combiner=feature.combiner,
                initial=_initial(feature.initializer, feature.embedding_dim, num_rows),
                min_count=self._grown.filter_freq if self._grown and self._is_growing else 0,
            ),
        )

    @property
    def _is_growing(self) -> bool:
        return self._grown is not None and not self._is_numeric

    @property
    def _is_numeric(self) -> bool:
        """Whether values are numbers, in buckets or not, as opposed to ids."""
        feature = self._feature
        if feature.feature_type == "SequenceFeature":
            return feature.sub_feature_type == "RawFeature"
        return feature.feature_type in ("RawFeature", "ExprFeature")

    @property
    def _is_number_sequence(self) -> bool:
        is_bucketed = bool(self._feature.boundaries) or self._equal_width is not None
        is_sequence = self._feature.feature_type == "SequenceFeature"
        return is_sequence and self._is_numeric and not is_bucketed

    @property
    def _counts(self) -> str:
        """Return the name of the feature that counts the ids of each step, if they may differ."""
        feature = self._feature
        is_sequence = feature.feature_type == "SequenceFeature"
        has_counts = is_sequence and feature.seq_multi_sep and not self._is_number_sequence
        return f"{COUNTS}{feature.name}" if has_counts else ""

    @property
    def _has_max_steps(self) -> bool:
        return self._is_number_sequence or bool(self._counts)

    @property
    def _max_length(self) -> int | None:
        if self._has_max_steps:
            return self._max_steps
        is_lookup = self._feature.feature_type == "LookupFeature"
        return self._feature.lookup_max_sel_elem_num if is_lookup else self._feature.max_seq_len

    @property
    def _max_steps(self) -> int:
        feature = self._feature
        length = feature.sequence_length if feature.sequence_length > 1 else MAX_STEPS
        return min(length, feature.max_seq_len or length)

    def _sequence(self) -> SequenceOptions | None:
        feature = self._feature
        if feature.feature_type != "SequenceFeature":
            return None
        combiner = feature.sequence_combiner
        text_cnn = None if combiner is None else combiner.text_cnn
        return SequenceOptions(
            combiner="text_cnn" if text_cnn else "attention" if combiner else None,
            filter_sizes=text_cnn.filter_sizes if text_cnn else (),
            num_filters=text_cnn.num_filters if text_cnn else (),
            counts=self._counts,
            max_steps=self._max_steps if self._has_max_steps else 0,
            step_width=feature.raw_input_dim if self._is_number_sequence else 0,
            dim=feature.embedding_dim if self._is_number_sequence else 0,
        )

    @property
    def _equal_width(self) -> int | None:
        feature = self._feature
        has_range = feature.max_val > feature.min_val
        return feature.num_buckets if feature.num_buckets > 1 and has_range else None

    def _check(self, kind: FeatureKind) -> None:
        feature = self._feature
        counts = {"combo": (2, None), "tag": (1, 2), "lookup": (2, 2), "expr": (1, None)}
        fewest, most = counts.get(kind, (1, 1))
        if len(feature.input_names) < fewest or (most and len(feature.input_names) > most):
            wanted = f"at least {fewest}" if most is None else f"{fewest} to {most}"
            wanted = str(fewest) if most == fewest else wanted
            self._note("input_names", f"expected {wanted}, got {len(feature.input_names)}")
        if list(feature.boundaries) != sorted(set(feature.boundaries)):
            self._note("boundaries", "must grow from one to the next")
        if feature.boundaries and not self._is_numeric:
            self._note("boundaries", "are for numbers: a RawFeature, or such a sub_feature_type")
        if feature.combo_input_seps and len(feature.combo_input_seps) != len(feature.input_names):
            self._note("combo_input_seps", "expected one for each of input_names")
        if feature.feature_type == "ExprFeature" or feature.normalizer_fn:
            self._check_expression()
        if self._is_numeric:
            self._check_raw()
        elif not self._has_rule:
            self._note(
                "feature_type",
                "expected one of hash_bucket_size, vocab_list, vocab_file, num_buckets and "
                "ev_params, which say how values become ids",
            )

    def _check_expression(self) -> None:
        from fleetrec.core.expression import Expression  # loads numpy: not for a supervisor

        feature = self._feature
        field = "expression" if feature.feature_type == "ExprFeature" else "normalizer_fn"
        if not getattr(feature, field):
            self._note(field, "required, but missing")
            return
        if field == "expression" and feature.embedding_dim:
            self._note("embedding_dim", "is not for an ExprFeature, which is a number")
        try:
            expression = Expression(getattr(feature, field))
        except DataError as error:
            self._note(field, str(error))
            return
        known = feature.input_names if field == "expression" else (expression.argument or "x",)
        lost = [name for name in expression.names if name not in known]
        if lost:
            self._note(field, f"{lost[0]!r} is not among {', '.join(known)}")

    def _check_raw(self) -> None:
        feature = self._feature
        if feature.num_buckets > 1 and self._equal_width is None:
            self._note("num_buckets", "of a RawFeature needs max_val above min_val")
        for name in ("hash_bucket_size", "vocab_list", "vocab_file"):
            if getattr(feature, name):
                self._note(name, "is not for a RawFeature; make it an IdFeature")

    @property
    def _has_rule(self) -> bool:
        feature = self._feature
        rules = (feature.hash_bucket_size, feature.vocab_list, feature.vocab_file)
        return any(rules) or feature.num_buckets > 0 or self._is_growing

    def _buckets(self) -> BucketOptions:
        """Return the first rule that is given: hash, list, file, identity."""
        feature = self._feature
        if self._is_numeric:
            has_edges = bool(feature.boundaries)
            equal_width = None if has_edges else self._equal_width
            return BucketOptions(boundaries=feature.boundaries, equal_width=equal_width)
        if self._is_growing:
            is_identity = feature.num_buckets and not feature.hash_bucket_size
            name = "num_buckets" if is_identity else "hash_buckets"
            return BucketOptions.model_validate({name: MAX_BUCKETS})
        if feature.hash_bucket_size:
            return BucketOptions(hash_buckets=feature.hash_bucket_size)
        if feature.vocab_list:
            return BucketOptions(vocabulary=feature.vocab_list)
        if feature.vocab_file:
            return BucketOptions(vocabulary_path=feature.vocab_file)
        return BucketOptions(num_buckets=feature.num_buckets or None, wraps=self._wraps)

    def _num_rows(self) -> int:
        feature = self._feature
        if self._is_numeric:
            per_value = len(feature.boundaries) + 1 if feature.boundaries else 1
            width = feature.raw_input_dim if feature.feature_type == "RawFeature" else 1
            return width * (self._equal_width or per_value)
        if feature.hash_bucket_size or feature.vocab_list:
            return feature.hash_bucket_size or len(feature.vocab_list)
        return self._num_words() if feature.vocab_file else max(1, feature.num_buckets)

    def _num_words(self) -> int:
        try:
            text = Path(self._feature.vocab_file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            self._note("vocab_file", f"cannot be read: {error}")
            return 1
        return max(1, len(text.splitlines()))


def _initial(initializer: Initializer | None, dim: int, num_rows: int | None) -> InitialRows | None:
    if initializer is None:
        return None
    if (normal := initializer.truncated_normal_initializer) is not None:
        return InitialRows(kind="truncated_normal", center=normal.mean, scale=normal.stddev)
    if (normal := initializer.random_normal_initializer) is not None:
        return InitialRows(kind="normal", center=normal.mean, scale=normal.stddev)
    if (constant := initializer.constant_initializer) is not None:
        return InitialRows(kind="constant", center=constant.consts[0])
    if initializer.glorot_normal_initializer is None or num_rows is None:
        return None
    return InitialRows(kind="truncated_normal", scale=math.sqrt(2 / (num_rows + dim)))
