"""Lines of a tag and the words of a text: ``tag,word word word``."""

from collections.abc import Callable, Iterator

from fleetrec.reader import ReaderBase, Sample


class Reader(ReaderBase):
    """The layout of the prepared AG News files."""

    def generate_sample(self, line: str) -> Callable[[], Iterator[Sample]]:
        """Yield one sample per line."""

        def samples() -> Iterator[Sample]:
            tag, words = line.split(",")
            yield {"tag": int(tag), "text": [int(word) for word in words.split()]}

        return samples
