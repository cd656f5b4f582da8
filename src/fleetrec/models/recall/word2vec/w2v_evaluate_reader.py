"""Lines of analogies: four words, the first is to the second as the third is to the fourth."""

import gzip
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from fleetrec.models.recall.word2vec.w2v_reader import dataset_setting
from fleetrec.reader import ReaderBase, Sample

QUESTION = 4


class Reader(ReaderBase):
    """Makes one batch of a file: a sample for every word, which carry the questions.

    Questions with a word that has no id are passed over. A file without any other has one question
    about a word and itself, which does not count.
    """

    def init(self) -> None:
        """Read the ids of the words."""
        path = dataset_setting(self, "word_id_dict_path")
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        pairs = (line.rsplit(maxsplit=1) for line in lines)
        self.ids = {word: int(number) for word, number in pairs}
        self.places = {number: place for place, number in enumerate(sorted(self.ids.values()))}

    def generate_batch_from_trainfiles(
        self, files: Sequence[str]
    ) -> Callable[[], Iterator[list[Sample]]]:
        """Yield one batch per file."""

        def batches() -> Iterator[list[Sample]]:
            for file in files:
                questions = list(self._questions(Path(file))) or [[0] * QUESTION]
                words = sorted(self.places)
                yield [
                    {
                        "input_word": word,
                        "true_label": word,
                        "neg_label": [word],
                        "analogies": [x for q in questions[place :: len(words)] for x in q],
                    }
                    for place, word in enumerate(words)
                ]

        return batches

    def _questions(self, path: Path) -> Iterator[list[int]]:
        """Yield the places of the words of every question."""
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for line in content.decode("utf-8").splitlines():
            words = line.split()
            if len(words) == QUESTION and all(word in self.ids for word in words):
                yield [self.places[self.ids[word]] for word in words]
