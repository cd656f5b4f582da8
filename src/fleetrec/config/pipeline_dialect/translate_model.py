"""From parts of ``model_config`` that are the same for all model classes."""

import re
from collections.abc import Iterable, Mapping

from fleetrec.config.groups import VariationalDropoutOptions
from fleetrec.config.pipeline_dialect.model import VariationalDropout


def variational_options(message: VariationalDropout | None) -> VariationalDropoutOptions | None:
    """Return the learned dropout of features."""
    if message is None:
        return None
    return VariationalDropoutOptions(
        penalty=message.regularization_lambda,
        by_value=message.embedding_wise_variational_dropout,
    )


def meanings(fields: Mapping[str, str], notices: Iterable[str]) -> dict[str, str]:
    """Return what becomes of the fields of a pipeline: notices say which differ from EasyRec."""
    found = dict(fields)
    for notice in notices:
        for word in notice.split(": "):
            path = re.sub(r"\[\d+\]", "", word)
            if path in found or any(name.startswith(f"{path}.") for name in found):
                is_idle = "has no effect" in notice
                found[path] = "ignored" if is_idle else "differs"
    return found
