"""The features of a data set, whichever dialect declared them."""

from collections.abc import Mapping

from fleetrec.config.features import (
    AnyFeatureOptions,
    DenseOptions,
    FeatureSetOptions,
    IdListOptions,
    IdRule,
)
from fleetrec.config.job import DatasetOptions
from fleetrec.core.errors import DataError


def dataset_features(
    options: DatasetOptions,
    *,
    has_text_cells: bool = False,
    prefixes: Mapping[str, str] | None = None,
) -> FeatureSetOptions:
    """Return how the columns of a data set become features.

    Without declared features every sparse and dense slot is one, made of the column of its name.
    ``has_text_cells``: columns are text in which a cell may hold several values. ``prefixes`` are
    hashed in front of the text of a feature.
    """
    check_id_rules(options)
    return FeatureSetOptions(
        owner=f"data set {options.name}",
        columns=options.columns,
        features=options.features or _slots(options, prefixes or {}, has_text_cells=has_text_cells),
    )


def check_id_rules(options: DatasetOptions) -> None:
    """Raise if a rule for ids names no sparse feature."""
    for name in options.id_rules:
        if name not in options.sparse:
            raise DataError(
                f"data set {options.name}: a rule for ids of {name!r}, which is no sparse feature; "
                f"known: {', '.join(options.sparse)}"
            )


def _slots(
    options: DatasetOptions, prefixes: Mapping[str, str], *, has_text_cells: bool
) -> tuple[AnyFeatureOptions, ...]:
    table = options.text_table
    list_separator = table.list_separator if has_text_cells else None
    sparse = [
        IdListOptions(
            name=name,
            rule=options.id_rules.get(name, IdRule()),
            list_separator=list_separator,
            weight_separator=table.weight_separator if has_text_cells else None,
            prefix=prefixes.get(name, ""),
            padding=options.padding,
        )
        for name in options.sparse
    ]
    dense = [
        DenseOptions(
            name=slot.name,
            shape=slot.shape,
            list_separator=list_separator,
            padding=options.padding,
        )
        for slot in options.dense
    ]
    return (*sparse, *dense)
