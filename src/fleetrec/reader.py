"""What a user's own reader is written against.

A reader is a class in a file that a data set names (``data_converter``). It offers one of

- ``generate_sample(line)``: a function that yields the samples of a line,
- ``generate_batch_from_trainfiles(files)``: a function that yields batches, each a list of samples,
- ``batch_tensor_creator(sample_reader)`` beside ``generate_sample``: a function that yields
  batches, each a list of arrays with one row per sample,
- ``read(path)``: yields samples, or pyarrow record batches, of a file.

A sample is a dict of feature and values, a list of (feature, values), or a list of values alone,
in the order of the data set's features: dense ones first, then sparse ones.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TextIO

Values = Any
Sample = Mapping[str, Values] | Iterable[tuple[str, Values]] | Iterable[Values] | None


class ReaderBase:
    """A reader whose data has one line per sample, or nearly so."""

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self.settings: Mapping[str, Any] = config or {}

    def init(self) -> None:
        """Prepare once, before the first line: read settings, load dictionaries."""

    def setting(self, name: str, default: Any = None) -> Any:
        """Return what the job file says under a dotted name such as ``hyper_parameters.dim``."""
        return find_setting(self.settings, name, default)

    def generate_sample(self, line: str) -> Callable[[], Iterator[Sample]]:
        """Return a function that yields the samples of a line; None is passed over."""
        raise NotImplementedError(f"{type(self).__name__} lacks generate_sample, or read")

    def run_from_stdin(self, *, output: TextIO | None = None) -> None:
        """Write the samples of the lines on the standard input as wire text, for a pipe_command."""
        self.init()
        write = (output or sys.stdout).write
        for line in sys.stdin:
            for sample in self.generate_sample(line.rstrip("\n"))():
                if sample is not None:
                    write(to_wire_line(sample))


def find_setting(settings: Mapping[str, Any], name: str, default: Any = None) -> Any:
    """Return a setting by its dotted name, whether names are nested or flat."""
    if name in settings:
        return settings[name]
    first, _, rest = name.partition(".")
    inner = settings.get(first)
    return find_setting(inner, rest, default) if rest and isinstance(inner, Mapping) else default


def to_wire_line(sample: Iterable[tuple[str, Values]] | Mapping[str, Values]) -> str:
    """Return ``count value ... value`` of every feature, in the order of the sample."""
    pairs = sample.items() if isinstance(sample, Mapping) else sample
    tokens: list[str] = []
    for _, values in pairs:
        tokens += [str(len(values)), *map(str, values)]
    return " ".join(tokens) + "\n"
