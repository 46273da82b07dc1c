"""The rows of `make bench PEER=rocketmq`: judged, bounded, and their load counted."""

import shutil

import pytest

from bench import rocketmq_load
from bench.rocketmq_brokers import RocketmqHeadrace, RocketmqPeer, flush_type
from bench.rocketmq_rows import rocketmq_rows
from bench.rocketmq_sections import rocketmq_sections
from headrace.testing import BrokerThread
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import SETTINGS, fields, port_of

_UNJUDGED = "offsets stored"


def test_rows_and_sections_differ_and_all_have_a_bound() -> None:
    rows = [*rocketmq_rows(False), *rocketmq_rows(True)]
    sections = rocketmq_sections(1.0)
    titles = [row.title for row in rows] + [section.title for section in sections]
    assert len(set(titles)) == len(titles)
    bounds = [row.seconds_max for row in rows] + [one.seconds_max for one in sections]
    assert all(0 < bound <= 900 for bound in bounds)
    assert [row.name for row in rows if not row.goals] == [
        row.name for row in rows if _UNJUDGED in row.name
    ]


@pytest.mark.parametrize(
    ("wanted", "unit", "worse", "good"),
    [
        ("sync sends, 1 thread", "messages/s", 1.19, 1.2),
        ("sync sends, 16 threads", "messages/s", 1.19, 1.2),
        ("async sends", "messages/s", 1.19, 1.2),
        ("push", "messages/s", 1.19, 1.2),
        ("sent to received", "p99 ms", 0.68, 0.67),
        ("prepared frames, sends", "messages/s", 1.49, 1.5),
        ("prepared frames, sends", "CPU-us/message", 0.51, 0.5),
        ("prepared frames, pulls", "messages/s", 1.49, 1.5),
        ("prepared frames, pulls", "CPU-us/message", 0.51, 0.5),
        ("memory", "RSS MB", 0.16, 0.15),
    ],
)
def test_each_row_is_judged(wanted: str, unit: str, worse: float, good: float) -> None:
    (row,) = [row for row in rocketmq_rows(False) if wanted in row.title]
    assert row.goals[unit].met(good)
    assert not row.goals[unit].met(worse)


def test_start_and_thousands_of_queues_are_judged() -> None:
    started, queues = rocketmq_sections(1.0)
    assert not started.goals["exec to first ack s"].met(0.11)
    assert not started.goals["idle: RSS MB"].met(0.16)
    assert not queues.ceilings["most queues / one queue"].met(0.69)
    for count in ("1", "1,000", "10,000"):
        assert not queues.goals[f"{count} queues: messages/s"].met(0.99)


@pytest.mark.parametrize("durable", [False, True])
def test_ours_flushes_only_beside_rocketmq_s_sync_flush(durable: bool) -> None:
    broker = RocketmqHeadrace(durable)
    broker.place()
    try:
        written = (broker.directory / "server.properties").read_text()
    finally:
        broker.remove()
    assert f"log.flush.on.ack={str(durable).lower()}\n" in written
    assert f"ROCKETMQ://{broker.name_server}" in written


@pytest.mark.parametrize("durable", [False, True])
def test_rocketmq_has_its_own_defaults_on_the_loopback(durable: bool) -> None:
    broker = RocketmqPeer(durable)
    broker.place()
    try:
        lines = (broker.directory / "broker.conf").read_text().splitlines()
    finally:
        broker.remove()
    written = dict(line.split("=", 1) for line in lines)
    assert written["flushDiskType"] == flush_type(durable)
    assert {written[name] for name in ("brokerIP1", "bindAddress")} == {"127.0.0.1"}
    assert set(written) - {"brokerIP1", "bindAddress", "flushDiskType"} == {
        "brokerClusterName", "brokerName", "brokerId", "listenPort", "haListenPort",
        "namesrvAddr", "storePathRootDir", "storePathCommitLog",
    }  # fmt: skip


@pytest.mark.slow  # builds a program in Go
@pytest.mark.skipif(shutil.which("go") is None, reason="the load generator is a program in Go")
def test_the_load_generator_sends_pulls_and_commits_what_it_says() -> None:
    with BrokerThread(SETTINGS) as broker:
        address = f"127.0.0.1:{port_of(broker)}"
        rocketmq_load.run("create", address, topic="load", queues=3)
        sent = rocketmq_load.run(
            "send", address, topic="load", queues=3, messages=3000, connections=2, size=100
        )
        assert (sent.messages, sent.failed) == (3000, 0)
        assert sent.per_second > 1000
        assert 0 < sent.cpu < 10
        assert rocketmq_load.run("pull", address, topic="load", queues=3, messages=3000)[0] == 3000
        committed = rocketmq_load.run("commit", address, topic="load", queues=3, seconds=0.1)
        assert committed.messages > 64
        with RemotingClient(port_of(broker)) as client:
            ends = [client.call(30, {"topic": "load", "queueId": queue}) for queue in range(3)]
            assert sum(int(fields(end)["offset"]) for end in ends) == 3000
            (message,) = messages_in(client.pull("load", maxMsgNums=1))
            assert len(message.body) == 100
        rocketmq_load.run("remove", address, topic="load")
    with pytest.raises(RuntimeError, match="load generator, send: "):
        rocketmq_load.run("send", address, messages=1)
