"""A log directory that cannot be used at the start: the broker serves from the others."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.broker.metadata_image import NO_LEADER, TopicInfo
from headrace.cluster.store.catalog import Catalog
from headrace.cluster.store.stored_topic import StoredTopic
from headrace.cluster.topics.creation import NewTopic
from headrace.model.errors import ConfigError
from headrace.model.nouns import BrokerId
from headrace.posix.disk import RealDisk
from headrace.testing import BrokerThread
from headrace.testing.sim.cluster import SimCluster
from tests.support.cluster.peer_kit import play, started
from tests.support.sim.cluster import until

ONE, TWO = BrokerId(1), BrokerId(2)
PARTITIONS = 6


def produced(broker: BrokerThread) -> int:
    """Produce one record to each partition of t; how many were acknowledged."""
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.timeout.ms": 3000})
    for index in range(PARTITIONS):
        producer.produce(
            "t", b"v", partition=index, on_delivery=lambda e, _: errors.append(e) if e else None
        )
    producer.flush(10)
    return PARTITIONS - len(errors)


def ends(broker: BrokerThread) -> list[int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    found = [
        consumer.get_watermark_offsets(TopicPartition("t", index), timeout=10)[1]
        for index in range(PARTITIONS)
    ]
    consumer.close()
    return found


def test_broker_starts_when_only_one_of_two_log_directories_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = {"log.dirs": f"{tmp_path}/one,{tmp_path}/two"}
    with BrokerThread(config, directory=str(tmp_path)) as broker:
        broker.create_topics("t", partitions=PARTITIONS)
        assert produced(broker) == PARTITIONS
    there = len(list((tmp_path / "one").glob("t-*")))
    assert 0 < there < PARTITIONS
    (tmp_path / "two").rename(tmp_path / "away")
    (tmp_path / "two").touch()
    with BrokerThread(config, directory=str(tmp_path)) as broker:
        assert f"{tmp_path}/two: File exists: the broker starts without" in caplog.text
        assert produced(broker) == there, "no other directory stands in for the failed one"
        assert broker.call(lambda server: [each.fenced for each in server.directories]) == [
            False, True,
        ]  # fmt: skip
    assert len(list((tmp_path / "one").glob("t-*"))) == there
    (tmp_path / "two").unlink()
    (tmp_path / "away").rename(tmp_path / "two")
    with BrokerThread(config, directory=str(tmp_path)) as broker:
        assert sorted(ends(broker)) == [1] * (PARTITIONS - there) + [2] * there
        assert produced(broker) == PARTITIONS


def test_a_start_whose_directories_all_fail_logs_nothing_and_raises_one_sentence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As without the permission to write: the error says all, and no broker starts without them."""

    def refused(disk: RealDisk, path: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(RealDisk, "make_directory", refused)
    config = {"log.dirs": f"{tmp_path}/one,{tmp_path}/two", "broker.id": "0"}
    with pytest.raises(ConfigError) as refusal:
        BrokerThread(config, directory=str(tmp_path)).start()
    denied = "permission denied"
    assert str(refusal.value) == f"log.dirs={tmp_path}/one: {denied}; {tmp_path}/two: {denied}"
    assert [each for each in caplog.messages if "log directory" in each or "fenced" in each] == []


def test_no_directory_works_and_the_start_names_each(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).touch()
    config = {"log.dirs": f"{tmp_path}/one,{tmp_path}/two", "broker.id": "0"}
    with pytest.raises(ConfigError) as refusal:
        BrokerThread(config, directory=str(tmp_path)).start()
    assert str(refusal.value).startswith(f"log.dirs={tmp_path}/one: not a directory")


# --- in a cluster --------------------------------------------------------------------------------


def failing(disk: Any, path: str, *names: str) -> Callable[[], None]:
    """Have operations of the disk fail below `path`; returns what ends that."""
    before = {name: getattr(disk, name) for name in names}

    def wrapped(name: str) -> Callable[..., Any]:
        def fails(at: str, *args: Any, **options: Any) -> Any:
            reading = name == "open" and options.get("writable") is False
            if at.startswith(path) and not reading:
                raise OSError(errno.EROFS, "Read-only file system")
            return before[name](at, *args, **options)

        return fails

    for name in names:
        setattr(disk, name, wrapped(name))

    def end() -> None:
        for name, kept in before.items():
            setattr(disk, name, kept)

    return end


async def topics(cluster: SimCluster) -> dict[str, StoredTopic]:
    return await Catalog(cluster.ensemble.session()).topics()


READ_ONLY = ("open", "lock", "rename", "remove", "replace", "make_directory", "remove_tree")


@pytest.mark.parametrize("broken", [READ_ONLY, (*READ_ONLY, "list", "is_directory")])
@pytest.mark.parametrize("at", [0, 1])
def test_replicas_of_a_directory_that_failed_are_offline_until_it_is_back(
    at: int, broken: tuple[str, ...]
) -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1, 2)
        both = dict.fromkeys(range(4), (ONE, TWO))
        alone = dict.fromkeys(range(2), (ONE,))
        wanted = [NewTopic("t", assignment=both), NewTopic("u", assignment=alone)]
        assert all(isinstance(made, TopicInfo)
                   for made in await cluster.controller().create_topics(wanted))  # fmt: skip
        first, second = cluster.brokers[1].broker, cluster.brokers[2].broker
        await until(lambda: len(second.followed) == 4)
        lost = {(key.topic, key.partition) for key in first.directories[at].logs}
        held = {(key.topic, key.partition) for key in first.directories[1 - at].logs}
        assert len(lost) == len(held) == 3
        await cluster.stop(1)
        end = failing(cluster.worlds[1].sim_disk, first.directories[at].path, *broken)
        await started(cluster, 1)
        first = cluster.brokers[1].broker
        await until(lambda: first.partitions.keys() | first.followed.keys() == held)
        assert [each.fenced for each in first.directories] == [at == 0, at == 1]
        assert {(*log.topic_partition,) for log in first.logs()} == held
        for topic, index in lost:
            state = (await topics(cluster))[topic].states[index]
            assert state.leader == (TWO if topic == "t" else NO_LEADER)
            assert ONE not in state.isr or topic == "u"
        await cluster.stop(1)
        end()
        await started(cluster, 1)
        first = cluster.brokers[1].broker
        await until(lambda: len(first.partitions) + len(first.followed) == 6)
        states = (await topics(cluster))["u"].states
        assert [states[index].leader for index in (0, 1)] == [ONE, ONE]

    play(story, log_dirs="/a,/b")
