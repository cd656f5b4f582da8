"""From the arrays of a native parser to samples."""

import math
from collections.abc import Iterator, Sequence
from typing import Protocol

import torch
from typing_extensions import Buffer

from fleetrec._native import ParsedSlots, SlotTextError
from fleetrec.config.job import DatasetOptions
from fleetrec.core.jagged import KeyedJagged
from fleetrec.data.block import Block, SlotCounts
from fleetrec.data.files import DataFile
from fleetrec.data.source import BadRowError, FileSlice, RowChunk
from fleetrec.data.text import TextChunk, cut_text, line_of, read_text


class LineParser(Protocol):
    """A native parser of text with one sample per line."""

    def parse(self, segments: Sequence[Buffer], *, num_threads: int) -> ParsedSlots:
        """Return the samples or raise SlotTextError."""


class ParsedLines:
    """Base class of sources with a native parser of lines."""

    options: DatasetOptions
    num_threads: int
    _parser: LineParser

    def read(self, file_slice: FileSlice, *, offset: int, row: int) -> Iterator[TextChunk]:
        """Yield whole lines."""
        return read_text(file_slice, offset=offset, row=row)

    def cut(self, file: DataFile, fraction: float) -> int | None:
        """Return the first line after a fraction of the file."""
        return cut_text(file, fraction)

    def decode(self, chunks: Sequence[RowChunk]) -> Block:
        """Return the samples, or raise an error that names file, line and token."""
        texts = [chunk.text for chunk in chunks if isinstance(chunk, TextChunk)]
        try:
            parsed = self._parser.parse(texts, num_threads=self.num_threads)
        except SlotTextError as error:
            row = sum(chunk.num_rows for chunk in chunks[: error.segment]) + error.line
            where = self._name_line(*line_of(chunks, row))
            token = f"{error.token!r}: " if error.token else ""
            raise BadRowError(
                f"{where}: column {error.column}: {token}{error.reason}", row=row
            ) from None
        return to_block(parsed, self.options)

    def _name_line(self, file: DataFile, line: int) -> str:
        return f"{file.path}:{line}"


def to_block(parsed: ParsedSlots, options: DatasetOptions) -> Block:
    """Return the same arrays as samples."""
    dense = zip(options.dense, parsed.dense, strict=True)
    return Block(
        ids=KeyedJagged(
            names=options.sparse,
            values_N=torch.from_numpy(parsed.ids),
            offsets=torch.from_numpy(parsed.offsets),
            num_samples=parsed.num_samples,
            weights_N=None if parsed.weights is None else torch.from_numpy(parsed.weights),
        ),
        dense={
            slot.name: torch.from_numpy(values).reshape(parsed.num_samples, *slot.shape)
            for slot, values in dense
        },
        counts=SlotCounts(
            num_samples=parsed.num_samples,
            seen=parsed.seen,
            undeclared=parsed.undeclared,
            num_empty=parsed.num_empty,
        ),
        padding_positions=parsed.padded,
    )


def widths_of(options: DatasetOptions) -> list[tuple[str, int]]:
    """Return names and widths of the dense features."""
    return [(slot.name, math.prod(slot.shape)) for slot in options.dense]
