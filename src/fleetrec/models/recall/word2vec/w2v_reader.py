"""Lines of words, as ids: pairs of a word and one near it, with negatives."""

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from fleetrec.reader import ReaderBase, Sample

POWER = 0.75  # of the count of a word, when negatives are drawn


class Reader(ReaderBase):
    """Makes a sample of every word and every one in its window, whose size is drawn.

    What is drawn depends on the line only, so that every epoch and every process draws the same.
    """

    def init(self) -> None:
        """Read the counts of the words, whose line is their id."""
        self.window = int(self.setting("hyper_parameters.window_size", 5))
        self.num_negatives = int(self.setting("hyper_parameters.neg_num", 5))
        path = dataset_setting(self, "word_count_dict_path")
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        shares = np.array([float(line.split()[1]) for line in lines]) ** POWER
        self.cumulated = np.cumsum(shares / shares.sum())

    def generate_sample(self, line: str) -> Callable[[], Iterator[Sample]]:
        """Yield the pairs of a line."""

        def samples() -> Iterator[Sample]:
            words = [int(word) for word in line.split()]
            rng = np.random.default_rng(zlib.crc32(line.encode()))
            for place, word in enumerate(words):
                reach = int(rng.integers(1, self.window + 1))
                near = words[max(0, place - reach) : place] + words[place + 1 : place + reach + 1]
                for target in near:
                    yield {
                        "input_word": word,
                        "true_label": target,
                        "neg_label": self._draw(rng).tolist(),
                    }

        return samples

    def _draw(self, rng: np.random.Generator) -> np.ndarray:
        """Draw words by their counts to the power of 0.75, by inversion."""
        found = np.searchsorted(self.cumulated, rng.random(self.num_negatives))
        return np.minimum(found, len(self.cumulated) - 1)


def dataset_setting(reader: ReaderBase, key: str) -> str:
    """Return a key of the first data set that has it."""
    found = [value for name, value in reader.settings.items() if _is_of_dataset(name, key)]
    if not found:
        raise ValueError(f"the data set needs {key}, the path of a file")
    return str(found[0])


def _is_of_dataset(name: str, key: str) -> bool:
    return name.startswith("dataset.") and name.endswith(f".{key}")
