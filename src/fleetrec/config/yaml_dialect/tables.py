"""``table_parameters``: the options of single tables, with the keys of Paddle's accessors."""

import dataclasses
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from fleetrec.config.entries import Entry, ShowClickEntry, read_entry
from fleetrec.config.options import Options
from fleetrec.config.serving import ServingOptions
from fleetrec.config.tables import (
    AdmissionOptions,
    EvictionOptions,
    Finite,
    LongVectorOptions,
    SparseOptimizerOptions,
    TableOverrides,
)
from fleetrec.config.yaml_dialect.section import Int, Section

Bounds = tuple[Finite, Finite]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Range = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Weight = Range


class NaiveKeys(Section):
    """``naive`` of a rule: plain SGD."""

    learning_rate: Rate = 0.05
    initial_range: Range = 1e-4
    weight_bounds: Bounds = (-10, 10)

    def settings(self) -> dict[str, float]:
        """Return the settings of our optimizer."""
        return {}


class AdagradKeys(NaiveKeys):
    """``adagrad`` of a rule."""

    initial_g2sum: Rate = 3.0

    def settings(self) -> dict[str, float]:
        """Return the settings of our optimizer."""
        return {"initial_g2sum": self.initial_g2sum}


class AdamKeys(NaiveKeys):
    """``adam`` of a rule."""

    learning_rate: Rate = 0.001
    beta1_decay_rate: float = Field(default=0.9, ge=0, lt=1)
    beta2_decay_rate: float = Field(default=0.999, ge=0, lt=1)
    ada_epsilon: Rate = 1e-8

    def settings(self) -> dict[str, float]:
        """Return the settings of our optimizer."""
        return {
            "beta1": self.beta1_decay_rate,
            "beta2": self.beta2_decay_rate,
            "eps": self.ada_epsilon,
        }


# The section of each rule, and our optimizer.
RULES = MappingProxyType(
    {
        "SparseNaiveSGDRule": ("naive", "sgd"),
        "SparseAdaGradSGDRule": ("adagrad", "ctr_adagrad"),
        "StdAdaGradSGDRule": ("adagrad", "ctr_std_adagrad"),
        "SparseAdamSGDRule": ("adam", "adam"),
    }
)


class RuleKeys(Section):
    """``embed_sgd_param`` and ``embedx_sgd_param``: an optimizer by its name in Paddle."""

    name: Literal[
        "SparseNaiveSGDRule", "SparseAdaGradSGDRule", "StdAdaGradSGDRule", "SparseAdamSGDRule"
    ]
    naive: NaiveKeys | None = None
    adagrad: AdagradKeys | None = None
    adam: AdamKeys | None = None

    @model_validator(mode="after")
    def _check_section(self) -> Self:
        wanted, _ = RULES[self.name]
        for key in ("naive", "adagrad", "adam"):
            if key != wanted and getattr(self, key) is not None:
                raise ValueError(f"the settings of {self.name} are in {wanted}, not in {key}")
        return self

    def keys(self) -> NaiveKeys:
        """Return the section of the rule."""
        naive, adagrad = self.naive or NaiveKeys(), self.adagrad or AdagradKeys()
        sections = {"naive": naive, "adagrad": adagrad, "adam": self.adam or AdamKeys()}
        return sections[RULES[self.name][0]]

    def optimizer(self) -> SparseOptimizerOptions:
        """Return the optimizer of rows."""
        keys = self.keys()
        return SparseOptimizerOptions.model_validate(
            {
                "class": RULES[self.name][1],
                "learning_rate": keys.learning_rate,
                "settings": keys.settings(),
                "weight_bounds": keys.weight_bounds,
            }
        )


class CtrKeys(Section):
    """``ctr_accessor_param``: scores, and what depends on them."""

    nonclk_coeff: Weight = 0.1
    click_coeff: Weight = 1.0
    base_threshold: Weight = 1.5
    delta_threshold: Weight = 0.25
    delta_keep_days: Int = Field(default=16, ge=0)
    show_click_decay_rate: float = Field(default=0.98, gt=0, le=1)
    delete_threshold: Finite = 0.8
    delete_after_unseen_days: Int = Field(default=30, gt=0)
    ssd_unseenday_threshold: Int | None = None

    def weights(self) -> dict[str, float]:
        """Return the weights of a show without a click, and of a click."""
        return {"show_weight": self.nonclk_coeff, "click_weight": self.click_coeff}


