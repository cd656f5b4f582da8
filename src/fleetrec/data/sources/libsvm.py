"""The text of libsvm, svmlight and libfm: ``label index:value index:value ...``."""

from fleetrec.config.job import DatasetOptions
from fleetrec.data.parsed import ParsedLines
from fleetrec.data.source import Source
from fleetrec.data.svm import build_svm_parser


class Libsvm(ParsedLines, Source, name="libsvm"):
    """Indices are the ids of one feature, values their weights; the label is another feature."""

    suffixes = (".libsvm", ".svm", ".svmlight", ".libfm")

    def __init__(self, options: DatasetOptions) -> None:
        super().__init__(options)
        self._parser = build_svm_parser(options, has_fields=False)
