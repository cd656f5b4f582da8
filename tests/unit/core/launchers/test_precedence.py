"""Every launcher's environment, read into a place; and which launcher counts among several."""

import json

import pytest

from fleetrec.core.errors import ConfigError
from fleetrec.core.launchers.own import place_environment
from fleetrec.core.launchers.precedence import place_of
from fleetrec.core.place import Place

SERVERS = "10.0.0.1:6170,10.0.0.2:6171"
PADDLE_WORKER = {
    "TRAINING_ROLE": "TRAINER",
    "PADDLE_PSERVERS_IP_PORT_LIST": SERVERS,
    "PADDLE_TRAINERS_NUM": "3",
    "PADDLE_TRAINER_ID": "2",
}
PADDLE_SERVER = {
    "TRAINING_ROLE": "PSERVER",
    "PADDLE_PSERVERS_IP_PORT_LIST": SERVERS,
    "PADDLE_TRAINERS_NUM": "3",
    "POD_IP": "10.0.0.2",
    "PADDLE_PORT": "6171",
}
PADDLE_RANK = {
    "PADDLE_TRAINER_ENDPOINTS": "a:6170,a:6171,b:6170",
    "PADDLE_CURRENT_ENDPOINT": "a:6171",
    "PADDLE_TRAINER_ID": "1",
    "PADDLE_TRAINERS_NUM": "3",
}
TORCH = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "first", "MASTER_PORT": "29500"}
TORCHRUN = {
    **TORCH,
    "LOCAL_RANK": "1",
    "TORCHELASTIC_RUN_ID": "x",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
    "TORCHELASTIC_RESTART_COUNT": "2",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}
PMI = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
HOROVOD = {
    "HOROVOD_RANK": "1",
    "HOROVOD_SIZE": "2",
    "HOROVOD_LOCAL_RANK": "0",
    "HOROVOD_LOCAL_SIZE": "1",
    "HOROVOD_GLOO_RENDEZVOUS_ADDR": "10.0.0.1",
    "HOROVOD_GLOO_RENDEZVOUS_PORT": "40123",
}
SLURM = {
    "SLURM_PROCID": "3",
    "SLURM_NTASKS": "4",
    "SLURM_LOCALID": "1",
    "SLURM_JOB_ID": "17",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "gpu[007-008]",
}
VOLCANO = {
    "VC_PS_HOSTS": "job-ps-0.job,job-ps-1.job",
    "VC_WORKER_HOSTS": "job-worker-0.job,job-worker-1.job,job-worker-2.job",
    "VC_TASK_INDEX": "1",
}


def tf_config(task, index=0, **cluster):
    text = json.dumps({"cluster": cluster, "task": {"type": task, "index": index}})
    return {"TF_CONFIG": text}


def host_and_port(store):
    host, _, port = store.rpartition(":")
    return host, int(port)


def test_an_empty_environment_has_no_place():
    assert place_of({}) is None


def test_paddle_tells_a_worker_its_rank():
    assert place_of(PADDLE_WORKER) == Place(
        role="worker",
        rank=2,
        num_workers=3,
        server_endpoints=("10.0.0.1:6170", "10.0.0.2:6171"),
        launcher="Paddle",
    )


def test_a_server_finds_itself_among_the_endpoints_of_paddle():
    place = place_of(PADDLE_SERVER)
    assert (place.role, place.rank, place.size, place.num_workers) == ("server", 1, 2, 3)


def test_a_collective_job_of_paddle_is_ranks_that_meet_at_the_first_endpoint():
    assert place_of(PADDLE_RANK) == Place(
        rank=1, num_workers=3, local_rank=1, store="a:6170", launcher="Paddle"
    )
    first = {**PADDLE_RANK, "PADDLE_CURRENT_ENDPOINT": "", "PADDLE_TRAINER_ID": "0"}
    assert place_of({**first, "TRAINING_ROLE": "TRAINER"}).is_store_host


@pytest.mark.parametrize("missing", PADDLE_WORKER)
def test_a_missing_variable_of_a_worker_is_named(missing):
    given = {**PADDLE_WORKER, missing: " "}
    if missing == "TRAINING_ROLE":
        assert place_of(given) is None
        return
    with pytest.raises(ConfigError, match=f"^{missing}: not in the environment; start it with"):
        place_of(given)


