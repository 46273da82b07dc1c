"""`TopicPlanner`: checks topics to create or grow, and places their partitions on brokers. Pure.

It reads the metadata image only. Error codes are those of Kafka 4.3's controller
(ReplicationControlManager, ControllerApis).
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from headrace.broker.metadata_image import MetadataImage, folded
from headrace.config.descriptions import check_topic_config
from headrace.config.keys.log import LogKeys
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import METADATA_TOPIC, BrokerId, topic_name_problem
from headrace.model.protocols import feature_of, reserved_topics

USE_DEFAULT = -1

Assignment = Mapping[int, Sequence[int]]
"""Replicas by partition index."""

Spend = Callable[[int], None]
"""Called with the number of partitions about to be created or deleted; ApiError refuses (a quota).

Called on the broker that received the request, before anything is changed."""


def freely(partitions: int) -> None:
    """Do nothing: the `Spend` of a client without a quota."""


class NewTopic(NamedTuple):
    """A topic as a client requests it."""

    name: str
    partitions: int = USE_DEFAULT
    replication_factor: int = USE_DEFAULT
    assignment: Assignment = MappingProxyType({})
    """Replicas by partition; if not empty, the two numbers must be -1."""
    config: Mapping[str, str | None] = MappingProxyType({})


class Planned(NamedTuple):
    """A topic that was checked and placed, without an id."""

    name: str
    replicas: tuple[tuple[BrokerId, ...], ...]
    """Replicas of each partition, the preferred leader first."""
    config: Mapping[str, str]


class TopicPlanner:
    """Plans topics one after the other; a planned topic counts for the next ones."""

    def __init__(self, image: MetadataImage, limits: LogKeys) -> None:
        """Plan on `image`, which must not change in the meantime."""
        self._image = image
        self._limits = limits
        self._taken: dict[str, str] = {}
        """Names of planned topics, by their folded form ('.' and '_' are equal)."""
        self._partitions = image.partition_count

    def take(self, planned: Planned) -> None:
        """Count a planned topic as existing."""
        self._taken[folded(planned.name)] = planned.name
        self._partitions += len(planned.replicas)
        for replicas in planned.replicas:
            if replicas[0] in self._leading:
                self._leading[replicas[0]] += 1

    def plan(self, wanted: NewTopic) -> Planned:
        """Check a topic, place its partitions, and return the plan. ApiError: it is refused."""
        self._check_name(wanted.name)
        limits = self._limits
        if wanted.assignment:
            if wanted.partitions != USE_DEFAULT or wanted.replication_factor != USE_DEFAULT:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    "with a manual assignment, partitions and replication factor must be -1",
                )
            count = len(wanted.assignment)
            self._check_caps(count, count)
            replicas = check_assignment(wanted.assignment, self._image, first=0)
        else:
            count = limits.num_partitions if wanted.partitions == USE_DEFAULT else wanted.partitions
            if count <= 0:
                raise ApiError(ErrorCode.INVALID_PARTITIONS, f"{count} is no number of partitions")
            self._check_caps(count, count)
            factor = wanted.replication_factor
            if factor == USE_DEFAULT:
                factor = limits.default_replication_factor
            replicas = self.place(count, factor, feature=feature_of(wanted.name))
        return Planned(wanted.name, replicas, check_topic_config(wanted.config))

    def plan_growth(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None
    ) -> tuple[tuple[BrokerId, ...], ...]:
        """Return the replicas of the partitions to add, so that `name` has `count`.

        Raises ApiError.
        """
        topic = self._image.topics.get(name)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
        present = len(topic.partitions)
        if count <= present:
            raise ApiError(
                ErrorCode.INVALID_PARTITIONS,
                f"topic {name} has {present} partitions already, {count} is no more than that",
            )
        added = count - present
        self._check_caps(count, added)
        factor = len(topic.partitions[0].replicas)
        if assignments is None:
            return self.place(added, factor, [each.replicas[0] for each in topic.partitions])
        if len(assignments) != added:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{added} partitions are added, {len(assignments)} assignments were given",
            )
        by_index = dict(enumerate(assignments, present))
        replicas = check_assignment(by_index, self._image, first=present)
        if any(len(assigned) != factor for assigned in replicas):
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"each partition of {name} has {factor} replicas",
            )
        return replicas

    def place(
        self, count: int, factor: int, present: Sequence[BrokerId] = (), feature: str = ""
    ) -> tuple[tuple[BrokerId, ...], ...]:
        """Place `count` partitions with `factor` replicas each; return the replicas of each.

        Leadership is spread evenly: each broker is first equally often, and the remaining
        partitions go to the brokers that lead the fewest. Followers are the next brokers, shifted
        by one each time a broker is first again (as in Kafka), so that the load of a failed broker
        goes to all others. With racks, each replica is on another rack as far as possible.
        Brokers that seem to be dead are used only if the others are too few. `present`: the first
        replicas of the topic's other partitions. `feature`: one that all replicas' brokers need.
        INVALID_REPLICATION_FACTOR: too few brokers.
        """
        brokers = self._image.brokers_with(feature)
        if factor <= 0:
            raise ApiError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"{factor} is no replication factor; -1: default",
            )
        if factor > len(brokers):
            raise ApiError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"replication factor {factor} is larger than the number of brokers, {len(brokers)}",
            )
        live = (broker.broker_id for broker in self._image.reachable_brokers())
        reachable = {broker: brokers[broker] for broker in live if broker in brokers}
        if factor <= len(reachable):
            brokers = reachable
        if len(brokers) == 1:
            return ((next(iter(brokers)),),) * count
        leading = {broker: led for broker, led in self._leading.items() if broker in brokers}
        racks = {broker: info.rack for broker, info in brokers.items()}
        if any(rack is not None for rack in racks.values()):
            return placed_on_racks(count, factor, leading, racks, present)
        ring = list(leading)
        first = Counter(present)
        placed = []
        for _ in range(count):
            leader = min(ring, key=lambda broker: (first[broker], leading[broker], broker))
            at = ring.index(leader)
            others = ring[at + 1 :] + ring[:at]
            shift = leading[leader] % max(len(others), 1)
            placed.append((leader, *(others[shift:] + others[:shift])[: factor - 1]))
            leading[leader] += 1
            first[leader] += 1
        return tuple(placed)

    @cached_property
    def _leading(self) -> dict[BrokerId, int]:
        """Number of partitions that each live broker leads; all 0 if there is one broker."""
        leading = dict.fromkeys(sorted(self._image.brokers), 0)
        if len(leading) > 1:
            for topic in self._image.topics.values():
                for partition in topic.partitions:
                    if partition.leader in leading:
                        leading[partition.leader] += 1
        return leading

    def _check_name(self, name: str) -> None:
        """Refuse names that are invalid, taken, reserved, or equal in metrics ('.' equals '_')."""
        problem = topic_name_problem(name)
        if problem is not None:
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic name {name[:300]!r}: {problem}"
            )
        if name == METADATA_TOPIC:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{name} is reserved for KRaft's own log")
        other = self._taken.get(folded(name)) or self._image.collides_with(name)
        if name in self._image.topics or other == name:
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if other is not None and reserved_topics(name) is None:
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"{name} collides with existing topic {other}: '.' and '_' count as equal",
            )

    def _check_caps(self, count: int, added: int) -> None:
        limits = self._limits
        if count > limits.partitions_per_topic_max:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"{count} partitions are more than partitions.per.topic.max="
                f"{limits.partitions_per_topic_max}",
            )
        total = self._partitions + added
        if total > limits.partitions_max:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"{total} partitions in all would be more than"
                f" partitions.max={limits.partitions_max}",
            )


def placed_on_racks(
    count: int,
    factor: int,
    leading: Mapping[BrokerId, int],
    racks: Mapping[BrokerId, str | None],
    present: Sequence[BrokerId] = (),
) -> tuple[tuple[BrokerId, ...], ...]:
    """Place `count` partitions; each replica on the least used rack and broker.

    That is the rack with the fewest replicas of the partition, and there the broker with the fewest
    of all. `leading`: partitions that each broker leads; `present`: first replicas of the topic's
    other partitions. Brokers without a rack form one rack.
    """
    first = Counter(present)
    leading, holding = dict(leading), dict.fromkeys(leading, 0)
    ring = _racks_in_turn(racks)
    place_of = {broker: at for at, broker in enumerate(ring)}
    placed = []
    for _ in range(count):
        leader = min(
            ring,
            key=lambda broker: (
                first[broker], leading[broker], holding[broker], place_of[broker],
            ),
        )  # fmt: skip
        leading[leader] += 1
        first[leader] += 1
        replicas = [leader]
        there = Counter([racks[leader]])
        while len(replicas) < factor:
            found = min(
                (broker for broker in ring if broker not in replicas),
                key=lambda broker: (
                    there[racks[broker]],
                    holding[broker],
                    (place_of[broker] - place_of[leader]) % len(ring),
                ),
            )
            there[racks[found]] += 1
            replicas.append(found)
        for broker in replicas:
            holding[broker] += 1
        placed.append(tuple(replicas))
    return tuple(placed)


def _racks_in_turn(racks: Mapping[BrokerId, str | None]) -> list[BrokerId]:
    """Return the brokers ordered by turns of racks: the first of each rack, then the second, …"""
    by_rack: dict[str | None, list[BrokerId]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    names = sorted(by_rack, key=lambda rack: (rack is None, rack))
    most = max(len(brokers) for brokers in by_rack.values())
    return [
        by_rack[name][turn] for turn in range(most) for name in names if turn < len(by_rack[name])
    ]


def check_assignment(
    assignment: Assignment, image: MetadataImage, *, first: int
) -> tuple[tuple[BrokerId, ...], ...]:
    """Check a manual assignment; return the replicas by partition. INVALID_REPLICA_ASSIGNMENT."""
    refuse = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if sorted(assignment) != list(range(first, first + len(assignment))):
        raise ApiError(refuse, f"partitions must be numbered from {first} on, without holes")
    replicas = [
        tuple(BrokerId(broker) for broker in assignment[index]) for index in sorted(assignment)
    ]
    for index, found in enumerate(replicas, first):
        if not found:
            raise ApiError(refuse, f"partition {index} has no replica")
        if len(set(found)) < len(found):
            raise ApiError(refuse, f"partition {index} has a broker twice")
        for broker in found:
            if broker not in image.brokers:
                raise ApiError(refuse, f"partition {index}: there is no broker {broker}")
        if len(found) != len(replicas[0]):
            raise ApiError(refuse, "all partitions must have as many replicas as the first")
    return tuple(replicas)


def duplicates(names: Sequence[str]) -> Collection[str]:
    """Return the names that occur more than once."""
    return {name for name, times in Counter(names).items() if times > 1}
