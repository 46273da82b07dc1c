"""The `simple` assignor of share groups, with Kafka's goals and rules of our own.

Goals, in this order: each subscribed partition has a reader; each member reads a partition that it
subscribes to, sharing partitions if there are fewer of them than members; loads differ as little as
subscriptions allow; members keep their partitions.
"""

from collections.abc import Mapping
from heapq import heapify, heapreplace
from itertools import islice

NAME = "simple"
_ROUNDS_MAX = 4
"""Maximum rounds. One suffices if all subscriptions are equal; otherwise sharing may unbalance."""

Part = tuple[bytes, int]
"""Topic id and partition number."""
Wanted = Mapping[str, frozenset[Part]]
"""All partitions of the subscribed topics, by member."""


def assign(wanted: Wanted, former: Mapping[str, frozenset[Part]]) -> dict[str, frozenset[Part]]:
    """Return each member's partitions; `former` are its previous ones.

    Linear in members and partitions if all subscriptions are equal.
    """
    if len(set(wanted.values())) <= 1:
        return _assign_alike(wanted, former)
    for _ in range(_ROUNDS_MAX):
        found = _assign(wanted, former)
        if found == former:
            break
        former = found
    return found


def _assign(wanted: Wanted, former: Mapping[str, frozenset[Part]]) -> dict[str, frozenset[Part]]:
    members = sorted(wanted)
    parts = sorted(set().union(*wanted.values())) if members else []
    held: dict[str, set[Part]] = {member: set() for member in members}
    readers: dict[Part, int] = dict.fromkeys(parts, 0)
    if not parts:
        return {member: frozenset() for member in members}
    subscribers: dict[Part, list[str]] = {part: [] for part in parts}
    for member in members:
        for part in sorted(wanted[member]):
            subscribers[part].append(member)
            if not readers[part] and part in former.get(member, ()):
                held[member].add(part)
                readers[part] = 1
    for part in parts:
        if not readers[part]:
            held[
                min(subscribers[part], key=lambda member_id: (len(held[member_id]), member_id))
            ].add(part)
            readers[part] = 1
    while _even_out(held, wanted):
        pass
    _share(held, readers, wanted, former)
    return {member: frozenset(parts) for member, parts in held.items()}


def _assign_alike(
    wanted: Wanted, former: Mapping[str, frozenset[Part]]
) -> dict[str, frozenset[Part]]:
    """Assign if all subscriptions are equal: partition counts differ by at most one."""
    members = sorted(wanted)
    parts = sorted(wanted[members[0]]) if members else []
    if not parts:
        return {member: frozenset() for member in members}
    if len(parts) < len(members):
        return _together(members, parts, former)
    free = dict.fromkeys(parts)
    quota, extra = divmod(len(parts), len(members))
    held: dict[str, list[Part]] = {}
    for member in members:
        mine = [part for part in sorted(former.get(member, ())) if part in free]
        del mine[quota + (1 if extra else 0) :]
        extra -= len(mine) > quota
        held[member] = mine
        for part in mine:
            del free[part]
    left = iter(free)
    for mine in held.values():
        mine += islice(left, max(quota - len(mine), 0))
    for part, mine in zip(
        left, [parts for parts in held.values() if len(parts) == quota], strict=False
    ):
        mine.append(part)
    return {member: frozenset(mine) for member, mine in held.items()}


def _together(
    members: list[str], parts: list[Part], former: Mapping[str, frozenset[Part]]
) -> dict[str, frozenset[Part]]:
    """Assign fewer partitions than members: one to each, with reader counts that differ by at most
    one."""
    least, more = divmod(len(members), len(parts))
    readers = dict.fromkeys(parts, 0)
    held: dict[str, frozenset[Part]] = {}
    for member in members:
        for part in sorted(former.get(member, ())):
            count = readers.get(part, len(members))
            if count < least or (count == least and more):
                more -= count == least
                readers[part] = count + 1
                held[member] = frozenset({part})
                break
    fewest = [(count, part) for part, count in readers.items()]
    heapify(fewest)
    for member in members:
        if member not in held:
            count, part = fewest[0]
            heapreplace(fewest, (count + 1, part))
            held[member] = frozenset({part})
    return held


def _share(
    held: dict[str, set[Part]],
    readers: dict[Part, int],
    wanted: Wanted,
    former: Mapping[str, frozenset[Part]],
) -> None:
    """Give each member without partitions a shared one: a former one, else that with fewest
    readers."""
    least, more = divmod(len(held), len(readers))
    for member in sorted(held):
        if held[member] or not wanted[member]:
            continue
        fits = [
            part
            for part in sorted(former.get(member, frozenset()) & wanted[member])
            if readers[part] < least or (readers[part] == least and more)
        ]
        part = (
            fits[0] if fits else min(wanted[member], key=lambda choice: (readers[choice], choice))
        )
        more -= readers[part] == least and more > 0
        held[member].add(part)
        readers[part] += 1


def _even_out(held: dict[str, set[Part]], wanted: Wanted) -> bool:
    """Move partitions from members to others that have at least two fewer; return whether any
    moved."""
    moved = False
    for poor in sorted(held, key=lambda member_id: (len(held[member_id]), member_id)):
        while True:
            richer = [
                member_id for member_id in held if len(held[member_id]) - len(held[poor]) >= 2
            ]
            richer = [member_id for member_id in richer if held[member_id] & wanted[poor]]
            if not richer:
                break
            rich = max(richer, key=lambda member_id: (len(held[member_id]), member_id))
            part = max(held[rich] & wanted[poor])
            held[rich].remove(part)
            held[poor].add(part)
            moved = True
    return moved
