"""Lines of a history with categories, a target with its category, and the label, by semicolons."""

from collections.abc import Callable, Iterator

from fleetrec.reader import ReaderBase, Sample


class Reader(ReaderBase):
    """The layout of the Amazon files: ``items;categories;item;category;label``."""

    def generate_sample(self, line: str) -> Callable[[], Iterator[Sample]]:
        """Yield one sample per line."""

        def samples() -> Iterator[Sample]:
            items, categories, target, target_category, label = line.strip().split(";")
            yield {
                "label": int(label),
                "history": [int(item) for item in items.split()],
                "cate": [int(category) for category in categories.split()],
                "target": int(target),
                "target_cate": int(target_category),
            }

        return samples
