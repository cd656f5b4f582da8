"""Lines of sessions with the next item: ``item,item,...<tab>item``."""

from collections.abc import Callable, Iterator

from fleetrec.reader import ReaderBase, Sample


class Reader(ReaderBase):
    """The layout of the prepared Diginetica files."""

    def generate_sample(self, line: str) -> Callable[[], Iterator[Sample]]:
        """Yield one sample per line."""

        def samples() -> Iterator[Sample]:
            items, label = line.split("\t")
            yield {"label": int(label), "items": [int(item) for item in items.split(",")]}

        return samples
