"""From parts of ``model_config`` that are the same for all model classes."""

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