class AccessorKeys(Section):
    """``accessor`` of a table."""

    accessor_class: Literal["SparseAccessor", "CtrCommonAccessor"] | None = None
    fea_dim: Int | None = Field(default=None, gt=0)
    embedx_dim: Int | None = Field(default=None, gt=0)
    embedx_threshold: Finite | None = None
    ctr_accessor_param: CtrKeys | None = None
    embed_sgd_param: RuleKeys | None = None
    embedx_sgd_param: RuleKeys | None = None
    table_accessor_save_param: Any = None

    @model_validator(mode="after")
    def _check_one_optimizer(self) -> Self:
        rules = [rule for rule in (self.embed_sgd_param, self.embedx_sgd_param) if rule is not None]
        if len({(rule.name, rule.keys()) for rule in rules}) > 1:
            raise ValueError(
                "embed_sgd_param and embedx_sgd_param differ, but a row has one optimizer; make "
                "them equal, or leave one of them out"
            )
        return self

    @property
    def rule(self) -> RuleKeys | None:
        """Return the optimizer of rows, if there is one."""
        return self.embedx_sgd_param or self.embed_sgd_param


class TableKeys(Section):
    """An entry of ``table_parameters``."""

    table_class: str | None = None
    shard_num: Int | None = Field(default=None, gt=0)
    fea_dim: Int | None = Field(default=None, gt=0)
    table_accessor_save_param: Any = None
    accessor: AccessorKeys = AccessorKeys()
    entry: Annotated[Any, BeforeValidator(read_entry)] = None
    admission: AdmissionOptions | None = None
    eviction: EvictionOptions | None = None

    @model_validator(mode="after")
    def _check_one_admission(self) -> Self:
        entry: Entry | None = self.entry
        if self.admission is not None and entry is not None and entry.admission is not None:
            raise ValueError("entry and admission both say which ids get a row; give one of them")
        return self


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodedTable:
    """The options of a table, and what its user should know."""

    options: TableOverrides
    notice: str | None


def decode_table(keys: TableKeys) -> DecodedTable:
    """Translate an entry of ``table_parameters``."""
    accessor, ctr = keys.accessor, keys.accessor.ctr_accessor_param
    weights = {} if ctr is None else ctr.weights()
    options = TableOverrides(
        admission=_admission(keys),
        eviction=_eviction(keys),
        optimizer=None if accessor.rule is None else accessor.rule.optimizer(),
        initial_range=None if accessor.rule is None else accessor.rule.keys().initial_range,
        long_vector=LongVectorOptions(threshold=accessor.embedx_threshold, **weights)
        if accessor.embedx_threshold is not None and accessor.embedx_threshold > 0
        else None,
        click_label=keys.entry.click_name if isinstance(keys.entry, ShowClickEntry) else None,
        width=None if accessor.embedx_dim is None else accessor.embedx_dim + 1,
        serving=None
        if ctr is None
        else ServingOptions(
            nonclk_coeff=ctr.nonclk_coeff,
            click_coeff=ctr.click_coeff,
            base_threshold=ctr.base_threshold,
            delta_threshold=ctr.delta_threshold,
            delta_keep_days=ctr.delta_keep_days,
        ),
    )
    ignored = list(_without_counterpart(keys))
    if not ignored:
        return DecodedTable(options=options, notice=None)
    verb = "has" if len(ignored) == 1 else "have"
    return DecodedTable(options=options, notice=f"{', '.join(ignored)} {verb} no effect here")


def _admission(keys: TableKeys) -> AdmissionOptions | None:
    """Return the given rule; without one, that of the accessor."""
    entry: Entry | None = keys.entry
    ctr = keys.accessor.ctr_accessor_param
    if keys.admission is not None:
        return keys.admission
    if entry is not None and entry.admission is not None:
        return entry.admission
    return None if ctr is None else AdmissionOptions(kind="ctr", **ctr.weights())


def _eviction(keys: TableKeys) -> EvictionOptions | None:
    """Return the rules of the accessor, changed by the given ones."""
    ctr = keys.accessor.ctr_accessor_param
    if ctr is None:
        return keys.eviction
    of_accessor = {
        "max_unseen_days": ctr.delete_after_unseen_days,
        "min_score": ctr.delete_threshold,
        "decay": ctr.show_click_decay_rate,
        **ctr.weights(),
    }
    return EvictionOptions.model_validate(of_accessor | _written(keys.eviction))


def _written(options: Options | None) -> dict[str, Any]:
    return {} if options is None else options.model_dump(include=options.model_fields_set)


def _without_counterpart(keys: TableKeys) -> Iterator[str]:
    """Return the keys that say how Paddle stores a table."""
    accessor, ctr = keys.accessor, keys.accessor.ctr_accessor_param
    places: Mapping[str, Any] = {
        "table_class": keys.table_class,
        "shard_num": keys.shard_num,
        "fea_dim": keys.fea_dim or accessor.fea_dim,
        "accessor_class": accessor.accessor_class,
        "table_accessor_save_param": keys.table_accessor_save_param
        or accessor.table_accessor_save_param,
        "ssd_unseenday_threshold": None if ctr is None else ctr.ssd_unseenday_threshold,
    }
    return (key for key, value in places.items() if value is not None)
