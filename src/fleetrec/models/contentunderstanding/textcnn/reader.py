"""Lines of padded word ids, the number of words that count, and the class."""

from collections.abc import Callable, Iterator

from fleetrec.reader import ReaderBase, Sample


class Reader(ReaderBase):
    """The layout ``id id .. 0 0 length class``; padding is left out."""

    def generate_sample(self, line: str) -> Callable[[], Iterator[Sample]]:
        """Yield one sample per line."""

        def samples() -> Iterator[Sample]:
            *words, length, label = (int(value) for value in line.split())
            yield {"label": label, "data": words[: max(1, length)]}

        return samples
