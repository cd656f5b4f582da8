"""Files that are piped through a user's program, which prints wire text."""

from collections.abc import Iterator

from fleetrec._native import WireParser
from fleetrec.config.job import DatasetOptions
from fleetrec.core.errors import DataError
from fleetrec.data.files import DataFile
from fleetrec.data.parsed import ParsedLines, widths_of
from fleetrec.data.program import Program
from fleetrec.data.source import FileSlice, Source
from fleetrec.data.text import TextChunk, chunks_of


class Pipe(ParsedLines, Source, name="pipe"):
    """Runs the program once per file; positions are bytes of its output.

    To resume, the program runs again and the first part of its output is skipped.
    """

    def __init__(self, options: DatasetOptions) -> None:
        super().__init__(options)
        if options.pipe_command is None:
            raise DataError(f"data set {options.name}: format pipe needs a pipe_command")
        self._command = options.pipe_command
        self._parser = WireParser(options.sparse, widths_of(options), options.padding)

    def read(self, file_slice: FileSlice, *, offset: int, row: int) -> Iterator[TextChunk]:
        """Yield whole lines of the output."""
        with Program(self._command, file_slice.file) as program:
            buffers = _skipped(program.buffers(), offset, file_slice.file)
            yield from chunks_of(file_slice, buffers, offset=offset, row=row)

    def cut(self, file: DataFile, fraction: float) -> int | None:
        """Return None: the output of a program can only be read from the beginning."""
        del file, fraction
        return None

    def _name_line(self, file: DataFile, line: int) -> str:
        return f"{file.path}: pipe_command {self._command!r}: line {line} of its output"


def _skipped(
    buffers: Iterator[tuple[bytes, int]], num_bytes: int, file: DataFile
) -> Iterator[tuple[bytes, int]]:
    left = num_bytes
    for buffer, num_read in buffers:
        if len(buffer) > left:
            yield buffer[left:], num_read
        left = max(0, left - len(buffer))
    if left:
        raise DataError(
            f"{file.path}: its program printed {num_bytes - left} bytes, {left} fewer than before; "
            "to resume a run, it must print the same output again"
        )
