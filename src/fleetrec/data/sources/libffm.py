"""The text of libffm: ``label field:index:value field:index:value ...``."""

from fleetrec.config.job import DatasetOptions
from fleetrec.data.parsed import ParsedLines
from fleetrec.data.source import Source
from fleetrec.data.svm import build_svm_parser


class Libffm(ParsedLines, Source, name="libffm"):
    """Every declared field is a feature of weighted ids; its slot has the name of the field."""

    suffixes = (".libffm", ".ffm")

    def __init__(self, options: DatasetOptions) -> None:
        super().__init__(options)
        self._parser = build_svm_parser(options, has_fields=True)
