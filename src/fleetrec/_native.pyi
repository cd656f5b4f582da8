"""The native parts of FleetRec."""

from collections.abc import Sequence
from typing import final

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

def cut_lines(text: Buffer, begin: int, max_lines: int) -> tuple[int, int]:
    """Find where ``max_lines`` lines from ``begin`` on end.

    Returns:
        The offset just past the last newline taken, or the length of the text if it has fewer;
        and the number of newlines taken.

    Raises:
        ValueError: ``begin`` lies behind the end of the text.
    """

class SlotTextError(ValueError):
    """Slot text that does not keep to the grammar; points at the first bad token.

    Attributes:
        segment: Index of the segment.
        line: Line within the segment, from 0.
        column: Where the token starts in its line, in bytes, from 1.
        token: The token, at most 80 characters of it; the slot name if the number of dense values
            is what is wrong. Bytes that are not UTF-8 are replaced.
        reason: What was expected and what came.
    """

    segment: int
    line: int
    column: int
    token: str
    reason: str

@final
class ParsedSlots:
    """The samples of one ``SlotParser.parse`` call. The arrays own their memory."""

    @property
    def num_samples(self) -> int:
        """Lines, empty ones included."""

    @property
    def ids(self) -> npt.NDArray[np.int64]:
        """All ids, feature-major: sparse slot 0 of every sample, then slot 1, and so on."""

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Where lists start and end in ``ids``.

        Sample ``i`` of sparse slot ``s`` owns ``ids[offsets[k]:offsets[k + 1]]`` with
        ``k = s * num_samples + i``.
        """

    @property
    def dense(self) -> list[npt.NDArray[np.float32]]:
        """One array of ``num_samples`` rows per dense slot, as wide as the slot."""

    @property
    def seen(self) -> npt.NDArray[np.int64]:
        """In how many samples each declared slot occurred, sparse slots before dense ones."""

    @property
    def undeclared(self) -> dict[str, int]:
        """Tokens of slots that were not declared, by slot name."""

    @property
    def num_empty(self) -> int:
        """Lines of nothing but white space, each a sample of paddings."""

@final
class SlotParser:
    """Turns slot text into arrays. Threads may share one: it keeps nothing between calls.

    A line is a sample. White space at its ends is stripped, the rest is split at blanks, and a
    token reads ``slot:value``; what follows a second ``:`` is ignored. Sparse values are integers
    of -2^63 .. 2^64-1, kept as their 64 bits; dense values are finite decimal numbers, rounded as
    ``np.float32(float(text))`` does. Slots may come in any order and repeat. A declared slot that
    a line lacks is padded; a dense slot that occurs must have all its values.
    """

    def __init__(
        self, sparse: Sequence[str], dense: Sequence[tuple[str, int]], padding: int = 0
    ) -> None:
        """Declare the slots.

        Args:
            sparse: Names of the slots that hold ids.
            dense: Names and widths of the slots that hold numbers.
            padding: The id, or the number, of a slot that a line lacks.

        Raises:
            ValueError: A name is empty, declared twice or holds ``:``, a blank or a newline, or a
                width is below 1.
        """

    def parse(self, segments: Sequence[Buffer]) -> ParsedSlots:
        """Parse segments of whole lines as one text, without the GIL.

        The last line of a segment may lack its newline. An empty segment has no line.

        Raises:
            SlotTextError: At the first bad token. Within a line, a wrong number of dense values
                comes after all bad tokens.
        """
