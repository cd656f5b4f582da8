"""Passes over message streams."""

import logging

import pytest
import torch

from fleetrec.config.online import StreamOptions
from fleetrec.core.errors import CheckpointError, DataError
from fleetrec.core.event_time import day_time
from fleetrec.core.progress import Progress
from fleetrec.data.plan import DataShard
from fleetrec.data.streams.client import Message, NoAnswerError
from fleetrec.parallel.solo import SoloGroup
from fleetrec.train import stream_plan
from fleetrec.train.context import StopRequestedError
from fleetrec.train.pass_log import PassLog
from fleetrec.train.stream_plan import Stream
from fleetrec.train.waiting import Waiting
from streaming import KafkaCluster

NOON = day_time("20261118") + 12 * 3600


class Topic:
    """Partitions in lists, with the contract of a client; ``failing`` calls get no answer."""

    def __init__(self, num_partitions=2):
        self.partition = [[] for _ in range(num_partitions)]
        self.failing = 0
        self.num_closed = 0

    def send(self, count, *, partition=0, time=NOON):
        for _ in range(count):
            messages = self.partition[partition]
            messages.append(Message(len(messages), time * 1000, b"x"))

    def partitions(self):
        return tuple(range(len(self.partition)))

    def begin_offsets(self):
        return {p: 0 for p in self.partitions()}

    def end_offsets(self):
        if self.failing:
            self.failing -= 1
            raise NoAnswerError("no broker")
        return {p: len(messages) for p, messages in enumerate(self.partition)}

    def offsets_at(self, event_time_s):
        def first(messages):
            late = (m.offset for m in messages if m.time_ms >= event_time_s * 1000)
            return next(late, len(messages))

        return {p: first(messages) for p, messages in enumerate(self.partition)}

    def read(self, partition, begin, end):
        assert 0 <= begin <= end <= len(self.partition[partition])
        for message in self.partition[partition][begin:end]:
            yield [message]

    def close(self):
        self.num_closed += 1


class Clock:
    """Time that passes only while the plan sleeps; at every sleep something may happen."""

    def __init__(self, do=lambda now: None):
        self.now = 0.0
        self._do = do

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self._do(self.now)


@pytest.fixture
def topic(monkeypatch):
    made = Topic()
    monkeypatch.setattr(stream_plan, "connect", lambda url, options: made)
    return made


def make_plan(tmp_path, *, clock=None, should_stop=lambda: False, group=None, **options):
    clock = clock or Clock()
    given = {"url": "kafka://a:9092/clicks", "messages": 10, "seconds": 30, "poll_s": 1}
    return Stream(
        StreamOptions(**{**given, **options}),
        ["learn"],
        PassLog(str(tmp_path)),
        group or SoloGroup(torch.device("cpu")),
        Waiting(clock=clock, sleep=clock.sleep, should_stop=should_stop),
    )


def at(index):
    return Progress(pass_index=index)


def names(spec):
    return [file.name for file in spec.files["learn"]]


def test_a_pass_begins_where_the_last_one_ended(tmp_path, topic):
    topic.send(8, partition=0)
    topic.send(4, partition=1)
    plan = make_plan(tmp_path)
    spec = plan.next(at(0))
    assert names(spec) == ["clicks/0/0-6", "clicks/1/0-4"]  # ten messages of twelve
    assert (spec.name, spec.day, spec.number, spec.ends_day) == ("20261118/1", "20261118", 1, False)
    assert spec.event_time == NOON
    assert names(plan.next(at(1))) == ["clicks/0/6-8"]
    assert plan.known(0) == spec
    assert plan.known(2) is None


def test_a_pass_waits_for_its_size_or_its_time(tmp_path, topic, caplog):
    caplog.set_level(logging.INFO)
    topic.send(1)
    clock = Clock(lambda now: topic.send(1) if now % 5 == 0 else None)
    plan = make_plan(tmp_path, clock=clock)
    assert names(plan.next(at(0))) == ["clicks/0/0-1"]  # the first one does not wait
    assert names(plan.next(at(1))) == ["clicks/0/1-7"]
    assert clock.now == 30
    assert "waiting for pass 1 of clicks (0 s): 0 of 10 messages" in caplog.text
    clock._do = lambda now: topic.send(5) if now in (31, 32) else None
    assert names(plan.next(at(2))) == ["clicks/0/7-17"]
    assert clock.now == 32


