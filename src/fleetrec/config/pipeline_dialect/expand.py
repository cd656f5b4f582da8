"""Names that stand for several."""

import re
from collections.abc import Iterable

from fleetrec.config.pipeline_dialect.feature import FeatureConfig

_RANGE = re.compile(r"([A-Za-z_]+)\[(\d+)-(\d+)\].*")


def expand_name(name: str) -> tuple[str, ...]:
    """Return ``field1`` to ``field21`` for ``field[1-21]``, and other names as they are."""
    match = _RANGE.fullmatch(name)
    if match is None:
        return (name,)
    stem, first, last = match.groups()
    return tuple(f"{stem}{number}" for number in range(int(first), int(last) + 1))


def expand_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return all names, each expanded."""
    return tuple(one for name in names for one in expand_name(name))


def expand_feature(feature: FeatureConfig, *, auto_expand: bool) -> tuple[FeatureConfig, ...]:
    """Return a feature and its copies for ``shared_names``."""
    shared = expand_names(feature.shared_names) if auto_expand else feature.shared_names
    copies = (
        feature.model_copy(update={"feature_name": "", "input_names": (name,), "shared_names": ()})
        for name in shared
    )
    return (feature, *copies)
