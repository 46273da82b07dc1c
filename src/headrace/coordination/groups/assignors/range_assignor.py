"""The `range` assignor: per topic each subscriber gets contiguous partitions, the first ones one
more.

Topics with the same subscribers and partition count are split alike, so records with one key meet
in one member. Static members come first, ordered by instance id: a restart under a new member id
changes nothing.
"""

from headrace.coordination.groups.assignors.spec import Assignment, GroupSpec
from headrace.model.ranges import split_into_ranges


def assign(spec: GroupSpec) -> Assignment:
    """Assign each topic by itself; the members' previous partitions are ignored."""

    def place(member_id: str) -> tuple[bool, str]:
        instance = spec.members[member_id].instance_id
        return instance is None, member_id if instance is None else instance

    in_order = sorted(spec.members, key=place)
    given: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id in spec.members}
    for topic, member_ids in _readers(spec, in_order).items():
        for member_id, numbers in split_into_ranges(spec.partitions[topic], member_ids):
            given[member_id][topic] = frozenset(numbers)
    return dict(given)


def _readers(spec: GroupSpec, in_order: list[str]) -> dict[bytes, list[str]]:
    """Return each topic's subscribers in order; one shared list if all members subscribe alike."""
    if spec.is_homogeneous:
        topics = spec.members[in_order[0]].topics if in_order else frozenset()
        return dict.fromkeys(topics, in_order)
    readers: dict[bytes, list[str]] = {}
    for member_id in in_order:
        for topic in spec.members[member_id].topics:
            readers.setdefault(topic, []).append(member_id)
    return readers
