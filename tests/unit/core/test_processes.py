import json

import pytest

from fleetrec.core.env import processes_of
from fleetrec.core.errors import ConfigError
from fleetrec.core.processes import Processes


def tf_config(**cluster):
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}})}


def test_nobody_asks_for_processes_in_an_empty_environment():
    assert processes_of({}) is None


def test_a_chief_is_a_worker_and_an_evaluator_is_none():
    found = processes_of(
        tf_config(chief=["a:1"], worker=["b:1", "c:1"], ps=["d:1", "e:1"], evaluator=["f:1"])
    )
    assert found == Processes(num_workers=3, num_servers=2, is_local=False)


def test_without_servers_their_number_is_left_open():
    found = processes_of(tf_config(worker=["b:1", "c:1"]))
    assert found == Processes(num_workers=2, is_local=False)
    assert processes_of({"WORLD_SIZE": "4"}) == Processes(num_workers=4, is_local=False)


def test_the_variables_of_our_launcher_are_understood():
    found = processes_of(
        {
            "TRAINING_ROLE": "TRAINER",
            "PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.1:6170,127.0.0.1:6171",
            "PADDLE_TRAINERS_NUM": "3",
            "PADDLE_TRAINER_ID": "0",
        }
    )
    assert found == Processes(num_workers=3, num_servers=2, is_local=False)


@pytest.mark.parametrize(
    "text", ["{", "[]", "3", "{}", '{"cluster": 3}', '{"cluster": {"worker": "a:1"}}']
)
def test_a_variable_that_is_no_cluster_is_answered_with_what_was_expected(text):
    with pytest.raises(ConfigError) as caught:
        processes_of({"TF_CONFIG": text})
    assert caught.value.problems[0].startswith('TF_CONFIG: expected {"cluster": {"worker"')


def test_a_cluster_without_workers_is_refused():
    with pytest.raises(ConfigError) as caught:
        processes_of(tf_config(ps=["a:1"]))
    assert "at least one of chief, master, worker" in caught.value.problems[0]
