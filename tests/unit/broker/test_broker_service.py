"""What a broker shows, flushes and refuses as its partitions and directories come and go."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.broker.metadata_image import ImageDelta
from headrace.cluster.topics.creation import NewTopic
from headrace.log.directory.new_log import NewLog
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition
from headrace.testing.clock import SimClock
from tests.support.processes.broker import Room, created, until
from tests.unit.broker.test_broker import TWO, fail, tell

if TYPE_CHECKING:
    from headrace.broker.partition import Partition

T0 = TopicPartition("t", 0)


def advance(here: Room, seconds: float) -> None:
    clock = here.broker.clock
    assert isinstance(clock, SimClock)
    clock.advance(seconds)


def offline(here: Room) -> list[int]:
    """On which brokers clients see t-0 out of service."""
    return list(here.broker.image.topics["t"].partitions[0].offline)


def test_a_partition_that_could_not_be_led_is_shown_offline_until_it_is_led(
    tmp_path: Path,
) -> None:
    async def story(here: Room) -> None:
        (topic,) = await created(here, NewTopic("t", 1))
        broker = here.broker
        config = broker.partition("t", 0).log.config
        as_led = {"t": list(broker.image.topics["t"].partitions)}
        broker.follow_partition(
            NewLog(T0, topic.topic_id, config), BrokerId(7), LeaderEpoch(7), unclean=False
        )
        broker.refuse_partition("t", 0)
        broker.publish(ImageDelta(partitions=as_led))
        assert offline(here) == [broker.broker_id]
        broker.lead_partition(NewLog(T0, topic.topic_id, config), LeaderEpoch(8))
        broker.publish(ImageDelta(partitions=as_led))
        assert offline(here) == []
        assert broker.image.topics["t"].partitions[0].leader == broker.broker_id

    tell(tmp_path, story)


def test_a_log_is_refused_as_a_storage_error_where_no_directory_works(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await created(here, NewTopic("t", 1))
        config = here.broker.partition("t", 0).log.config
        for directory in here.broker.directories:
            fail(directory)
        new = NewLog(TopicPartition("u", 0), bytes(range(16)), config)
        with pytest.raises(ApiError, match="no log directory is writable") as refused:
            here.broker.lead_partition(new, LeaderEpoch(0))
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR

    tell(tmp_path, story, TWO, kill=True)


def test_a_new_topic_is_flushed_after_its_own_interval(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await created(here, NewTopic("t", 1, config={"flush.ms": "1000"}))
        await until(lambda: True)
        log = here.broker.partition("t", 0).log
        here.write("t")
        advance(here, 0.9)
        await until(lambda: True)
        assert log.flushed_offset == 0
        advance(here, 1.2)
        await until(lambda: log.flushed_offset == 1)

    tell(tmp_path, story, log_flush_on_ack="false")


def test_an_interval_that_a_topic_is_given_later_is_kept(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await created(here, NewTopic("t", 1))
        log = here.broker.partition("t", 0).log
        here.broker.reconfigure_topic("t", replace(log.config, flush_ms=1000))
        await until(lambda: True)
        here.write("t")
        advance(here, 2.1)
        await until(lambda: log.flushed_offset == 1)

    tell(tmp_path, story, log_flush_on_ack="false")


def test_who_stops_leads_nothing_any_more(tmp_path: Path) -> None:
    led: list[Partition] = []

    async def story(here: Room) -> None:
        await created(here, NewTopic("t", 1))
        led.append(here.broker.partition("t", 0))
        assert led[0].refusal is None

    tell(tmp_path, story)
    assert led[0].refusal is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_log_that_cannot_be_renamed_away_is_not_told_as_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(here: Room) -> None:
        await created(here, NewTopic("t", 1))

        def fails(source: str, target: str) -> None:
            raise OSError(5, f"{source} stays")

        monkeypatch.setattr(here.disk, "rename", fails)
        assert not here.broker.stop_partition("t", 0, delete=True)
        assert here.broker.directories[0].fenced

    tell(tmp_path, story, kill=True)


def test_logs_are_prepared_in_working_directories_only(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await created(here, NewTopic("t", 1))
        config = here.broker.partition("t", 0).log.config
        broken, working = here.broker.directories
        fail(broken)
        keys = [TopicPartition("u", index) for index in range(2)]
        done: list[BaseException | None] = []
        wanted = [NewLog(key, bytes(range(16)), config) for key in keys]
        here.broker.prepare_partitions(wanted, done.append)
        await until(lambda: done)
        assert done == [None]
        assert [working.prepared(key) for key in keys] == [True, True]
        assert [broken.prepared(key) for key in keys] == [False, False]

    tell(tmp_path, story, TWO, kill=True)