def test_time_alone_makes_no_pass(tmp_path, topic):
    clock = Clock(lambda now: topic.send(1) if now == 300 else None)
    assert names(make_plan(tmp_path, clock=clock).next(at(0))) == ["clicks/0/0-1"]
    assert clock.now >= 300  # ten times ``seconds``


def test_the_time_of_a_pass_counts_from_the_last_one(tmp_path, topic):
    topic.send(10)
    clock = Clock()
    plan = make_plan(tmp_path, clock=clock)
    plan.next(at(0))
    clock.now += 100  # it trains
    topic.send(1)
    assert names(plan.next(at(1))) == ["clicks/0/10-11"]
    assert clock.now == 100


def test_a_begun_pass_is_the_same_after_a_restart(tmp_path, topic):
    topic.send(10)
    spec = make_plan(tmp_path).next(at(0))
    topic.send(5)
    plan = make_plan(tmp_path)
    assert plan.known(0) == spec
    assert plan.next(at(0)) == spec
    topic.send(5)
    assert names(make_plan(tmp_path, start="latest").next(at(1))) == ["clicks/0/10-20"]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("earliest", ["clicks/0/0-3", "clicks/1/0-2"]),
        ("0:2", ["clicks/0/2-3", "clicks/1/0-2"]),
        (str(NOON + 10), ["clicks/1/1-2"]),
    ],
)
def test_a_new_run_begins_at_its_start(tmp_path, topic, start, expected):
    topic.send(3)
    topic.send(1, partition=1)
    topic.send(1, partition=1, time=NOON + 10)
    assert names(make_plan(tmp_path, start=start, seconds=0).next(at(0))) == expected


def test_the_start_may_be_in_the_url(tmp_path, topic):
    topic.send(3)
    url = "kafka://a:9092/clicks?start=0:2"
    plan = make_plan(tmp_path, url=url)
    assert names(plan.next(at(0))) == ["clicks/0/2-3"]
    assert plan.next(at(0)).files["learn"][0].path == (
        "kafka://a:9092/clicks?partition=0&begin=2&end=3"
    )
    with pytest.raises(DataError, match="start: expected earliest"):
        make_plan(tmp_path, start="soon")
    with pytest.raises(DataError, match="expected a stream without partition, begin and end"):
        make_plan(tmp_path, url="kafka://a:9092/clicks?partition=0&begin=2&end=3")


def test_the_latest_messages_are_those_after_the_start(tmp_path, topic):
    topic.send(3)
    clock = Clock(lambda now: topic.send(10) if now == 1 else None)
    assert names(make_plan(tmp_path, start="latest", clock=clock).next(at(0))) == ["clicks/0/3-13"]


def test_passes_end_at_midnight(tmp_path, topic):
    topic.send(12, partition=0)
    topic.send(3, partition=1, time=NOON + 86_400)
    topic.send(1, partition=0, time=NOON + 86_400)
    plan = make_plan(tmp_path, seconds=0)
    specs = [plan.next(at(index)) for index in range(3)]
    assert [names(spec) for spec in specs] == [
        ["clicks/0/0-10"],
        ["clicks/0/10-12"],
        ["clicks/0/12-13", "clicks/1/0-3"],
    ]
    assert [(spec.day, spec.number, spec.ends_day) for spec in specs] == [
        ("20261118", 1, False),
        ("20261118", 2, True),
        ("20261119", 1, False),
    ]


def test_a_day_whose_messages_are_all_read_ends_with_an_empty_pass(tmp_path, topic):
    topic.send(2)
    plan = make_plan(tmp_path, seconds=0)
    assert not plan.next(at(0)).ends_day
    topic.send(2, time=NOON + 3 * 86_400)
    spec = plan.next(at(1))
    assert (names(spec), spec.ends_day, spec.number, spec.event_time) == ([], True, 2, NOON)
    spec = plan.next(at(2))
    assert (names(spec), spec.day, spec.number) == (["clicks/0/2-4"], "20261121", 1)


