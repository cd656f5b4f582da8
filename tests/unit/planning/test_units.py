import pytest

from fleetrec.core.errors import ConfigError
from fleetrec.planning.units import (
    bytes_of,
    bytes_per_s_of,
    bytes_text,
    seconds_of,
    seconds_text,
)


def test_sizes_are_read_in_thousands_or_in_powers_of_two():
    assert bytes_of("80GB", option="--memory") == 80_000_000_000
    assert bytes_of("1.5 GiB", option="--memory") == 3 << 29


def test_speeds_are_bits_or_bytes():
    assert bytes_per_s_of("25Gb", option="--bandwidth") == 25e9 / 8
    assert bytes_per_s_of("3GB", option="--bandwidth") == 3e9


def test_times_are_read():
    assert seconds_of("50us", option="--latency") == pytest.approx(50e-6)


@pytest.mark.parametrize("text", ["80", "GB", "-1GB", "0GB", "80 gigs", "1e3GB", ""])
def test_other_text_is_answered_with_what_was_expected(text):
    with pytest.raises(ConfigError) as caught:
        bytes_of(text, option="--memory")
    (problem,) = caught.value.problems
    assert problem.startswith("--memory: expected a number above 0 and one of B, KB, MB, GB, TB")
    assert problem.endswith(f"got {text!r}")


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1234, "1.23 KB"), (80e9, "80 GB")]
)
def test_sizes_are_written(size, text):
    assert bytes_text(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 us"), (2.5e-5, "25 us"), (0.0125, "12.5 ms"), (1.5, "1.5 s")]
)
def test_times_are_written(seconds, text):
    assert seconds_text(seconds) == text
