"""A new leader finds the newest file of settled positions among all replicas."""

from headrace.broker.partition import Partition
from headrace.broker.replica.in_sync_replicas import Replicas
from headrace.copies.messages import CopyAnswer
from headrace.delivery.settled_state import FrameName
from headrace.model.errors import ErrorCode
from headrace.model.nouns import LeaderEpoch, TopicPartition
from tests.support.log.log import overwrite
from tests.support.queues.copied import OTHER, CopiedQueue
from tests.support.queues.followers import FOLLOWER, LEADER, LOST, frame

OWN = frame(3, start=3, whole=True)
NEWER = frame(5, start=5, whole=True)
NAME = FrameName(1, 5)


class Search:
    """A search that has asked both other replicas, with an own file of frame 3."""

    def __init__(self) -> None:
        self.here = CopiedQueue()
        overwrite(self.here.world.disk, self.here.store._settlement.path, OWN)
        self.found: list[object] = []
        self.here.copying.newest(self.here.partition, self.found.append)
        self.here.world.settle()


def test_own_file_is_used_if_no_other_is_newer() -> None:
    search = Search()
    for last in (FrameName(1, 3), FrameName(0, 9)):
        assert search.found == []
        search.here.transport.refuse(CopyAnswer(last=last))
    assert search.found == [OWN]


def test_first_leader_of_a_queue_asks_no_replica() -> None:
    here = CopiedQueue()
    log = here.world.log(TopicPartition("first", 0))
    partition = Partition(log, flusher=here.world.directory.flusher)
    replicas = Replicas(LEADER, (LEADER, FOLLOWER, OTHER), (LEADER, FOLLOWER), 1)
    partition.role.lead(LeaderEpoch(0), replicas)
    found: list[object] = []
    here.copying.newest(partition, found.append)
    here.world.settle()
    assert (here.transport.asked, found) == ([], [b""])


def test_newer_file_is_read_in_parts() -> None:
    search = Search()
    search.here.transport.refuse(CopyAnswer(last=FrameName(1, 3)))
    search.here.transport.refuse(CopyAnswer(last=NAME))
    assert search.found == []
    size = len(NEWER)
    (question,) = search.here.transport.refuse(
        CopyAnswer(last=NAME, file_bytes=size, content=NEWER[:30])
    )
    assert question.read_from == 0
    (question,) = search.here.transport.refuse(
        CopyAnswer(last=NAME, file_bytes=size, content=NEWER[30:])
    )
    assert question.read_from == 30
    assert search.found == [NEWER]


def test_replicas_are_waited_for_no_longer_than_200_ms() -> None:
    search = Search()
    search.here.world.clock.advance(0.19)
    assert search.found == []
    search.here.world.clock.advance(0.02)
    assert search.found == [OWN]


def test_replica_that_refuses_is_asked_again() -> None:
    search = Search()
    search.here.transport.refuse(CopyAnswer(last=FrameName(1, 3)))
    search.here.transport.refuse(CopyAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert search.here.transport.asked == []
    search.here.world.clock.advance(0.06)
    search.here.transport.refuse(CopyAnswer(last=FrameName(1, 3)))
    assert search.found == [OWN]


def test_newer_file_that_does_not_arrive_whole_is_not_used() -> None:
    for answer in (LOST, CopyAnswer(last=NAME, file_bytes=10, content=NEWER[:10])):
        search = Search()
        search.here.transport.refuse(CopyAnswer(last=FrameName(1, 3)))
        search.here.transport.refuse(CopyAnswer(last=NAME))
        search.here.transport.refuse(answer)
        assert search.found == [OWN]


def test_newer_file_of_a_broker_that_ends_is_not_waited_for() -> None:
    search = Search()
    search.here.transport.refuse(CopyAnswer(last=FrameName(1, 3)))
    search.here.transport.refuse(CopyAnswer(last=NAME))
    search.here.world.clock.advance(1.1)
    assert search.found == [OWN]
