"""Make the sample data of models other than click models: small, fixed by a seed, and learnable.

Every data set has a structure that its model can find and that counting cannot: the next item of a
session depends on the last one, texts of a class share words, a word is a pair of two meanings.

usage: python -m tools.make_zoo_data [FOLDER]
"""

import gzip
import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

SEED = 20201118
TARGET = Path(__file__).parents[1] / "src/fleetrec/models"
Rng = np.random.Generator
NUM_ITEMS = 60
MEANINGS = (5, 5)  # a word of word2vec has one of each kind
NUM_WORDS = 4  # that say a meaning


def main() -> None:
    """Write all data sets."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET
    sessions = target / "recall/dataset/sessions"
    write(sessions / "train", [blanks(s) for s in draw_sessions(900, SEED)])
    write(sessions / "test", [blanks(s) for s in draw_sessions(250, SEED + 1)])
    for part, num, seed in (("train", 1500, 0), ("test", 800, 1)):
        write(target / "recall/gnn/data" / part, graph_lines(num, SEED + seed))
    ratings = rating_lines(3600, SEED)
    write(target / "recall/ncf/data/train", ratings[:2800])
    write(target / "recall/ncf/data/test", ratings[2800:])
    vectors = video_lines(700, SEED)
    write(target / "recall/youtube_dnn/data/train", vectors[:500])
    write(target / "recall/youtube_dnn/data/test", vectors[500:])
    write_words(target / "recall/word2vec/data")
    seeds = look_alike_lines(1400, SEED)
    write(target / "recall/look-alike_recall/data/train", seeds[:1000])
    write(target / "recall/look-alike_recall/data/test", seeds[1000:])
    clicks = conversion_lines(2600, SEED)
    write(target / "multitask/esmm/data/train", clicks[:2000])
    write(target / "multitask/esmm/data/test", clicks[2000:])
    documents = document_lines(700, SEED)
    write(target / "match/dssm/data/train", documents[:500])
    write(target / "match/dssm/data/test", documents[500:])
    blocks = block_lines(10, SEED)
    write(target / "match/match-pyramid/data/train", blocks[: 128 * 8])
    write(target / "match/match-pyramid/data/test", blocks[128 * 8 :])
    titles = title_lines(900, SEED)
    write(target / "match/multiview-simnet/data/train", titles[:650])
    write(target / "match/multiview-simnet/data/test", titles[650:])
    tags = list(draw_texts(1000, SEED, num_classes=4))
    lines = [f"{tag},{blanks(words)}" for tag, words in tags]
    write(target / "contentunderstanding/tagspace/data/train", lines[:750])
    write(target / "contentunderstanding/tagspace/data/test", lines[750:])
    padded = [
        blanks([*words, *[0] * (20 - len(words)), len(words), label])
        for label, words in draw_texts(900, SEED + 1, num_classes=2)
    ]
    write(target / "contentunderstanding/textcnn/data/train", padded[:650])
    write(target / "contentunderstanding/textcnn/data/test", padded[650:])


def write(folder: Path, lines: Sequence[str]) -> None:
    """Write one compressed file, the same bytes every time."""
    folder.mkdir(parents=True, exist_ok=True)
    content = "".join(f"{line}\n" for line in lines).encode()
    (folder / "part-0.gz").write_bytes(gzip.compress(content, mtime=0))


def blanks(values: Iterable[object]) -> str:
    """Join values by blanks."""
    return " ".join(map(str, values))


def commas(values: Iterable[object]) -> str:
    """Join values by commas."""
    return ",".join(map(str, values))


def draw_sessions(num: int, seed: int) -> Iterator[list[int]]:
    """Draw sessions: the next item mostly follows from the last one; items count from 1."""
    follows = np.random.default_rng(SEED).permutation(NUM_ITEMS) + 1
    rng = np.random.default_rng(seed)
    for _ in range(num):
        items = [draw_popular(rng)]
        for _ in range(int(rng.integers(2, 7))):
            is_next = rng.random() < 0.6
            items.append(int(follows[items[-1] - 1]) if is_next else draw_popular(rng))
        yield items


def draw_popular(rng: Rng) -> int:
    """Return an item; low numbers are popular."""
    return 1 + int(NUM_ITEMS * rng.random() ** 2)


def graph_lines(num: int, seed: int) -> list[str]:
    """Return lines of a session and its next item, of the same sessions."""
    return [f"{commas(s[:-1])}\t{s[-1]}" for s in draw_sessions(num, seed)]


def rating_lines(num: int, seed: int) -> list[str]:
    """Return lines of a user, an item, and whether it is liked: by the angle of hidden vectors."""
    rng = np.random.default_rng(seed)
    users, items = rng.normal(size=(50, 2)), rng.normal(size=(40, 2))
    lines = []
    for _ in range(num):
        user, item = int(rng.integers(50)), int(rng.integers(40))
        liked = rng.random() < 1 / (1 + np.exp(-2.5 * users[user] @ items[item] + 0.5))
        lines.append(commas([user, item, int(liked)]))
    return lines


def video_lines(num: int, seed: int) -> list[str]:
    """Return lines of three vectors and a video, which depends on the signs of all three."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(num):
        vectors = [rng.normal(size=4).round(2) for _ in range(3)]
        video = sum(int(v[0] > 0) << place for place, v in enumerate(vectors))
        lines.append(";".join([*map(commas, vectors), str(video)]))
    return lines


