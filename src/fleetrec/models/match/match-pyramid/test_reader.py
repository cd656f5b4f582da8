"""Lines of two texts: ``word,word,..<tab>word,word,..``."""

from collections.abc import Callable, Iterator

from fleetrec.reader import ReaderBase, Sample


class Reader(ReaderBase):
    """The layout of the prepared LETOR files, to score each pair."""

    def generate_sample(self, line: str) -> Callable[[], Iterator[Sample]]:
        """Yield one sample per line."""

        def samples() -> Iterator[Sample]:
            left, right = line.split("\t")[:2]  # what follows says where the pair is from
            yield {
                "left": [int(word) for word in left.split(",")],
                "right": [int(word) for word in right.split(",")],
            }

        return samples
