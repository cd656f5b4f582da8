"""Lines of two labels and numbers, separated by commas: ``marital,income,x,x,...``."""

from collections.abc import Callable, Iterator

from fleetrec.reader import ReaderBase, Sample


class Reader(ReaderBase):
    """The layout of the Census-Income files; they have 499 numbers; any count is accepted."""

    def generate_sample(self, line: str) -> Callable[[], Iterator[Sample]]:
        """Yield one sample per line."""

        def samples() -> Iterator[Sample]:
            marital, income, *numbers = line.split(",")
            yield {
                "label_income": int(income),
                "label_marital": int(marital),
                "input": [float(number) for number in numbers],
            }

        return samples
