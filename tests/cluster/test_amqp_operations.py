"""Queues of a cluster operated: grown, shrunk and balanced; brokers drained and restarted."""

import json
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pika.exceptions import AMQPConnectionError, ConnectionClosedByBroker

from headrace.queues.queue_names import queue_topic
from tests.support.cluster.amqp_cluster import AmqpCluster
from tests.support.cluster.broker_cluster import until
from tests.support.processes.cli_kit import SCHEMAS, check
from tests.support.processes.process import HEADRACE
from tests.support.zookeeper import ZooKeeper

PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture(scope="module")
def brokers(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: ZooKeeper
) -> Iterator[AmqpCluster]:
    place = tmp_path_factory.mktemp("amqp")
    with AmqpCluster(place, zookeeper.hosts, auto_leader_rebalance_enable="false") as found:
        yield found


@pytest.fixture
def cluster(brokers: AmqpCluster) -> Iterator[AmqpCluster]:
    """Three brokers, all of which run again for the next test."""
    yield brokers
    brokers.mend()


def ask(cluster: AmqpCluster, *words: str, at: int | None = None) -> tuple[int, Any]:
    """Run `headrace amqp` with JSON output; return its exit code and the value."""
    bootstrap = cluster.bootstrap if at is None else cluster.brokers[at].bootstrap
    done = subprocess.run(
        [HEADRACE, "amqp", *words, "--json", "--bootstrap-server", bootstrap],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout, done.stderr
    verb = [word for word in words if word[0].isalpha()][
        : 2 if words[0] in {"queue", "broker"} else 1
    ]
    answer = json.loads(done.stdout)
    check(json.loads((SCHEMAS / f"amqp-{'-'.join(verb)}.json").read_text()), answer)
    return done.returncode, answer


def row(cluster: AmqpCluster, name: str, at: int | None = None) -> dict[str, Any]:
    """Return the row of a queue in `amqp queue list`."""
    code, rows = ask(cluster, "queue", "list", at=at)
    assert code == 0
    (found,) = [found for found in rows if found["name"] == name]
    return dict(found)


def declare(cluster: AmqpCluster, name: str, members: int, *, at: int = 0, count: int = 0) -> None:
    """Declare a quorum queue, and publish messages to it with confirms."""
    arguments: Any = {"x-queue-type": "quorum", "x-quorum-initial-group-size": members}
    with cluster.channel(at, confirms=True) as channel:
        channel.queue_declare(name, durable=True, arguments=arguments)
        for number in range(count):
            channel.basic_publish("", name, str(number).encode(), PERSISTENT, mandatory=True)


def drained_queue(cluster: AmqpCluster, name: str, at: int) -> list[int]:
    """Get and acknowledge all messages of a queue; return their bodies."""
    found: list[int] = []
    with cluster.channel(at) as channel:
        while True:
            method, _, body = channel.basic_get(name)
            if method is None:
                return found
            found.append(int(body))
            channel.basic_ack(method.delivery_tag)


def test_queue_grows_and_shrinks_with_its_messages(cluster: AmqpCluster) -> None:
    declare(cluster, "grown", 1, at=0, count=50)
    before = row(cluster, "grown")
    assert (before["members"], before["leader"], before["min_in_sync"]) == ([0], 0, 1)
    for broker in (1, 2):
        code, moved = ask(cluster, "queue", "grow", str(broker), "--queue", "grown")
        assert (code, moved[0]["members"]) == (0, [*range(broker + 1)])
    for at in range(3):
        now = row(cluster, "grown", at)
        assert now["members"] == now["online"] == [0, 1, 2]
        assert sorted(now["in_sync"]) == [0, 1, 2]
        counts = now["messages_ready"], now["messages"], now["consumers"]
        assert (now["state"], now["min_in_sync"], counts) == ("running", 2, (50, 50, 0))
    assert ask(cluster, "queue", "grow", "2", "--queue", "grown") == (0, [])
    cluster.brokers[0].kill()
    cluster.until_queue_led("grown", (0,))
    cluster.mend()
    cluster.until_in_sync(queue_topic("/", "grown"))
    code, moved = ask(cluster, "queue", "shrink", "0", "--queue", "grown")
    assert code == 0
    assert row(cluster, "grown")["members"] == [1, 2]
    assert drained_queue(cluster, "grown", at=0) == [*range(50)]


def test_unused_queue_is_created_on_the_members_that_were_planned(cluster: AmqpCluster) -> None:
    declare(cluster, "unused", 1)
    assert row(cluster, "unused")["topic"] is None
    assert ask(cluster, "queue", "grow", "2", "--queue", "unused")[0] == 0
    assert row(cluster, "unused", at=1)["members"] == [0, 2]
    declare(cluster, "unused", 1, at=1, count=1)
    found = row(cluster, "unused")
    assert (found["members"], found["min_in_sync"]) == ([0, 2], 2)


def test_last_member_stays_and_a_minority_is_refused(cluster: AmqpCluster) -> None:
    declare(cluster, "alone", 1, count=1)
    code, (refused,) = ask(cluster, "queue", "shrink", "0", "--queue", "alone")
    assert (code, refused["members"]) == (1, [0])
    assert "last member" in refused["error"]["message"]
    declare(cluster, "pair", 2, count=1)
    until(lambda: sorted(row(cluster, "pair")["in_sync"]) == [0, 1], "both in sync")
    code, found = ask(cluster, "queue", "critical", "1")
    assert (code, [each["name"] for each in found if each["name"] == "pair"]) == (1, ["pair"])
    cluster.brokers[1].kill()
    until(lambda: row(cluster, "pair", at=0)["in_sync"] == [0], "one is in sync")
    assert row(cluster, "pair", at=0)["state"] == "minority"
    code, (refused,) = ask(cluster, "queue", "grow", "2", "--queue", "pair", at=0)
    assert (code, refused["members"]) == (1, [0, 1])
    assert "no majority: 1 of 2" in refused["error"]["message"]


def told(cluster: AmqpCluster, *words: str) -> tuple[int, str]:
    """Run `headrace amqp`; return its exit code and its standard error."""
    done = subprocess.run(
        [HEADRACE, "amqp", *words, "--bootstrap-server", cluster.bootstrap],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stderr


def test_broker_that_is_not_registered_is_not_found(cluster: AmqpCluster) -> None:
    for words in (
        ["drain", "9"], ["revive", "9"], ["queue", "grow", "9", "--all"],
        ["queue", "shrink", "9", "--all"],
    ):  # fmt: skip
        code, text = told(cluster, *words)
        assert (code, "broker 9 is not registered" in text) == (4, True), words


def test_queue_does_not_grow_onto_a_dead_broker_and_leaves_it(cluster: AmqpCluster) -> None:
    declare(cluster, "left", 3, count=1)
    cluster.until_in_sync(queue_topic("/", "left"))
    cluster.brokers[2].kill()
    until(lambda: 2 not in cluster.admin().list_topics(timeout=10).brokers, "it is dead")
    code, text = told(cluster, "queue", "grow", "2", "--queue", "left")
    assert code != 0
    assert "broker 2 " in text
    assert told(cluster, "queue", "shrink", "2", "--queue", "left")[0] == 0
    assert row(cluster, "left", at=0)["members"] == [0, 1]


def test_drain_of_the_last_broker_warns(cluster: AmqpCluster) -> None:
    warnings = [
        "no other broker accepts AMQP clients" in told(cluster, "drain", str(broker))[1]
        for broker in range(3)
    ]
    for broker in range(3):
        assert told(cluster, "revive", str(broker))[0] == 0
    assert warnings == [False, False, True]


def test_leaders_are_balanced_and_consumers_stay(cluster: AmqpCluster) -> None:
    names = [f"balanced-{number}" for number in range(6)]
    for name in names:
        declare(cluster, name, 3, at=0, count=1)
        cluster.until_in_sync(queue_topic("/", name))
    assert {row(cluster, name)["leader"] for name in names} == {0}
    with cluster.channel(1) as channel:
        got: list[bytes] = []
        for name in names:
            channel.basic_consume(name, lambda at, method, _, body: got.append(body), auto_ack=True)
        channel.connection.process_data_events(2)
        code, moved = ask(cluster, "queue", "rebalance", "quorum", "--queue", "balanced-.*")
        assert code == 0
        assert len(moved) == 4
        led = [row(cluster, name)["leader"] for name in names]
        assert sorted(led) == [0, 0, 1, 1, 2, 2]
        for name in names:
            declare(cluster, name, 3, at=2, count=1)
        until(lambda: channel.connection.process_data_events(0.1) or len(got) >= 12, "all arrive")
        assert len(got) == 12
    assert ask(cluster, "queue", "rebalance", "quorum", "--queue", "balanced-.*")[1] == []


def test_drained_broker_leads_nothing_and_serves_nobody_until_it_is_revived(
    cluster: AmqpCluster,
) -> None:
    declare(cluster, "kept", 3, at=0, count=20)
    cluster.until_in_sync(queue_topic("/", "kept"))
    connection = cluster.connect_to(0)
    code, answer = ask(cluster, "drain", "0")
    assert code == 0
    alone = [each["topic"] for each in answer["leads"]]
    assert queue_topic("/", "kept") not in alone
    with pytest.raises(ConnectionClosedByBroker) as closed:
        connection.process_data_events(10)
    text = "CONNECTION_FORCED - Node was put into maintenance mode"
    assert (closed.value.reply_code, closed.value.reply_text) == (320, text)
    with pytest.raises(AMQPConnectionError):
        cluster.connect_to(0)
    declare(cluster, "later", 3, at=1, count=1)
    assert row(cluster, "later")["leader"] != 0
    assert cluster.brokers[0].stop() == 0
    cluster.mend()
    cluster.until_in_sync(queue_topic("/", "kept"))
    with pytest.raises(AMQPConnectionError):
        cluster.connect_to(0)
    found = row(cluster, "kept")
    assert found["leader"] != 0
    assert sorted(found["in_sync"]) == [0, 1, 2]
    listed = {each["broker"]: each for each in ask(cluster, "broker", "list")[1]}
    assert [listed[number]["drained"] for number in range(3)] == [True, False, False]
    assert all(each["serves_queues"] for each in listed.values())
    (shown,) = ask(cluster, "queue", "show", "kept")[1]
    assert (shown["members"], shown["messages"]) == (found["members"], 20)
    assert ask(cluster, "revive", "0") == (0, {"broker": 0, "drained": False})
    until(lambda: not cluster.connect_to(0).close(), "clients are accepted")
    assert drained_queue(cluster, "kept", at=0) == [*range(20)]


def test_rolling_restart_loses_nothing_and_clients_of_other_brokers_go_on(
    cluster: AmqpCluster,
) -> None:
    declare(cluster, "rolled", 3, at=0)
    confirmed: list[int] = []
    consumed: list[int] = []
    gap = 0.0
    for stopped in range(3):
        home = (stopped + 1) % 3
        with cluster.channel(home, confirms=True) as channel:
            channel.basic_consume(
                "rolled", lambda at, method, _, body: consumed.append(int(body)), auto_ack=True
            )
            for step in range(60):
                if step == 20:
                    assert cluster.brokers[stopped].stop() == 0
                began = time.monotonic()
                number = len(confirmed)
                channel.basic_publish("", "rolled", str(number).encode(), PERSISTENT)
                gap = max(gap, time.monotonic() - began)
                confirmed.append(number)
            until(
                lambda channel=channel: (
                    channel.connection.process_data_events(0.1) or set(consumed) >= set(confirmed)
                ),  # type: ignore[misc]
                "all are consumed",
            )
        cluster.mend()
        cluster.until_in_sync(queue_topic("/", "rolled"))
    assert set(consumed) == set(confirmed)
    assert gap < 5
    print(f"longest confirm during a rolling restart: {gap:.3f} s")