def write_words(folder: Path) -> None:
    """Write text of pairs of meanings with words of one meaning around them, and analogies."""
    rng = np.random.default_rng(SEED)
    rows, columns = MEANINGS
    pairs = list(itertools.product(range(rows), range(columns)))
    names = [f"w{row}_{column}" for row, column in pairs]
    names += [f"row{row}_{i}" for row in range(rows) for i in range(NUM_WORDS)]
    names += [f"column{column}_{i}" for column in range(columns) for i in range(NUM_WORDS)]
    of_row, of_column = len(pairs), len(pairs) + rows * NUM_WORDS
    lines = []
    for _ in range(1500):
        place = int(rng.integers(len(pairs)))
        row, column = pairs[place]
        drawn = rng.integers(0, NUM_WORDS, 2)
        before = of_row + NUM_WORDS * row + drawn[0]
        after = of_column + NUM_WORDS * column + drawn[1]
        lines.append(blanks([before, place, after]))
    write(folder / "train", lines)
    counts = np.bincount([int(word) for line in lines for word in line.split()])
    (folder / "dict").mkdir(parents=True, exist_ok=True)
    counted = (f"{name} {count}\n" for name, count in zip(names, counts, strict=True))
    (folder / "dict/word_count_dict.txt").write_text("".join(counted))
    numbered = (f"{name} {number}\n" for number, name in enumerate(names))
    (folder / "dict/word_id_dict.txt").write_text("".join(numbered))
    questions = []
    for _ in range(200):
        (r, s), (c, d) = (
            rng.choice(rows, 2, replace=False),
            rng.choice(columns, 2, replace=False),
        )
        questions.append(f"w{r}_{c} w{r}_{d} w{s}_{c} w{s}_{d}")
    write(folder / "test", questions)


def look_alike_lines(num: int, seed: int) -> list[str]:
    """Return slot text of seed users and a target, which is mostly of the group of the seeds."""
    rng = np.random.default_rng(seed)
    group_of = rng.integers(0, 6, 61)
    lines = []
    for _ in range(num):
        group = int(rng.integers(6))
        label = int(rng.random() < 0.5)
        seeds = rng.choice(np.flatnonzero(group_of[1:] == group) + 1, 6)
        fits = (group_of[1:] == group) == bool(label)
        target = rng.choice(np.flatnonzero(fits) + 1)
        if rng.random() < 0.1:
            label = 1 - label
        words = [f"user_seeds:{user}" for user in seeds]
        lines.append(blanks([*words, f"target_user:{target}", f"label:{label}"]))
    return lines


def conversion_lines(num: int, seed: int) -> list[str]:
    """Return lines of Ali-CCP's layout: clicks depend on two fields, conversions on two others."""
    rng = np.random.default_rng(seed)
    fields = ("101", "205", "206", "301")
    tastes = {field: rng.normal(0, 1.2, 30) for field in fields}
    lines = []
    for number in range(num):
        ids = {field: int(rng.integers(30)) for field in fields}
        weight = {field: tastes[field][ids[field]] for field in fields}
        click = rng.random() < 1 / (1 + np.exp(-weight["101"] - weight["205"]))
        buys = click and rng.random() < 1 / (1 + np.exp(-weight["206"] - weight["301"]))
        features = [f"{f}:{1 + place * 30 + ids[f]}" for place, f in enumerate(fields)]
        lines.append(commas([number, int(click), int(buys), *features]))
    return lines


def document_lines(num: int, seed: int) -> list[str]:
    """Return lines of a query, a document of the same topic, and one of another."""
    rng = np.random.default_rng(seed)
    spoken, written = rng.random((5, 24)) < 0.3, rng.random((5, 24)) < 0.3
    lines = []
    for _ in range(num):
        topic, other = (int(t) for t in rng.choice(5, 2, replace=False))
        of_topics = (spoken[topic], written[topic], written[other])
        flips = (rng.random(24) < 0.1 for _ in of_topics)
        vectors = [(v ^ f).astype(int) for v, f in zip(of_topics, flips, strict=True)]
        lines.append("\t".join(map(commas, vectors)))
    return lines


def block_lines(num_blocks: int, seed: int) -> list[str]:
    """Return blocks of 64 pairs of texts that share a run of words, then 64 that do not."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(num_blocks):
        lefts = [rng.integers(1, 80, 6) for _ in range(64)]
        for fits in (True, False):
            for left in lefts:
                right = rng.integers(1, 80, 24)
                if fits:
                    place = int(rng.integers(0, 20))
                    right[place : place + 4] = left[1:5]
                lines.append(f"{commas(left)}\t{commas(right)}")
    return lines


def title_lines(num: int, seed: int) -> list[str]:
    """Return slot text of a query, a title with words of its topic, and one of another topic."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(num):
        topic, other = (int(t) for t in rng.choice(8, 2, replace=False))
        texts = [8 * topic + rng.integers(0, 8, 3)]
        texts += [64 + 8 * t + rng.integers(0, 8, 4) for t in (topic, other)]
        lines.append(blanks(f"{slot}:{word}" for slot, text in enumerate(texts) for word in text))
    return lines


def draw_texts(num: int, seed: int, *, num_classes: int) -> Iterator[tuple[int, list[int]]]:
    """Draw texts of a class: two words that are next to each other in an order that says it."""
    rng = np.random.default_rng(seed)
    for _ in range(num):
        label = int(rng.integers(num_classes))
        words = rng.integers(21, 120, int(rng.integers(6, 14)))
        for _ in range(2):
            place = int(rng.integers(0, len(words) - 1))
            first = 1 + int(rng.integers(5))
            words[place : place + 2] = first, 6 + (first + label) % 5
        yield label, [int(word) for word in words]


if __name__ == "__main__":
    main()
