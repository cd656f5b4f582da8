"""Options of sbatch."""

import pytest
from pydantic import ValidationError

from fleetrec.config.cluster.slurm import SlurmOptions


def test_shared_nodes_have_one_number():
    assert SlurmOptions(share_nodes=True, nodes=2).nodes == 2
    with pytest.raises(ValidationError, match="nodes is the number of all"):
        SlurmOptions(share_nodes=True, nodes=2, server_nodes=2)


@pytest.mark.parametrize("wrong", [{"nodes": 0}, {"partition": "a b"}, {"arguments": ["a\nb"]}])
def test_wrong_values_are_refused(wrong):
    with pytest.raises(ValidationError):
        SlurmOptions(**wrong)
