"""What a broker does with its controller's orders: in which order, and what it refuses."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from headrace.broker.metadata_image import ImageDelta, MetadataImage, TopicInfo
from headrace.broker.replica.former_terms import FormerTerm
from headrace.broker.replica.in_sync_replicas import Replicas
from headrace.cluster.decisions.changes import DELETED_EPOCH
from headrace.cluster.decisions.orders import Follow, Lead, Order, Orders, Replication, Stop
from headrace.cluster.membership.applier import APPLIED_PER_TURN, PREPARED_AT_ONCE, Applier
from headrace.config.log_config import LogConfig
from headrace.log.directory.new_log import NewLog
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition

ZERO = BrokerId(0)
ID = bytes(16)
DELTA = ImageDelta(controller_id=ZERO)


class HandBroker:
    """Notes what it is told to do."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.broker_id = ZERO
        self.partitions: dict[tuple[str, int], object] = {}
        self.followed: dict[tuple[str, int], object] = {}
        self.replicas: set[TopicPartition] = set()
        self.image = MetadataImage("cluster")
        self.offline: set[TopicPartition] = set()
        self.sync_error: OSError | None = None
        self.may_commit: dict[TopicPartition, Callable[[], bool]] = {}

    def has_replica(self, key: TopicPartition) -> bool:
        return key in self.replicas

    def prepare_partitions(self, logs: Sequence[NewLog], done: Callable[[Any], None]) -> None:
        assert all(log.topic_id == ID for log in logs)
        self.done.append(("prepare", [log.topic_partition.partition for log in logs]))
        done(None)

    def lead_partition(
        self, new: NewLog, epoch: LeaderEpoch, replicas: Replicas, may_commit: Callable[[], bool]
    ) -> None:
        assert (replicas.own, replicas.assigned, replicas.in_sync) == (ZERO, (ZERO,), (ZERO,))
        self.may_commit[new.topic_partition] = may_commit
        if new.topic_partition in self.offline:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        assert new.topic_id == ID
        self.done.append(("lead", new.topic_partition.partition, epoch))

    def follow_partition(
        self, new: NewLog, leader: BrokerId, epoch: LeaderEpoch, *, unclean: bool
    ) -> None:
        assert (leader, unclean) == (ZERO, False)
        self.done.append(("follow", new.topic_partition.partition, epoch))

    def refuse_partition(self, topic: str, index: int) -> None:
        self.done.append(("refuse", index))

    def stop_partition(self, topic: str, index: int, *, delete: bool) -> bool:
        self.done.append(("stop", index, delete))
        return TopicPartition(topic, index) not in self.offline

    def publish(self, delta: ImageDelta) -> None:
        self.done.append("publish")

    def sync_directories(self, done: Callable[[Any], None]) -> None:
        self.done.append("sync")
        done(self.sync_error)


class Here:
    """An applier and its broker."""

    def __init__(self) -> None:
        self.broker = HandBroker()
        self.asked: list[tuple[str, Mapping[str, str]]] = []
        self.applier = Applier(self.broker, self.log_config)  # type: ignore[arg-type]

    def log_config(self, name: str, config: Mapping[str, str]) -> LogConfig:
        self.asked.append((name, config))
        return LogConfig()

    def take(
        self,
        *orders: Order,
        controller_epoch: int = 0,
        broker_epoch: int = -1,
        delta: ImageDelta = DELTA,
    ) -> dict[TopicPartition, ErrorCode]:
        self.broker.done.clear()
        message = Orders(controller_epoch, broker_epoch, orders, delta)
        return asyncio.run(self.applier.take(message))


def what(index: int, epoch: int = 0, *, is_new: bool = True) -> Replication:
    key = TopicPartition("t", index)
    return Replication(key, ID, ZERO, LeaderEpoch(epoch), (ZERO,), (ZERO,), 0, is_new)


