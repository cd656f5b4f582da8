"""Wire text: ``count value ... value`` for every slot in turn, one sample per line.

What programs of ``pipe_command`` print; dense slots come first, then sparse ones.
"""

from fleetrec._native import WireParser
from fleetrec.config.job import DatasetOptions
from fleetrec.data.parsed import ParsedLines, widths_of
from fleetrec.data.source import Source


class WireText(ParsedLines, Source, name="wire_text"):
    """Parses lines in native code."""

    def __init__(self, options: DatasetOptions) -> None:
        super().__init__(options)
        self._parser = WireParser(options.sparse, widths_of(options), options.padding)
