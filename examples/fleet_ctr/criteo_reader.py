"""Turns lines of Criteo's click logs into wire text: ``criteo_reader.py NUM_IDS < part-0``.

A line has a label, 13 numbers and 26 categories, separated by tabs; any of them may be empty.
"""

import math
import sys
import zlib

NUM_DENSE = 13


def main() -> None:
    """Read lines, print samples: 13 numbers, one id for each category, the label."""
    num_ids = int(sys.argv[1])
    for line in sys.stdin:
        label, *values = line.rstrip("\n").split("\t")
        numbers = [f"{math.log1p(max(0, int(v or 0))):.4g}" for v in values[:NUM_DENSE]]
        sample = [NUM_DENSE, *numbers]
        for place, value in enumerate(values[NUM_DENSE:]):
            sample += [1, zlib.crc32(f"{place}:{value}".encode()) % num_ids]
        print(*sample, 1, label)


if __name__ == "__main__":
    main()
