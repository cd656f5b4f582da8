"""Options of Kubernetes: what is refused."""

import pytest
from pydantic import ValidationError

from fleetrec.config.cluster.kubernetes import KubernetesOptions


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"image": ""}, "at least 1 character"),
        ({"namespace": "Ads"}, "lower case letters"),
        ({"storage": "ten"}, "quantity such as 512Mi"),
        ({"claims": {"data": "data"}}, "absolute path"),
        ({"claims": {"a": "/data", "b": "/data"}}, "two claims have the same folder"),
        ({"claims": {"a": "/fleetrec"}}, "absolute path"),
        ({"flavor": "plain"}, "Extra inputs"),
        ({"flavour": "yarn"}, "'plain', 'volcano', 'pytorchjob' or 'trainjob'"),
        ({"queue": "ads"}, "queue: only flavour: volcano has it"),
        ({"state_claim": "x"}, "state_claim: only flavour: volcano"),
        ({"flavour": "volcano", "long_running": True}, "long_running: only flavour: plain"),
        ({"flavour": "trainjob", "ttl_s": 5}, "ttl_s: a TrainJob has no such key"),
        ({"max_restarts": -1}, "greater than or equal to 0"),
    ],
)
def test_a_wrong_key_is_refused(keys, problem):
    with pytest.raises(ValidationError, match=problem):
        KubernetesOptions(**{"image": "x", **keys})