@pytest.mark.parametrize("missing", [name for name in PADDLE_SERVER if name != "TRAINING_ROLE"])
def test_a_missing_variable_of_a_server_is_named(missing):
    with pytest.raises(ConfigError, match=f"^{missing}: not in the environment"):
        place_of({**PADDLE_SERVER, missing: " "})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("TRAINING_ROLE", "HETER_TRAINER", "TRAINING_ROLE: expected TRAINER or PSERVER, got 'HET"),
        ("PADDLE_TRAINERS_NUM", "0", "PADDLE_TRAINERS_NUM: expected a whole number of at least 1"),
        ("PADDLE_TRAINERS_NUM", "two", "got 'two' in the environment"),
        ("PADDLE_TRAINER_ID", "3", "PADDLE_TRAINER_ID: expected a number below .*=3, got '3'"),
        ("PADDLE_TRAINER_ID", "-1", "PADDLE_TRAINER_ID: expected a whole number of at least 0"),
        ("PADDLE_PSERVERS_IP_PORT_LIST", "10.0.0.1", "expected host:port, separated by commas"),
        ("PADDLE_PSERVERS_IP_PORT_LIST", "a:1,a:99999", "expected host:port"),
        ("PADDLE_PSERVERS_IP_PORT_LIST", "a:1,a:1", "expected every host:port once"),
    ],
)
def test_a_wrong_value_is_named_with_what_came(name, value, message):
    with pytest.raises(ConfigError, match=message):
        place_of({**PADDLE_WORKER, name: value})


def test_a_server_that_is_not_among_the_endpoints_is_refused():
    with pytest.raises(ConfigError, match=r"POD_IP and PADDLE_PORT: 10.0.0.2:6170 is not in"):
        place_of({**PADDLE_SERVER, "PADDLE_PORT": "6170"})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"PADDLE_CURRENT_ENDPOINT": "b:6170"}, "PADDLE_CURRENT_ENDPOINT: expected a:6171"),
        ({"PADDLE_TRAINERS_NUM": "2"}, "PADDLE_TRAINERS_NUM: expected 3"),
        ({"PADDLE_TRAINER_ID": "3"}, "PADDLE_TRAINER_ID: expected a number below the 3"),
    ],
)
def test_variables_of_one_launcher_that_contradict_each_other_are_refused(changed, message):
    with pytest.raises(ConfigError, match=message):
        place_of({**PADDLE_RANK, **changed})


def test_torchrun_has_a_store_and_its_restart_count_is_not_used():
    assert place_of(TORCHRUN) == Place(
        rank=1, num_workers=2, local_rank=1, store="first:29500", launcher="torchrun"
    )


def test_the_first_rank_of_a_pytorch_job_hosts_the_store():
    place = place_of({**TORCH, "RANK": "0"})
    assert (place.launcher, place.is_store_host, place.local_rank) == ("PyTorchJob", True, 0)
    assert not place_of(TORCH).is_store_host


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"RANK": "2"}, "RANK: expected a number below WORLD_SIZE=2"),
        ({"LOCAL_RANK": "first"}, "LOCAL_RANK: expected a whole number of at least 0"),
        ({"MASTER_PORT": "http"}, "MASTER_PORT: expected a whole number of at least 1"),
        ({"MASTER_ADDR": ""}, "MASTER_ADDR: not in the environment; start ranks with torchrun"),
    ],
)
def test_the_variables_of_torch_are_checked(wrong, said):
    with pytest.raises(ConfigError, match=said):
        place_of({**TORCH, **wrong})


@pytest.mark.parametrize("variables", [OPEN_MPI, PMI])
def test_ranks_of_mpirun_on_one_machine_meet_on_loopback(variables):
    place = place_of(variables)
    assert (place.role, place.rank, place.size, place.local_rank) == ("worker", 1, 2, 1)
    assert host_and_port(place.store)[0] == "127.0.0.1"
    assert not place.is_store_host


def test_two_jobs_of_mpirun_meet_at_two_ports():
    jobs = [{**OPEN_MPI, "PMIX_NAMESPACE": f"prterun-host-{number}@1"} for number in (1, 2)]
    stores = [place_of(job).store for job in jobs]
    assert len({*stores}) == 2
    assert place_of({**jobs[0], "OMPI_COMM_WORLD_RANK": "0"}).store == stores[0]