def test_messages_of_a_day_that_is_over_count_to_the_next(tmp_path, topic):
    topic.send(1)
    topic.send(1, time=NOON + 86_400)
    plan = make_plan(tmp_path, seconds=0)
    assert plan.next(at(0)).ends_day
    topic.send(1, partition=1)  # late
    spec = plan.next(at(1))
    assert (spec.day, names(spec)) == ("20261119", ["clicks/0/1-2", "clicks/1/0-1"])


def test_every_worker_gets_a_range(tmp_path, topic):
    group = SoloGroup(torch.device("cpu"))
    group.shard = DataShard(index=0, count=4)
    topic.send(8)
    spec = make_plan(tmp_path, seconds=0, group=group).next(at(0))
    assert names(spec) == ["clicks/0/0-2", "clicks/0/2-4", "clicks/0/4-6", "clicks/0/6-8"]


def test_a_run_ends_after_its_passes(tmp_path, topic):
    topic.send(30)
    plan = make_plan(tmp_path, num_passes=2)
    assert plan.next(at(1 - 1)) is not None
    assert plan.next(at(1)) is not None
    assert plan.next(at(2)) is None


def test_a_run_ends_with_the_last_message_before_a_time(tmp_path, topic):
    topic.send(12)
    topic.send(5, time=NOON + 60)
    plan = make_plan(tmp_path, until=NOON + 60, seconds=1000)
    assert names(plan.next(at(0))) == ["clicks/0/0-10"]
    assert names(plan.next(at(1))) == ["clicks/0/10-12"]  # at once: a later one is there
    assert plan.next(at(2)) is None


def test_a_stop_ends_the_waiting(tmp_path, topic):
    with pytest.raises(StopRequestedError):
        make_plan(tmp_path, should_stop=lambda: True).next(at(0))
    assert topic.num_closed == 1


def test_a_broker_that_does_not_answer_is_waited_for(tmp_path, topic, caplog):
    caplog.set_level(logging.INFO)
    topic.send(10)
    topic.failing = 500
    assert names(make_plan(tmp_path).next(at(0))) == ["clicks/0/0-10"]
    assert caplog.text.count("waiting for pass 0 of clicks") == 9  # in 500 s
    assert "no broker" in caplog.text


def test_a_stream_that_is_not_the_same_is_an_error(tmp_path, topic):
    topic.send(10)
    make_plan(tmp_path).next(at(0))
    del topic.partition[0][4:]
    with pytest.raises(DataError, match="ends at offset 4, but the last pass ended at 10"):
        make_plan(tmp_path).next(at(1))


def test_a_missing_manifest_is_an_error(tmp_path, topic):
    topic.send(10)
    with pytest.raises(CheckpointError, match="the manifest of pass 3, which says where pass 4"):
        make_plan(tmp_path).next(at(4))


def test_secrets_are_given_to_the_files_and_written_nowhere(tmp_path, topic):
    topic.send(10)
    client = (("sasl.password", "hunter2"),)
    plan = make_plan(tmp_path, client=client)
    (file,) = plan.next(at(0)).files["learn"]
    assert file.options == client
    (file,) = make_plan(tmp_path, client=client).known(0).files["learn"]
    assert file.options == client
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"clicks/0/0-10" in written
    assert b"hunter2" not in written
    assert "hunter2" not in repr(plan.options)
    assert "hunter2" not in str(plan.options.to_plain())


def test_passes_over_a_real_cluster_hold_every_message_once(tmp_path):
    cluster = KafkaCluster()
    values = [b"%d" % i for i in range(25)]
    cluster.send(*values[:15], partition=0)
    cluster.send(*values[15:], partition=3)
    plan = make_plan(tmp_path, url=cluster.url(), num_passes=3, seconds=0)
    read = []
    for index in range(3):
        for file in plan.next(at(index)).files["learn"]:
            with file.open() as stream:
                read += stream.read().splitlines()
    assert sorted(read) == sorted(values)
