"""Lines of vectors: query, fitting document, others; ``x,x,..<tab>x,x,..<tab>..``."""

from collections.abc import Callable, Iterator

from fleetrec.reader import ReaderBase, Sample


class Reader(ReaderBase):
    """A line has at least a query and a document; what follows are negative documents."""

    def generate_sample(self, line: str) -> Callable[[], Iterator[Sample]]:
        """Yield one sample per line."""

        def samples() -> Iterator[Sample]:
            query, document, *others = (
                [float(x) for x in vector.split(",")] for vector in line.strip().split("\t")
            )
            negatives = {f"doc_neg_{place}": other for place, other in enumerate(others)}
            yield {"query": query, "doc_pos": document, **negatives}

        return samples
