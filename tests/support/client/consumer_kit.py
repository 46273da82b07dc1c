"""Members of the newer protocol (KIP-848) as a client library would behave, over `groups_kit`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.broker.metadata_image import ImageDelta, MetadataImage, PartitionInfo, TopicInfo
from headrace.coordination.groups.assignors.spec import Partitions
from headrace.coordination.groups.consumer.group import ConsumerGroup
from headrace.coordination.groups.consumer.messages import HeartbeatRequest
from headrace.coordination.groups.consumer.model import OwnedPartitions
from headrace.coordination.groups.modern.heartbeat import HeartbeatAnswer
from headrace.model.errors import ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch
from tests.support.coordination.groups_kit import Room, Settings

NONE = ErrorCode.NONE


def topic_id(name: str) -> bytes:
    """A topic's id, made of its name."""
    return name.encode().rjust(16, b"\x01")[-16:]


def cluster(topics: Mapping[str, int]) -> MetadataImage:
    """A picture of one broker with these topics, each with so many partitions."""
    image = MetadataImage("cluster")
    image.apply(ImageDelta(_topics(topics)))
    return image


def _topics(topics: Mapping[str, int]) -> list[TopicInfo]:
    broker = BrokerId(0)
    return [
        TopicInfo(
            name,
            topic_id(name),
            tuple(
                PartitionInfo(one, broker, LeaderEpoch(0), (broker,), (broker,))
                for one in range(count)
            ),
        )
        for name, count in topics.items()
    ]


def grown(room: Room, topics: Mapping[str, int]) -> None:
    """The cluster has these topics now."""
    gone = room.image.topics.keys() - topics.keys()
    room.image.apply(ImageDelta(_topics(topics), removed=sorted(gone)))


def group_of(room: Room, name: str = "g") -> ConsumerGroup:
    """The group's insides."""
    group = room.groups.shard(name).modern[name]
    assert isinstance(group, ConsumerGroup)
    return group


def ask(room: Room, request: HeartbeatRequest) -> list[HeartbeatAnswer[OwnedPartitions]]:
    """The list holds the answer once there is one."""
    answers: list[HeartbeatAnswer[OwnedPartitions]] = []
    room.groups.consumer_heartbeat(request, answers.append)
    return answers


@dataclass
class Consumer:
    """One consumer: says what it owns, gives up at once what it is to give up."""

    room: Room
    member_id: str
    topics: frozenset[str] | None = frozenset({"t"})
    regex: str | None = None
    instance: str | None = None
    assignor: str | None = None
    rebalance_ms: int = 30_000
    epoch: int = 0
    owned: Partitions = field(default_factory=dict)
    interval_ms: int = 0
    error: ErrorCode = NONE
    waiting: list[HeartbeatAnswer[OwnedPartitions]] = field(default_factory=list)
    slow: bool = False
    """Keeps what it is to give up until told otherwise."""
    told: Partitions = field(default_factory=dict)
    tells_owned: bool = True
    unheard: bool = False
    """Its last request was not answered: libraries say everything in the next one."""

    def beat(self, **said: Any) -> HeartbeatAnswer[OwnedPartitions]:
        """One heartbeat, answered at once."""
        self.send(**said)
        (answer,) = self.waiting
        self.hear()
        return answer

    def send(self, **said: Any) -> None:
        """One heartbeat; `hear` takes its answer."""
        joins = self.epoch == 0
        full = joins or self.unheard
        self.unheard = True
        asked: dict[str, Any] = {
            "group_id": "g",
            "member_id": self.member_id,
            "epoch": self.epoch,
            "client_id": "client",
            "client_host": "/127.0.0.1",
            "instance_id": self.instance,
            "rebalance_timeout_ms": self.rebalance_ms if full else -1,
            "topics": self.topics if full else None,
            "regex": self.regex if full else None,
            "assignor": self.assignor if full else None,
            "owned": {} if joins else (self.owned if self.tells_owned or full else None),
            **said,
        }
        self.waiting = ask(self.room, HeartbeatRequest(**asked))

    def hear(self) -> None:
        """Do what the answer says, if it is there."""
        if not self.waiting:
            return
        answer = self.waiting.pop()
        self.unheard = False
        self.error = answer.error
        if answer.error is not NONE:
            if answer.error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                self.epoch, self.owned, self.told = 0, {}, {}
            return
        self.epoch, self.interval_ms = answer.epoch, answer.interval_ms
        if answer.assigned is not None:
            self.told = {
                topic: frozenset(parts) for topic, parts in answer.assigned.items() if parts
            }
        if not self.slow:
            self.obey()

    def obey(self) -> None:
        """Give up what it is not to have, take what it is to have."""
        self.owned = dict(self.told)

    def leave(self, epoch: int = -1) -> HeartbeatAnswer[OwnedPartitions]:
        """Leave, for good or (-2) for a while."""
        (answer,) = ask(
            self.room,
            HeartbeatRequest("g", self.member_id, epoch, instance_id=self.instance),
        )
        self.epoch, self.owned, self.told = 0, {}, {}
        return answer

    @property
    def count(self) -> int:
        """How many partitions it owns."""
        return sum(map(len, self.owned.values()))


def settle(*consumers: Consumer, rounds: int = 12) -> None:
    """Heartbeats until nothing changes any more."""
    for _ in range(rounds):
        before = [(one.epoch, dict(one.owned)) for one in consumers]
        for one in consumers:
            one.beat()
            one.room.clock.advance(0.01)
        if before == [(one.epoch, dict(one.owned)) for one in consumers]:
            return
    raise AssertionError("the group does not settle")


def all_owned(*consumers: Consumer) -> dict[tuple[bytes, int], str]:
    """Who owns what; fails where two own the same."""
    found: dict[tuple[bytes, int], str] = {}
    for one in consumers:
        for topic, parts in one.owned.items():
            for partition in parts:
                assert (topic, partition) not in found, "two own the same partition"
                found[topic, partition] = one.member_id
    return found


def numbers(consumer: Consumer, topic: str = "t") -> frozenset[int]:
    """The partitions of one topic it owns."""
    return frozenset(consumer.owned.get(topic_id(topic), frozenset()))


def room(**settings: int) -> Room:
    """Make a coordinator of a cluster with topics `t` and `other`."""
    return Room(Settings(**settings), image=cluster({"t": 4, "other": 3}))
