"""Slot text: ``slot:value slot:value ...``, one sample per line."""

from fleetrec._native import SlotParser
from fleetrec.config.job import DatasetOptions
from fleetrec.data.parsed import ParsedLines, widths_of
from fleetrec.data.source import Source


class SlotText(ParsedLines, Source, name="slot_text"):
    """Parses lines in native code."""

    def __init__(self, options: DatasetOptions) -> None:
        super().__init__(options)
        self._parser = SlotParser(options.sparse, widths_of(options), options.padding)