def stop(index: int, epoch: int = 0, *, delete: bool = True) -> Stop:
    return Stop(TopicPartition("t", index), ID, LeaderEpoch(epoch), delete)


def test_logs_are_made_then_led_then_shown_and_what_goes_goes_last() -> None:
    here = Here()
    assert here.take(stop(2), Lead(what(0, 3)), Follow(what(1))) == {}
    assert here.broker.done == [
        ("prepare", [0, 1]),
        ("lead", 0, 3),
        ("follow", 1, 0),
        "publish",
        ("stop", 2, True),
        "sync",
    ]


@pytest.mark.parametrize(("epoch", "taken"), [(4, False), (5, True), (6, True)])
def test_orders_of_a_controller_that_was_replaced_are_refused_whole(
    epoch: int, taken: bool
) -> None:
    here = Here()
    here.take(controller_epoch=5)
    if taken:
        here.take(controller_epoch=epoch)
        assert here.applier.controller_epoch == epoch
        return
    with pytest.raises(ApiError) as refused:
        here.take(Lead(what(0)), controller_epoch=epoch)
    assert refused.value.code is ErrorCode.STALE_CONTROLLER_EPOCH
    assert here.broker.done == []
    assert here.applier.controller_epoch == 5


@pytest.mark.parametrize(
    ("epoch", "taken"), [(-1, True), (0, False), (6, False), (7, True), (8, True)]
)
def test_orders_for_a_registration_that_is_over_are_refused_whole(epoch: int, taken: bool) -> None:
    here = Here()
    here.applier.broker_epoch = 7
    if taken:
        assert here.take(broker_epoch=epoch) == {}
        return
    with pytest.raises(ApiError) as refused:
        here.take(Lead(what(0)), broker_epoch=epoch)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
    assert here.broker.done == []


def test_leader_may_commit_alone_by_an_order_for_its_present_registration() -> None:
    here = Here()
    key = TopicPartition("t", 0)
    here.applier.broker_epoch = 7
    here.take(Lead(what(0, 5)), broker_epoch=7)
    may_commit = here.broker.may_commit[key]
    assert may_commit()
    here.applier.may_commit = lambda: False
    assert not may_commit(), "the lease does not hold"
    here.applier.may_commit = lambda: True
    here.applier.broker_epoch = 8  # registered again
    assert not may_commit()
    here.take(Lead(what(0, 5)), broker_epoch=9)  # its third registration, known here later
    assert not may_commit()
    here.applier.broker_epoch = 9
    assert may_commit()


def test_an_order_under_an_older_epoch_is_refused_by_itself() -> None:
    here = Here()
    here.take(Lead(what(0, 5)), Lead(what(1, 5)), Follow(what(2, 5)))
    failed = here.take(Lead(what(0, 4)), Lead(what(1, 5)), stop(2, 4))
    fenced = ErrorCode.FENCED_LEADER_EPOCH
    assert failed == {TopicPartition("t", 0): fenced, TopicPartition("t", 2): fenced}
    assert here.broker.done == [("prepare", [1]), ("lead", 1, 5), "publish"]
    assert here.take(stop(2, 5, delete=False)) == {}
    assert here.broker.done == ["publish", ("stop", 2, False)], "nothing is gone for good"
    assert here.take(Follow(what(2, 0))) == {}, "what is not here any more begins anew"


