"""Names of objects."""

import re

import pytest

from fleetrec.launch.manifests.names import MAX_NAME, object_name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("PaddleRec_CTR_202007091308", "paddlerec-ctr-202007091308"),
        ("9lives", "job-9lives"),
        ("__", "job"),
        ("a..b", "a-b"),
    ],
)
def test_a_name_is_one_of_kubernetes(text, name):
    assert object_name(text) == name


def test_long_names_are_short_and_differ():
    first, second = (object_name(f"{'long-name-' * 9}{i}") for i in range(2))
    assert first != second
    assert max(len(first), len(second)) <= MAX_NAME
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", first)
