"""Lines of a user, an item, and whether the user liked it: ``user,item,label``."""

from collections.abc import Callable, Iterator

from fleetrec.reader import ReaderBase, Sample


class Reader(ReaderBase):
    """The layout of MovieLens with sampled negatives."""

    def generate_sample(self, line: str) -> Callable[[], Iterator[Sample]]:
        """Yield one sample per line."""

        def samples() -> Iterator[Sample]:
            user, item, label = (int(value) for value in line.split(","))
            yield {"label": label, "user_input": user, "item_input": item}

        return samples