def test_epoch_of_a_former_process_does_not_fence_another_topic_of_the_name() -> None:
    here = Here()
    key = TopicPartition("t", 0)
    here.applier.former_terms = {key: FormerTerm(ID, LeaderEpoch(3))}
    assert here.take(Lead(what(0, 3))) == {key: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    here.applier.former_terms = {key: FormerTerm(None, LeaderEpoch(3))}
    assert here.take(Lead(what(0, 3))) == {key: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    here.applier.former_terms = {key: FormerTerm(bytes([1] * 16), LeaderEpoch(3))}
    assert here.take(Lead(what(0, 3))) == {}


def test_a_deletion_is_never_too_old() -> None:
    here = Here()
    here.take(Lead(what(0, 5)))
    assert here.take(stop(0, int(DELETED_EPOCH))) == {}
    assert ("stop", 0, True) in here.broker.done


def test_a_log_that_should_be_there_and_is_not_is_refused_and_not_made() -> None:
    here = Here()
    here.broker.replicas = {TopicPartition("t", 1)}
    here.broker.partitions = {("t", 3): object()}
    failed = here.take(*(Lead(what(index, is_new=index == 2)) for index in range(4)))
    assert failed == {TopicPartition("t", 0): ErrorCode.KAFKA_STORAGE_ERROR}
    assert here.broker.done == [
        ("prepare", [2]),
        ("refuse", 0),
        ("lead", 1, 0),
        ("lead", 2, 0),
        ("lead", 3, 0),
        "publish",
    ]


def test_a_log_that_cannot_be_led_is_told_and_the_others_are() -> None:
    here = Here()
    here.broker.offline = {TopicPartition("t", 0)}
    failed = here.take(Lead(what(0)), Lead(what(1)))
    assert failed == {TopicPartition("t", 0): ErrorCode.KAFKA_STORAGE_ERROR}
    assert ("lead", 1, 0) in here.broker.done


def test_logs_are_made_five_hundred_at_once() -> None:
    assert PREPARED_AT_ONCE == 500
    here = Here()
    here.take(*(Lead(what(index)) for index in range(1001)))
    prepared = [step[1] for step in here.broker.done if step[0] == "prepare"]
    assert [len(indexes) for indexes in prepared] == [500, 500, 1]
    assert [index for indexes in prepared for index in indexes] == list(range(1001))


@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize(("count", "turns"), [(9, 0), (10, 1), (19, 1), (20, 2)])
def test_others_have_their_turn_after_every_ten_orders(
    monkeypatch: pytest.MonkeyPatch, stops: bool, count: int, turns: int
) -> None:
    assert APPLIED_PER_TURN == 10
    here = Here()
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("headrace.cluster.membership.applier.asyncio.sleep", sleep)
    if stops:
        here.take(*(stop(index, delete=False) for index in range(count)))
    else:
        here.take(*(Follow(what(index)) for index in range(count)))
    assert slept == [0] * turns


def test_a_deletion_that_fails_or_may_not_last_is_told() -> None:
    here = Here()
    here.broker.offline = {TopicPartition("t", 0)}
    error = ErrorCode.KAFKA_STORAGE_ERROR
    assert here.take(stop(0), stop(1)) == {TopicPartition("t", 0): error}
    assert here.broker.done.count("sync") == 1
    here.broker.offline.clear()
    here.broker.sync_error = OSError(5, "input/output error")
    assert here.take(stop(0), stop(1), stop(2, delete=False)) == {
        TopicPartition("t", 0): error,
        TopicPartition("t", 1): error,
    }


def test_a_logs_settings_are_those_of_the_topic_as_it_is_to_be_shown() -> None:
    here = Here()
    shown = TopicInfo("t", ID, (), internal=False, config={"segment.bytes": "1"})
    here.take(Lead(what(0)))
    assert here.asked == [("t", {})], "a topic that nobody knows has none"
    here.broker.image.apply(ImageDelta(topics=(shown,)))
    here.take(Lead(what(0)))
    assert here.asked[1:] == [("t", {"segment.bytes": "1"})]
    delta = ImageDelta(topics=(replace(shown, config={"segment.bytes": "2"}),))
    here.take(Lead(what(0)), Lead(what(1)), delta=delta)
    assert here.asked[2:] == [("t", {"segment.bytes": "2"})], "once for all its logs"
    here.take(Follow(what(1)), stop(0))
    assert len(here.asked) == 4, "what is led and what follows has a log"
    here.take(stop(0))
    assert len(here.asked) == 4
