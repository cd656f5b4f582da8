"""Lines of three vectors of a user and the video watched next: ``x,..;x,..;x,..;video``."""

from collections.abc import Callable, Iterator

from fleetrec.reader import ReaderBase, Sample


class Reader(ReaderBase):
    """What was watched, what was searched, other features, the label."""

    def generate_sample(self, line: str) -> Callable[[], Iterator[Sample]]:
        """Yield one sample per line."""

        def samples() -> Iterator[Sample]:
            *vectors, label = line.split(";")
            watched, searched, other = ([float(x) for x in v.split(",") if x] for v in vectors)
            yield {
                "label": int(float(label)),
                "watch_vec": watched,
                "search_vec": searched,
                "other_feat": other,
            }

        return samples
