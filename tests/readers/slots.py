"""A reader of the user's own that understands slot text; also a program for pipe_command."""

from pathlib import Path

from fleetrec.reader import ReaderBase


def to_sample(line):
    sample = {}
    for token in line.split():
        name, _, value = token.partition(":")
        sample.setdefault(name, []).append(float(value) if name == "d" else int(value))
    return sample


class Reader(ReaderBase):
    def generate_sample(self, line):
        def samples():
            yield to_sample(line)

        return samples


def read(path):
    with Path(path).open() as lines:
        yield from map(lenient, lines)


def lenient(line):
    """A line that is bad becomes a sample that is: a reader cannot go on behind an error."""
    try:
        return to_sample(line)
    except ValueError:
        return {"1": [0.5]}


class Pipe(ReaderBase):
    def generate_sample(self, line):
        def samples():
            try:
                sample = to_sample(line)
            except ValueError:
                yield [("d", ["bad"])]
                return
            yield [(name, sample.get(name, [])) for name in ("d", "click", "1", "2")]

        return samples


if __name__ == "__main__":
    Pipe().run_from_stdin()