def test_ranks_of_mpirun_on_several_machines_must_be_told_where_to_meet():
    several = {**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}
    with pytest.raises(ConfigError, match="MASTER_ADDR: not in the environment; with several"):
        place_of(several)
    given = {**several, "MASTER_ADDR": "first", "MASTER_PORT": "4000"}
    assert place_of(given).store == "first:4000"


@pytest.mark.parametrize(
    ("variables", "name", "size"),
    [
        (OPEN_MPI, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        (PMI, "PMI_RANK", "PMI_SIZE"),
        (SLURM, "SLURM_PROCID", "SLURM_NTASKS"),
    ],
)
def test_the_first_ranks_are_the_servers_that_are_listed(variables, name, size):
    job = {**variables, "FLEETREC_SERVERS": "a:6170,b:6170", size: "5"}
    places = [place_of({**job, name: str(rank)}) for rank in range(5)]
    assert [(p.role, p.rank, p.size) for p in places] == [
        ("server", 0, 2),
        ("server", 1, 2),
        ("worker", 0, 3),
        ("worker", 1, 3),
        ("worker", 2, 3),
    ]
    assert {p.server_endpoints for p in places} == {("a:6170", "b:6170")}
    assert {p.store for p in places} == {None}


def test_servers_need_at_least_one_rank_more():
    with pytest.raises(ConfigError, match=r"lists 2 servers.* started 2 processes"):
        place_of({**OPEN_MPI, "FLEETREC_SERVERS": "a:6170,b:6170"})


def test_a_rank_without_a_size_is_refused():
    with pytest.raises(ConfigError, match="PMIX_RANK: gives the rank"):
        place_of({"PMIX_RANK": "1"})


def test_horovodrun_tells_where_its_machine_is():
    place = place_of(HOROVOD)
    assert (place.rank, place.size, place.launcher) == (1, 2, "Horovod")
    assert host_and_port(place.store)[0] == "10.0.0.1"
    assert place_of({**HOROVOD, "HOROVOD_RANK": "0"}).is_store_host
    with pytest.raises(ConfigError, match="HOROVOD_ELASTIC"):
        place_of({**HOROVOD, "HOROVOD_ELASTIC": "1"})


def test_a_task_of_srun_is_a_rank():
    place = place_of(SLURM)
    assert (place.rank, place.size, place.local_rank, place.launcher) == (3, 4, 1, "Slurm")
    assert host_and_port(place.store)[0] == "gpu007"


@pytest.mark.parametrize(
    ("nodes", "host"),
    [
        ("node1", "127.0.0.1"),
        ("node1,node2", "node1"),
        ("gpu[007-009,12]-ib,cpu1", "gpu007-ib"),
        ("rack[1-2]node[03,05]", "rack1node03"),
    ],
)
def test_the_store_is_on_the_first_node_of_slurm(nodes, host):
    assert host_and_port(place_of({**SLURM, "SLURM_STEP_NODELIST": nodes}).store)[0] == host


def test_the_script_of_sbatch_is_no_rank():
    given = {name: value for name, value in SLURM.items() if name != "SLURM_STEP_ID"}
    assert place_of(given) is None
    assert place_of({**SLURM, "SLURM_STEP_ID": "4294967290"}) is None


def test_srun_with_pmi_is_read_as_slurm():
    place = place_of({**SLURM, "PMI_RANK": "3", "PMI_SIZE": "4", "PMIX_RANK": "3"})
    assert place.launcher == "Slurm"


def test_workers_of_tensorflow_with_ps_push_to_servers():
    cluster = {"chief": ["a:1"], "worker": ["b:1", "a:2"], "ps": ["d:1", "e:1"]}
    place = place_of(tf_config("worker", 1, **cluster, evaluator=["f:1"]))
    assert place == Place(
        rank=2,
        num_workers=3,
        local_rank=1,
        server_endpoints=("d:1", "e:1"),
        launcher="TF_CONFIG",
    )
    server = place_of(tf_config("ps", 1, **cluster))
    assert (server.role, server.rank, server.num_workers) == ("server", 1, 3)


def test_workers_of_tensorflow_without_ps_are_ranks():
    cluster = {"chief": ["a:1"], "worker": ["b:1", "c:1"]}
    assert place_of(tf_config("chief", **cluster)) == Place(
        num_workers=3, store="a:1", is_store_host=True, launcher="TF_CONFIG"
    )
    assert place_of(tf_config("worker", 1, **cluster)).rank == 2


def test_a_chief_alone_is_the_only_process():
    assert place_of(tf_config("chief", chief=["a:1"])).is_only_process


def test_an_evaluator_is_refused():
    given = tf_config("evaluator", worker=["a:1"], evaluator=["b:1"])
    with pytest.raises(ConfigError, match="the first worker evaluates"):
        place_of(given)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "3",
        "{}",
        '{"cluster": 3, "task": {"type": "worker"}}',
        '{"cluster": {"worker": "a:1"}, "task": {"type": "worker"}}',
        '{"cluster": {"worker": ["a:1"]}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": -1}}',
    ],
)
def test_a_variable_that_is_no_cluster_is_answered_with_what_was_expected(text):
    with pytest.raises(ConfigError) as caught:
        place_of({"TF_CONFIG": text})
    assert caught.value.problems[0].startswith('TF_CONFIG: expected {"cluster": {"worker"')


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (tf_config("ps", ps=["a:1"]), "at least one of chief, master, worker"),
        (tf_config("worker", 2, worker=["a:1"]), "expected a task of the cluster, got 'worker 2'"),
        (tf_config("worker", worker=["a"]), "expected host:port"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(given, message):
    with pytest.raises(ConfigError, match=message):
        place_of(given)


def test_pods_of_volcano_find_themselves_by_their_host_name():
    server = place_of({**VOLCANO, "HOSTNAME": "job-ps-1"})
    endpoints = ("job-ps-0.job:6170", "job-ps-1.job:6170")
    assert (server.role, server.rank, server.server_endpoints) == ("server", 1, endpoints)
    worker = place_of({**VOLCANO, "HOSTNAME": "job-worker-1", "PADDLE_PORT": "7000"})
    assert (worker.role, worker.rank, worker.num_workers) == ("worker", 1, 3)
    assert worker.server_endpoints[0] == "job-ps-0.job:7000"
    with pytest.raises(ConfigError, match="HOSTNAME and VC_TASK_INDEX: other is not number 1 of"):
        place_of({**VOLCANO, "HOSTNAME": "other"})


def test_pods_of_volcano_without_servers_are_ranks():
    hosts = {"VC_MASTER_HOSTS": "job-master-0.job", "VC_WORKER_HOSTS": "job-worker-0.job"}
    place = place_of({**hosts, "VK_TASK_INDEX": "0", "HOSTNAME": "job-worker-0"})
    assert (place.rank, place.size, place.store) == (1, 2, "job-master-0.job:29500")
    with pytest.raises(ConfigError, match="expected tasks called chief"):
        place_of({"VC_PEER_HOSTS": "job-peer-0.job", "VC_TASK_INDEX": "0"})


@pytest.mark.parametrize(
    ("variables", "launcher"),
    [
        ({**SLURM, **OPEN_MPI}, "Open MPI"),  # mpirun in a job of Slurm
        ({**SLURM, **TORCHRUN}, "torchrun"),
        ({**OPEN_MPI, **TORCHRUN}, "torchrun"),  # one torchrun per machine
        ({**PADDLE_WORKER, **HOROVOD}, "Horovod"),
    ],
)
def test_the_innermost_launcher_counts(variables, launcher):
    assert place_of(variables).launcher == launcher


def test_our_own_launcher_is_the_innermost():
    place = Place(rank=1, num_workers=2, store="127.0.0.1:9", incarnation=3, is_supervised=True)
    assert place_of({**TORCHRUN, **OPEN_MPI, **SLURM, **place_environment(place)}) == place


def test_launchers_that_agree_are_one():
    agreed = {**HOROVOD, **OPEN_MPI}
    assert place_of(agreed).launcher == "Horovod"


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({**HOROVOD, **OPEN_MPI, "HOROVOD_RANK": "0"}, ["HOROVOD_RANK", "OMPI_COMM_WORLD_RANK"]),
        ({**TORCH, **SLURM}, ["RANK and WORLD_SIZE", "SLURM_PROCID"]),
        (
            {**PADDLE_WORKER, **tf_config("worker", worker=["a:1", "b:1"])},
            ["TRAINING_ROLE", "TF_CONFIG"],
        ),
    ],
)
def test_launchers_that_contradict_each_other_are_refused_by_name(variables, named):
    with pytest.raises(ConfigError) as caught:
        place_of(variables)
    (problem,) = caught.value.problems
    assert all(name in problem for name in named)
