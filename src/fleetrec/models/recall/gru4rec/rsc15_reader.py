"""Lines of sessions: item ids, separated by blanks."""

from collections.abc import Callable, Iterator

from fleetrec.reader import ReaderBase, Sample


class Reader(ReaderBase):
    """Makes one sample of every item of a session but the first: the items before it, and it."""

    def generate_sample(self, line: str) -> Callable[[], Iterator[Sample]]:
        """Yield the samples of a session."""

        def samples() -> Iterator[Sample]:
            items = [int(item) for item in line.split()]
            for place in range(1, len(items)):
                yield {"dst_wordseq": items[place], "src_wordseq": items[:place]}

        return samples
