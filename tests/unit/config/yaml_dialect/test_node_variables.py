"""Variables of a node give keys that the job does not write."""

from pathlib import Path

from fleetrec.config.document import Document, parse_document
from fleetrec.config.yaml_dialect.node_variables import NodeVariables, with_node_variables

JOB = """
runner:
- {name: local, class: train}
- {name: ps, class: cluster_train, communicator: {FLAGS_communicator_thread_pool_size: 3}}
- {name: other, class: local_cluster}
- {name: ranks, class: cluster_train, fleet_mode: collective}
phase:
- {name: one, thread_num: 2}
- {name: two}
"""
FLAGS = {"FLAGS_communicator_thread_pool_size": "9", "FLAGS_rpc_deadline": "1000"}


def job() -> Document:
    return parse_document(JOB, path=Path("config.yaml"))


def test_flags_are_keys_of_runners_with_servers() -> None:
    found = with_node_variables(job(), NodeVariables(communicator=FLAGS)).data["runner"]
    assert [one.get("communicator") for one in found] == [
        None,
        {"FLAGS_communicator_thread_pool_size": 3, "FLAGS_rpc_deadline": "1000"},
        FLAGS,
        None,
    ]


def test_cpu_num_is_the_thread_num_that_a_phase_does_not_write() -> None:
    found = with_node_variables(job(), NodeVariables(num_threads=5)).data["phase"]
    assert [one["thread_num"] for one in found] == [2, 5]


def test_messages_name_the_environment() -> None:
    found = with_node_variables(job(), NodeVariables(communicator=FLAGS))
    assert found.where(("runner", 2, "communicator", "FLAGS_rpc_deadline")) == "environment"
    assert found.where(("phase", 0, "thread_num")) == "config.yaml:8"


def test_the_job_is_not_changed_in_place() -> None:
    document = job()
    with_node_variables(document, NodeVariables(communicator=FLAGS, num_threads=5))
    assert document.data == job().data
    assert with_node_variables(document, NodeVariables()) is document
