"""Moves of queues' members and leaders, as RabbitMQ's `grow`, `shrink` and `rebalance`. Pure.

A queue's members are the replicas of its topic's partition. Before its first use it has no topic,
and members that are planned.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple


class Queue(NamedTuple):
    """A queue with its members, by the ids of their brokers (`queue.list`)."""

    vhost: str
    name: str
    type: str
    topic: str | None
    """The topic of its messages; None: it is not used yet."""
    leader: int | None
    members: tuple[int, ...]
    """The preferred leader first."""
    in_sync: tuple[int, ...]
    min_in_sync: int
    """How many members confirm a publish."""
    has_priorities: bool = False
    """Whether it has a partition for each priority, so that it has one member."""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Queue":
        """Return the queue of a row of `queue.list`."""
        return cls(
            row["vhost"],
            row["name"],
            row["type"],
            row["topic"],
            row["leader"],
            tuple(row["members"]),
            tuple(row["in_sync"]),
            row["min_in_sync"],
            bool(row["arguments"].get("x-max-priority")),
        )

    @property
    def majority(self) -> int:
        """The smallest number of members that are a majority."""
        return majority(self.members)

    @property
    def problem(self) -> str:
        """Why its members cannot be changed; empty: they can."""
        if self.has_priorities:
            return "it has priorities, so it has one member"
        if len(self.in_sync) < self.majority:
            return (
                f"it has no majority: {len(self.in_sync)} of {len(self.members)} members are in"
                " sync"
            )
        return "" if self.leader is not None else "it has no leader"


class QueueMove(NamedTuple):
    """Other members of a queue, or the same in another order, or the reason why not."""

    queue: Queue
    members: tuple[int, ...]
    problem: str = ""
    """Why the queue cannot be moved; empty: it can."""
    leads: bool = False
    """Whether the first of `members` is to lead."""


def majority(members: Sequence[int]) -> int:
    """Return the smallest number of these members that are a majority."""
    return len(members) // 2 + 1


def grown(queues: Iterable[Queue], broker: int, *, even: bool = False) -> Iterator[QueueMove]:
    """Yield the moves that make a broker a member of queues.

    `even`: only of queues with an even number of members, as RabbitMQ's strategy.
    """
    for queue in queues:
        if broker in queue.members:
            if queue.topic is not None and queue.min_in_sync != queue.majority:
                yield QueueMove(
                    queue, queue.members, queue.problem
                )  # the last part of an earlier move
        elif not even or len(queue.members) % 2 == 0:
            yield QueueMove(queue, (*queue.members, broker), queue.problem)


def shrunk(queues: Iterable[Queue], broker: int) -> Iterator[QueueMove]:
    """Yield the moves after which a broker is a member of no queue."""
    for queue in queues:
        left = tuple(member for member in queue.members if member != broker)
        if len(left) == len(queue.members):
            continue
        problem = queue.problem
        if not left:
            problem = f"broker {broker} is its last member"
        elif not problem and not set(left) & set(queue.in_sync):
            problem = f"no member but broker {broker} is in sync"
        yield QueueMove(queue, left or queue.members, problem)


def rebalanced(queues: Sequence[Queue], brokers: Collection[int]) -> list[QueueMove]:
    """Return the moves after which `brokers` lead equally many of the queues, as far as possible.

    Only members that are in sync become leaders. As in RabbitMQ, no queue moves to a broker that
    would lead more than the average, rounded up. Leaders that stay become the preferred ones.
    """
    led: dict[int, list[Queue]] = defaultdict(list)
    for queue in queues:
        if queue.leader is not None:
            led[queue.leader].append(queue)
    count = {broker: len(led[broker]) for broker in {*brokers, *led}}
    most = -(-sum(count.values()) // max(len(brokers), 1))
    moved: dict[Queue, int] = {}
    for leader in sorted(led, key=lambda broker: (-count[broker], broker)):
        for queue in led[leader]:
            if leader in brokers and count[leader] <= most:
                break
            heirs = [each for each in queue.in_sync if each in brokers and each != leader]
            heirs = [each for each in heirs if count[each] < most]
            if heirs and not queue.problem:
                heir = min(heirs, key=lambda broker: (count[broker], broker))
                count[leader] -= 1
                count[heir] += 1
                moved[queue] = heir
    moves = ((queue, moved.get(queue, queue.leader)) for queue in queues)
    return [
        QueueMove(queue, _led_by(queue, leader), leads=True)
        for queue, leader in moves
        if leader is not None and (queue in moved or _is_misplaced(queue))
    ]


def _is_misplaced(queue: Queue) -> bool:
    """Return whether the leader is not the preferred one, which would lead again later."""
    return queue.leader != queue.members[0] and not queue.problem


def _led_by(queue: Queue, leader: int) -> tuple[int, ...]:
    return (leader, *(member for member in queue.members if member != leader))


def critical(queues: Iterable[Queue], broker: int | None = None) -> Iterator[tuple[Queue, int]]:
    """Yield the used queues that would confirm no publish without one member more, with that.

    `broker`: only that one; None: each member in sync.
    """
    for queue in queues:
        if queue.topic is None or len(queue.in_sync) > max(queue.min_in_sync, queue.majority):
            continue
        for member in queue.in_sync:
            if broker in {None, member}:
                yield queue, member
