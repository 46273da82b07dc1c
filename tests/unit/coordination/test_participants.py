"""Markers in this broker's partitions: which there are, and what each says of its own."""

from pathlib import Path

from headrace.cluster.decisions.orders import Lead, Orders, Replication
from headrace.cluster.topics.creation import NewTopic
from headrace.coordination.transactions.markers import Marker
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition
from headrace.testing.disk import SimDisk
from tests.support.processes.broker import created, play, room, until

HERE, ABSENT = TopicPartition("t", 0), TopicPartition("absent", 0)


def test_a_partition_is_there_as_long_as_its_topic_is(tmp_path: Path) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk()) as here:
            await here.controller.create_topics([NewTopic("t", 1, 1)])
            participants = here.coordinators.participants
            assert participants.exists(HERE)
            here.broker.stop_partition(*HERE, delete=False)
            assert participants.exists(HERE), "led by another broker"
            await here.controller.delete_topics(["t"])
            assert not participants.exists(HERE)
            assert not participants.exists(TopicPartition("t", 7))

    play(story())


def test_each_partition_answers_for_itself_once_its_marker_is_committed(tmp_path: Path) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk()) as here:
            await here.controller.create_topics([NewTopic("t", 1, 1)])
            answers: dict[TopicPartition, ErrorCode | None] = {}

            def done(partition: TopicPartition, error: ApiError | None) -> None:
                assert partition not in answers
                answers[partition] = None if error is None else error.code

            marker = Marker(producer_id=7, epoch=0, commit=True, coordinator_epoch=1)
            here.coordinators.participants.write(marker, [ABSENT, HERE], done)
            assert answers == {ABSENT: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}, "not flushed yet"
            log = here.broker.partition(*HERE).log
            assert log.end_offset == 1
            await until(lambda: HERE in answers)
            assert answers[HERE] is None
            assert here.broker.partition(*HERE).high_watermark == 1

    play(story())


def test_a_marker_that_too_few_replicas_may_get_is_to_be_asked_for_again(tmp_path: Path) -> None:
    """Else all markers for that broker would wait behind it."""

    async def story() -> None:
        async with room(tmp_path, SimDisk()) as here:
            wanted = NewTopic("t", 1, 1, config={"min.insync.replicas": "2"})
            (topic,) = await created(here, wanted)
            own = here.broker.broker_id
            both = (own, BrokerId(own + 1))
            lead = Replication(HERE, topic.topic_id, own, LeaderEpoch(7), both, both, 1)
            take, epoch = here.controller.applier.take, here.controller.applier.controller_epoch
            await take(Orders(epoch, -1, [Lead(lead)]))
            told: list[ErrorCode] = []

            def done(partition: TopicPartition, error: ApiError | None) -> None:
                told.append(ErrorCode.NONE if error is None else error.code)

            marker = Marker(producer_id=7, epoch=0, commit=True, coordinator_epoch=1)
            here.coordinators.participants.write(marker, [HERE], done)
            log = here.broker.partition(*HERE).log
            await until(lambda: log.flushed_offset == 1)
            assert told == []
            alone = lead._replace(isr=(own,), partition_epoch=2)
            await take(Orders(epoch, -1, [Lead(alone)]))
            assert told == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]

    play(story())
