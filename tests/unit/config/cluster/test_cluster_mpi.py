"""Options of mpirun."""

import pytest
from pydantic import ValidationError

from fleetrec.config.cluster.mpi import MpiOptions


def test_lists_may_be_written_as_words():
    options = MpiOptions(hosts="a:2 b", arguments="--mca btl '^openib'")
    assert options.hosts == ("a:2", "b")
    assert options.arguments == ("--mca", "btl", "^openib")


def test_hosts_and_a_hostfile_exclude_each_other():
    with pytest.raises(ValidationError, match="expected hosts or hostfile, got both"):
        MpiOptions(hosts=["a"], hostfile="hosts")


@pytest.mark.parametrize(
    "wrong", [{"port": 80}, {"max_restarts": -1}, {"remote_shell": "a\nb"}, {"interface": ""}]
)
def test_wrong_values_are_refused(wrong):
    with pytest.raises(ValidationError):
        MpiOptions(**wrong)
