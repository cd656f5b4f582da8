"""Slot text: ``slot:value slot:value ...``, one sample per line."""

import math
from collections.abc import Iterator, Sequence

import torch

from fleetrec._native import SlotParser, SlotTextError
from fleetrec.config.job import DatasetOptions
from fleetrec.core.jagged import KeyedJagged
from fleetrec.data.block import Block, SlotCounts
from fleetrec.data.files import DataFile
from fleetrec.data.source import BadRowError, Part, Piece, Source
from fleetrec.data.text import TextPiece, cut_text, line_of, read_text


class SlotText(Source, name="slot_text"):
    """Parses lines in native code."""

    def __init__(self, options: DatasetOptions) -> None:
        super().__init__(options)
        widths = [(slot.name, math.prod(slot.shape)) for slot in options.dense]
        self._parser = SlotParser(list(options.sparse), widths, options.padding)

    def read(self, part: Part, *, offset: int, row: int) -> Iterator[TextPiece]:
        """Yield whole lines."""
        return read_text(part, offset=offset, row=row)

    def cut(self, file: DataFile, fraction: float) -> int | None:
        """Return the first line behind a fraction of the file."""
        return cut_text(file, fraction)

    def decode(self, pieces: Sequence[Piece]) -> Block:
        """Return the samples, or raise an error that names file, line and token."""
        texts = [piece.text for piece in pieces if isinstance(piece, TextPiece)]
        try:
            parsed = self._parser.parse(texts)
        except SlotTextError as error:
            row = sum(piece.num_rows for piece in pieces[: error.segment]) + error.line
            file, line = line_of(pieces, row)
            raise BadRowError(
                f"{file.path}:{line}: column {error.column}: {error.token!r}: {error.reason}",
                row=row,
            ) from None
        dense = zip(self.options.dense, parsed.dense, strict=True)
        return Block(
            ids=KeyedJagged(
                names=self.options.sparse,
                values_N=torch.from_numpy(parsed.ids),
                offsets=torch.from_numpy(parsed.offsets),
                num_samples=parsed.num_samples,
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
        )
