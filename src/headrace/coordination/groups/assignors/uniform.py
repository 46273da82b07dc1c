"""`uniform`: members' numbers of partitions differ by one at most, and what can stay stays."""

from collections import deque

from headrace.coordination.groups.assignors import mixed
from headrace.coordination.groups.assignors.spec import Assignment, GroupSpec, kept


def assign(spec: GroupSpec) -> Assignment:
    """Balance over all topics together. Linear in members and partitions where all subscribe to
    the same topics."""
    if not spec.members:
        return {}
    if not spec.is_homogeneous:
        return mixed.assign(spec)
    topics = sorted(next(iter(spec.members.values())).topics)
    free = {topic: set(range(spec.partitions[topic])) for topic in topics}
    quota, extra = divmod(sum(map(len, free.values())), len(spec.members))
    given: dict[str, dict[bytes, list[int]]] = {}
    short: deque[tuple[str, int]] = deque()
    for member_id in spec.members:
        limit = quota + (1 if extra else 0)
        own = given[member_id] = _keep(spec, member_id, limit, free)
        size = sum(map(len, own.values()))
        if size > quota:
            extra -= 1
        else:
            short.append((member_id, quota - size))
    _deal(topics, free, given, short)
    return {
        member_id: {topic: frozenset(parts) for topic, parts in own.items() if parts}
        for member_id, own in given.items()
    }


def _keep(
    spec: GroupSpec, member_id: str, limit: int, free: dict[bytes, set[int]]
) -> dict[bytes, list[int]]:
    """Take up to `limit` partitions of what the member has out of `free`."""
    member = spec.members[member_id]
    own: dict[bytes, list[int]] = {}
    for topic in member.present:
        if limit <= 0:
            break
        unclaimed = free.get(topic)
        if unclaimed is None:
            continue
        stays = kept(member, topic, spec.partitions[topic], unclaimed)[:limit]
        limit -= len(stays)
        if stays:
            own[topic] = stays
            unclaimed.difference_update(stays)
    return own


def _deal(
    topics: list[bytes],
    free: dict[bytes, set[int]],
    given: dict[str, dict[bytes, list[int]]],
    short: deque[tuple[str, int]],
) -> None:
    """Hand what is left to those who have room, one each in turn: every topic is spread."""
    full = deque(member_id for member_id, room in short if room <= 0)
    waiting = deque((member_id, room) for member_id, room in short if room > 0)
    for topic in topics:
        for partition in sorted(free[topic]):
            if waiting:
                member_id, room = waiting.popleft()
                if room > 1:
                    waiting.append((member_id, room - 1))
                else:
                    full.append(member_id)
            else:
                member_id = full.popleft()
            given[member_id].setdefault(topic, []).append(partition)
