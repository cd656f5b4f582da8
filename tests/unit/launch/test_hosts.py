"""Hosts and slots: what mpirun's own files say, and who runs what."""

import pytest

from fleetrec.core.errors import ConfigError
from fleetrec.launch.hosts import Host, assign_to_hosts, parse_hosts, read_hostfile
from fleetrec.launch.job_spec import JobSpec, RoleSpec


def make_job(*, workers, servers=0):
    roles = [RoleSpec(name="worker", replicas=workers, command=("true",))]
    if servers:
        roles.append(RoleSpec(name="server", replicas=servers, command=("true",)))
    return JobSpec(name="test", roles=tuple(roles))


def assigned(hosts, **numbers):
    found = assign_to_hosts(make_job(**numbers), parse_hosts(hosts))
    return {name: (local.servers, local.workers) for name, local in found.items()}


def test_a_hostfile_is_read_as_mpirun_reads_it(tmp_path):
    path = tmp_path / "hosts"
    path.write_text(
        "# two racks\n\nnode-a slots=4 max_slots=8\nnode-b.local # no slots\n10.0.0.3\n"
    )
    assert read_hostfile(path) == [
        Host(name="node-a", slots=4),
        Host(name="node-b.local", slots=None),
        Host(name="10.0.0.3", slots=None),
    ]


def test_a_host_that_is_listed_twice_has_two_slots(tmp_path):
    path = tmp_path / "hosts"
    path.write_text("a\na\nb slots=3\n")
    assert read_hostfile(path) == [Host(name="a", slots=2), Host(name="b", slots=3)]


@pytest.mark.parametrize("line", ["a slots=0", "a slots=many", "a; rm -rf b", "user@a", "a 4"])
def test_a_wrong_line_is_named(tmp_path, line):
    path = tmp_path / "hosts"
    path.write_text(f"fine slots=1\n{line}\n")
    with pytest.raises(ConfigError, match=r"hosts:2: expected a host such as"):
        read_hostfile(path)


def test_a_missing_or_empty_hostfile_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_hostfile(tmp_path / "hosts")
    (tmp_path / "hosts").write_text("# nothing\n")
    with pytest.raises(ConfigError, match="expected at least one host"):
        read_hostfile(tmp_path / "hosts")


def test_all_wrong_entries_are_reported_at_once():
    with pytest.raises(ConfigError) as error:
        parse_hosts(["a:2", "b:0", "c d"])
    assert len(error.value.problems) == 2


def test_ranks_fill_the_slots_in_order():
    assert assigned(["a:2", "b:2", "c:2"], workers=3) == {"a": ((), (0, 1)), "b": ((), (2,))}


def test_ranks_are_spread_without_slots():
    assert assigned(["a", "b"], workers=3) == {"a": ((), (0, 1)), "b": ((), (2,))}


def test_servers_and_workers_are_spread_and_servers_need_no_slots():
    found = assigned(["a:4", "b:1"], workers=3, servers=2)
    assert found == {"a": ((0,), (0, 1)), "b": ((1,), (2,))}


def test_every_replica_is_somewhere_once():
    found = assigned(["a:5", "b:1", "c"], workers=7, servers=5).values()
    assert [index for servers, _ in found for index in servers] == list(range(5))
    assert [index for _, workers in found for index in workers] == list(range(7))


def test_too_few_slots_are_refused():
    with pytest.raises(ConfigError, match=r"4 workers, but its hosts have 3 slots: a:1, b:2"):
        assigned(["a:1", "b:2"], workers=4)


def test_one_used_host_is_the_only_machine():
    (local,) = assign_to_hosts(make_job(workers=1), parse_hosts(["a:1", "b:1"])).values()
    assert local.is_only_machine
