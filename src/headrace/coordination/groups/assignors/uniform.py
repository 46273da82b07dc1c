"""The `uniform` assignor: partition counts differ by at most one, and partitions stay if
possible."""

from collections import deque

from headrace.coordination.groups.assignors import mixed
from headrace.coordination.groups.assignors.spec import Assignment, GroupSpec, kept


def assign(spec: GroupSpec) -> Assignment:
    """Balance over all topics together; linear in members and partitions if all subscribe alike."""
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
    """Remove up to `limit` of the member's current partitions from `free`, and return them."""
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
    """Assign the remaining partitions to members with room, round robin, so that topics are
    spread."""
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
