"""The rules by which rows of data become the inputs of a model, as they are stored with it."""

from fleetrec.config.features import FeatureSetOptions
from fleetrec.config.job import TextTableOptions
from fleetrec.config.options import Options


class InputRules(Options):
    """How columns become features.

    ``text_table`` is how lines of text are cut into columns; None: the data set is no text table.
    """

    features: FeatureSetOptions
    text_table: TextTableOptions | None = None
