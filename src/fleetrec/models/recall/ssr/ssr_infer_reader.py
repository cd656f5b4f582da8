"""The same sessions with more items to compare with."""

from fleetrec.models.recall.ssr.ssr_reader import Reader as TrainReader


class Reader(TrainReader):
    """Draws 100 items, among which the next one is ranked."""

    num_others = 100
