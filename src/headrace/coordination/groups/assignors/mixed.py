"""The uniform assignor for members with different subscriptions.

After it, no member has two partitions more than another that could take one over. Otherwise
partitions stay with their members.
"""

import heapq

from headrace.coordination.groups.assignors.spec import Assignment, GroupSpec, kept

_FEW = 8
"""Up to this many free partitions a linear search for the least loaded member beats a heap."""
PASSES_MAX = 64
"""Maximum balancing passes over all topics. Each move narrows the loads, so few are needed."""


class _Table:
    """The assignment while it is being computed: partitions and load of each member."""

    def __init__(self, spec: GroupSpec) -> None:
        self.spec = spec
        self.subscribers: dict[bytes, list[str]] = {}
        for member_id, member in spec.members.items():
            for topic in member.topics:
                self.subscribers.setdefault(topic, []).append(member_id)
        self.free = {topic: set(range(spec.partitions[topic])) for topic in self.subscribers}
        self.given: dict[str, dict[bytes, list[int]]] = {
            member_id: {} for member_id in spec.members
        }
        self.load = dict.fromkeys(spec.members, 0)
        # Topics with few subscribers are assigned first: other topics leave more choice.
        self.order = sorted(
            self.subscribers, key=lambda member_id: (len(self.subscribers[member_id]), member_id)
        )

    def give(self, member_id: str, topic: bytes, partition: int) -> None:
        self.given[member_id].setdefault(topic, []).append(partition)
        self.load[member_id] += 1

    def move(self, topic: bytes, source: str, target: str) -> None:
        self.give(target, topic, self.given[source][topic].pop())
        self.load[source] -= 1


def assign(spec: GroupSpec) -> Assignment:
    """Keep current partitions, assign the free ones, then balance the loads."""
    table = _Table(spec)
    for member_id, member in spec.members.items():
        for topic in member.present:
            if topic in member.topics:
                free = table.free[topic]
                for partition in kept(member, topic, spec.partitions[topic], free):
                    free.discard(partition)
                    table.give(member_id, topic, partition)
    for topic in table.order:
        _hand_out(table, topic)
    for _ in range(PASSES_MAX):
        loads = table.load.values()
        if max(loads) - min(loads) <= 1:
            break
        moved = False
        for topic in table.order:
            moved = _even_out(table, topic) or moved
        if not moved:
            break
    return {
        member_id: {topic: frozenset(parts) for topic, parts in own.items() if parts}
        for member_id, own in table.given.items()
    }


def _hand_out(table: _Table, topic: bytes) -> None:
    free = sorted(table.free[topic])
    if not free:
        return
    if len(free) <= _FEW:
        for partition in free:
            least = min(table.subscribers[topic], key=table.load.__getitem__)
            table.give(least, topic, partition)
        return
    heap = [
        (table.load[subscriber], at, subscriber)
        for at, subscriber in enumerate(table.subscribers[topic])
    ]
    heapq.heapify(heap)
    for partition in free:
        load, at, member_id = heap[0]
        table.give(member_id, topic, partition)
        heapq.heapreplace(heap, (load + 1, at, member_id))


def _even_out(table: _Table, topic: bytes) -> bool:
    """Move partitions of `topic` to members with at least two fewer; return whether any moved."""
    load, given = table.load, table.given
    subscribers = table.subscribers[topic]
    low = [(load[subscriber], at, subscriber) for at, subscriber in enumerate(subscribers)]
    high = [
        (-load[subscriber], at, subscriber)
        for at, subscriber in enumerate(subscribers)
        if given[subscriber].get(topic)
    ]
    heapq.heapify(low)
    heapq.heapify(high)
    moved = False
    while high:
        most, at, source = high[0]
        least, low_at, target = low[0]
        if -most != load[source] or not given[source][topic]:
            heapq.heappop(high)
            if given[source][topic]:
                heapq.heappush(high, (-load[source], at, source))
        elif least != load[target]:
            heapq.heapreplace(low, (load[target], low_at, target))
        elif load[source] - load[target] <= 1:
            break
        else:
            table.move(topic, source, target)
            moved = True
    return moved
