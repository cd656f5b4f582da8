"""The click logs of Criteo as they are published: tab separated, without a header."""

from collections.abc import Mapping
from typing import ClassVar

from fleetrec.config.job import DatasetOptions, TextTableOptions
from fleetrec.data.sources.csv import Csv

NUM_INTEGERS = 13
NUM_CATEGORIES = 26


class Criteo(Csv, name="criteo"):
    """Columns ``label``, ``I1`` to ``I13`` and ``C1`` to ``C26``.

    A category is hashed with its column before it (``C1=68fd1e64``), so that all columns may share
    a table. The dense feature ``I`` of width 13 is all integers, untransformed.
    """

    suffixes = ()
    takes_text_table = False  # the format is fixed
    prefixes: ClassVar[Mapping[str, str]] = {
        f"C{i + 1}": f"C{i + 1}=" for i in range(NUM_CATEGORIES)
    }

    def __init__(self, options: DatasetOptions) -> None:
        columns = [
            "label",
            *(f"I{i + 1}" for i in range(NUM_INTEGERS)),
            *(f"C{i + 1}" for i in range(NUM_CATEGORIES)),
        ]
        table = TextTableOptions(
            separator="\t", quote="", list_separator="", columns=tuple(columns)
        )
        super().__init__(options.model_copy(update={"text_table": table}))
