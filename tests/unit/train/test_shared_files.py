"""Messages of a stream that all processes evaluate on."""

import pytest
import torch

from fleetrec.core.errors import FleetRecError
from fleetrec.data.files import list_files
from fleetrec.parallel.solo import SoloGroup
from fleetrec.train.shared_files import shared_files
from making_data import make_options
from streaming import KafkaCluster


class Chief(SoloGroup):
    """Keeps what it sends."""

    sent = b""

    def broadcast(self, content, *, key, pass_index):
        self.sent = content
        return content


class Peer(SoloGroup):
    """Receives what the chief has sent."""

    is_chief = False

    def __init__(self, chief):
        super().__init__(torch.device("cpu"))
        self._chief = chief

    def broadcast(self, content, *, key, pass_index):
        return self._chief.sent


@pytest.fixture
def chief():
    return Chief(torch.device("cpu"))


def test_all_processes_get_the_messages_that_the_chief_has_found(chief):
    cluster = KafkaCluster()
    cluster.send(b"a", b"b")
    client = (("client.id", "tests"),)
    options = make_options(cluster.url(), stream_options=client)
    files = shared_files(options, chief, key="files")
    cluster.send(b"c")
    assert [file.name for file in files] == ["clicks/0/0-2"]
    assert [file.options for file in files] == [client]
    assert shared_files(options, Peer(chief), key="files") == files
    assert [file.name for file in list_files(cluster.url())] == ["clicks/0/0-3"]


def test_an_error_of_the_chief_is_an_error_of_all(chief):
    options = make_options("kafka://127.0.0.1:1/clicks?begin=0")
    with pytest.raises(FleetRecError, match="given together"):
        shared_files(options, chief, key="files")
    with pytest.raises(FleetRecError, match="given together"):
        shared_files(options, Peer(chief), key="files")


def test_files_are_listed_by_every_process(chief, tmp_path):
    assert shared_files(make_options(tmp_path), chief, key="files") is None
