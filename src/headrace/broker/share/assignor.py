"""Who in a share group reads what: Kafka's `simple` assignor's aims, by our own rules.

Every partition somebody subscribes to is read by somebody; every member reads something it
subscribes to, sharing partitions where there are fewer of them than members; loads differ as little
as subscriptions allow; and who has something keeps it, unless that breaks the first three.
"""

from collections.abc import Mapping

NAME = "simple"

Part = tuple[bytes, int]
"""Topic id and partition."""
Wanted = Mapping[str, frozenset[Part]]
"""Member to the partitions of all it subscribes to."""


def assign(wanted: Wanted, former: Mapping[str, frozenset[Part]]) -> dict[str, frozenset[Part]]:
    """What each member is to read; `former` is what it was to read before."""
    members = sorted(wanted)
    parts = sorted(set().union(*wanted.values())) if members else []
    held: dict[str, set[Part]] = {member: set() for member in members}
    readers: dict[Part, int] = dict.fromkeys(parts, 0)
    if not parts:
        return {member: frozenset() for member in members}
    fair = -(-len(parts) // len(members))

    def give(member: str, part: Part) -> None:
        held[member].add(part)
        readers[part] += 1

    for member in members:
        for part in sorted(former.get(member, frozenset()) & wanted[member]):
            if not readers[part] and len(held[member]) < fair:
                give(member, part)
    subscribers: dict[Part, list[str]] = {part: [] for part in parts}
    for member in members:
        for part in wanted[member]:
            subscribers[part].append(member)
    for part in parts:
        if not readers[part]:
            give(min(subscribers[part], key=lambda one: (len(held[one]), one)), part)
    _even_out(held, wanted)
    shared = -(-len(members) // len(parts))
    for member in members:
        if held[member] or not wanted[member]:
            continue
        kept = [one for one in sorted(former.get(member, ())) if one in wanted[member]]
        kept = [one for one in kept if readers[one] < shared]
        give(member, kept[0] if kept else min(wanted[member], key=lambda one: (readers[one], one)))
    return {member: frozenset(parts) for member, parts in held.items()}


def _even_out(held: dict[str, set[Part]], wanted: Wanted) -> None:
    """Move partitions from who has most to who has at least two less, while that is possible."""
    for poor in sorted(held, key=lambda one: (len(held[one]), one)):
        while True:
            richer = [one for one in held if len(held[one]) - len(held[poor]) >= 2]
            richer = [one for one in richer if held[one] & wanted[poor]]
            if not richer:
                break
            rich = max(richer, key=lambda one: (len(held[one]), one))
            part = max(held[rich] & wanted[poor])
            held[rich].remove(part)
            held[poor].add(part)
