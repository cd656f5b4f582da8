"""What is read from the environment beside the place of a process."""

import pytest

from fleetrec.core.env import (
    allows_tiles,
    is_cluster_node,
    read_certificate,
    read_communicator_flags,
    read_cpu_num,
    read_place,
    read_snapshot_bytes,
)
from fleetrec.core.errors import ConfigError


def test_the_place_is_read_from_the_environment(monkeypatch):
    assert read_place() is None
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "1")
    place = read_place()
    assert place is not None
    assert place.is_only_process


def test_a_certificate_needs_its_key(monkeypatch, tmp_path):
    monkeypatch.setenv("FLEETREC_TLS_CERTIFICATE", str(tmp_path / "certificate.pem"))
    with pytest.raises(ConfigError, match="FLEETREC_TLS_KEY: expected both in the environment"):
        read_certificate()
    monkeypatch.setenv("FLEETREC_TLS_KEY", str(tmp_path / "key.pem"))
    assert read_certificate() == (tmp_path / "certificate.pem", tmp_path / "key.pem")


def test_the_length_of_a_journal_may_be_set(monkeypatch):
    assert read_snapshot_bytes() is None
    monkeypatch.setenv("FLEETREC_SNAPSHOT_BYTES", "4096")
    assert read_snapshot_bytes() == 4096
    monkeypatch.setenv("FLEETREC_SNAPSHOT_BYTES", "much")
    with pytest.raises(ConfigError, match="FLEETREC_SNAPSHOT_BYTES: expected a whole number"):
        read_snapshot_bytes()


def test_tiles_are_allowed_unless_the_environment_forbids_them(monkeypatch):
    assert allows_tiles()
    monkeypatch.setenv("FLEETREC_TILES", "0")
    assert not allows_tiles()
    monkeypatch.setenv("FLEETREC_TILES", "off")
    with pytest.raises(ConfigError, match="FLEETREC_TILES: expected 0 or 1, got 'off'"):
        allows_tiles()


def test_a_node_of_a_submitted_job_says_so(monkeypatch):
    assert not is_cluster_node()
    monkeypatch.setenv("PADDLE_PADDLEREC_ROLE", "worker")
    assert is_cluster_node()
    monkeypatch.setenv("PADDLE_PADDLEREC_ROLE", "MASTER")
    assert not is_cluster_node()
    monkeypatch.setenv("FLEETREC_IS_NODE", "1")
    assert is_cluster_node()
    monkeypatch.setenv("PADDLE_PADDLEREC_ROLE", "BOSS")
    with pytest.raises(ConfigError, match="expected MASTER or WORKER, got 'BOSS'"):
        is_cluster_node()


def test_flags_and_threads_of_cluster_jobs_are_read(monkeypatch):
    assert read_communicator_flags() == {}
    assert read_cpu_num() is None
    monkeypatch.setenv("FLAGS_communicator_fake_rpc", "0")
    monkeypatch.setenv("FLAGS_rpc_deadline", "1000")
    monkeypatch.setenv("FLAGS_cudnn_deterministic", "1")
    monkeypatch.setenv("CPU_NUM", "4")
    assert read_communicator_flags() == {
        "FLAGS_communicator_fake_rpc": "0",
        "FLAGS_rpc_deadline": "1000",
    }
    assert read_cpu_num() == 4
